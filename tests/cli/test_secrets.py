"""Passwords and keys: what is taken for one, and ten of them through a run with W&B."""

from pathlib import Path

import pytest
from jsonargparse._parameter_resolvers import get_signature_parameters

import zoo
from tests.long import secrets as planted
from zoo.secrets import NAMES, on_command_line, told, without_secrets


@pytest.mark.filterwarnings("ignore")
def test_ten_secrets_reach_no_file(command, monkeypatch):
    wandb = pytest.importorskip("wandb")
    words, environment = planted.plant(Path.cwd())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = command(*words)
    assert answer.code == 0, answer.err
    wandb.teardown()
    assert planted.found(Path.cwd()) == {}


def test_what_lies_below_a_secret_name_is_hidden_whatever_its_own():
    config = {"credentials": {"user": "me", "number": 5}, "password": 1234, "rule": {"token": 7}, "n": True}
    assert without_secrets(config) == {
        "credentials": {"user": "(hidden)", "number": "(hidden)"},
        "password": "(hidden)",
        "rule": {"token": 7},
        "n": True,
    }


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://me:pw@host/x", "https://(hidden)@host/x"),
        ("https://host/x?api_key=abc&page=1", "https://host/x?api_key=(hidden)&page=1"),
        ("told by hf_abcdefghijklmnopqrst", "told by (hidden)"),
        ("Authorization: Bearer abcdefghijk", "Authorization: (hidden)"),
        ("a@b.c and x=1", "a@b.c and x=1"),
        ("task-number-twelve", "task-number-twelve"),
    ],
)
def test_secrets_within_a_text_are_hidden(text, left):
    assert without_secrets(text) == told(text) == left


def test_a_config_in_a_line_is_looked_into():
    assert on_command_line(["fit", "--config={model: {init_args: {hub: {api_key: x}}}}"])
    assert on_command_line(["fit", "--trainer.callbacks+=[{class_path: a.B, init_args: {password: x}}]"])
    assert not on_command_line(["fit", "--config={model: {init_args: {dim: 3}}}"])


def test_an_error_does_not_tell_a_secret(command, monkeypatch):
    monkeypatch.setenv("MY_ACCESS_TOKEN", "CANARY-environment")
    answer = command("fit", "--config", "digits", "--data.root=CANARY-environment/x")
    assert answer.code == 1 and "(hidden)" in answer.err and "CANARY" not in answer.err


def test_no_text_argument_of_ours_is_taken_for_a_secret():
    """It would not survive a checkpoint."""
    for names in zoo.EXPORTS.values():
        for value in (getattr(zoo, name) for name in names if isinstance(getattr(zoo, name), type)):
            if not issubclass(value, BaseException):
                arguments = [one for one in get_signature_parameters(value) if NAMES.search(one.name)]
                assert all(one.annotation is int and one.name.endswith("token") for one in arguments), value
