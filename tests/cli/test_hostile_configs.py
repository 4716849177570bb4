"""Configs are input: what they may name, how large they may be, and where they may write."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonargparse._parameter_resolvers import get_signature_parameters

import zoo
from tests.long import configs
from zoo import allowed

VALUES = (  # the rest in ``python -m tests.long.configs``
    *("a program as a callback", "its class as a task", "its class below a part", "its class in a text"),
    *("a shell as an optimizer", "a shell as a hook", "a shell by way of the library", "a file handler"),
    *("permission for itself", "a checkpoint at an address", "a checkpoint that may hold code"),
    *("a log outside its directory", "a checkpoint outside its directory"),
)
MALFORMED = (
    *("nothing", "a list", "an inner key twice", "an alias bomb", "an alias bomb in a text", "a tag of Python's"),
    *("a NUL", "Latin-1", "deep lists", "two megabytes", "a number of 400,000 digits", "a trainer that is nothing"),
)
PART = "import lightning.pytorch as pl\n\nprint('imported')\n\n\nclass Part(pl.Callback):\n    pass\n"


def answered(command, cases, name: str) -> str:
    """What is said about a case, after a check that nothing was run and that the file is named in one line."""
    (case,) = [case for case in cases if case.name == name]
    answer = command(*case.words)
    assert configs.fault(case, answer.code, answer.err) is None
    assert not list(Path.cwd().parent.rglob(f"*{configs.CANARY}*")) and configs.MODULE not in sys.modules
    return answer.err


@pytest.mark.parametrize("name", VALUES)
def test_a_hostile_value_is_answered_in_one_line_and_imports_nothing(command, name):
    configs.prepare(Path.cwd())
    answered(command, configs.value_cases(Path.cwd()), name)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_config_is_answered_in_one_line(command, name):
    answered(command, configs.yaml_cases(Path.cwd()), name)


def test_a_class_that_is_not_allowed_is_told_with_its_line_and_the_flag(command):
    Path("bad.yaml").write_text("trainer:\n  callbacks:\n  - class_path: subprocess.Popen\n")
    told = "subprocess.Popen is not among the classes that a config may name; if you trust it: --allow subprocess"
    assert command("fit", "--config", "digits", "--config", "bad.yaml").err == f"zoo: error: bad.yaml:3: {told}\n"


def test_limits_hold_on_flags_too(command):
    for word in ("--trainer.callbacks=" + "[" * 50 + "]" * 50, "--config={trainer: {}, trainer: {}}"):
        answer = command("fit", "--config", "digits", word)
        assert answer.code == 2 and answer.err.startswith("zoo: error: --"), answer.err


@pytest.mark.parametrize("flags", [["--allow", "own"], ["--allow=other,own"]])
def test_what_the_user_allows_is_imported(command, flags):
    Path("own.py").write_text(PART)
    sys.modules.pop("own", None)
    answer = command("fit", "--config", "digits", "--trainer.callbacks=own.Part", *flags)
    assert answer.code == 0 and "imported" in answer.out, answer.err
    assert command("fit", "--config", "digits", "--trainer.callbacks=own.Part").code == 2  # each command line anew


def test_the_parser_itself_cannot_be_allowed(command):
    answer = command("fit", "--config", "digits", "--allow", "jsonargparse")
    assert answer.code == 2 and "'jsonargparse' is no package that can be allowed" in answer.err


def test_neither_the_environment_nor_a_config_allows(command, monkeypatch):
    monkeypatch.setenv("ZOO_ALLOW", "own")
    Path("own.py").write_text(PART)
    Path("bad.yaml").write_text("trainer: {callbacks: [own.Part]}\nallow: own")
    assert command("fit", "--config", "digits", "--config", "bad.yaml").code == 2


def test_files_of_the_working_directory_are_not_imported(tmp_path):
    for name in ("random", "yaml", "re", "typing", "difflib", "dataclasses", "torch", "__future__", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    code = f"import sys; sys.path.append({str(Path(zoo.__file__).resolve().parent.parent)!r})"
    (tmp_path / "sitecustomize.py").write_text(code)  # so that a checkout is found, wherever it stands
    place = {"PYTHONPATH": str(Path(zoo.__file__).resolve().parent.parent), "PATH": ""}
    words = [sys.executable, "-m", "zoo", "convert", "nothing", "there"]
    done = subprocess.run(words, cwd=tmp_path, env=place, capture_output=True, text=True)
    assert done.returncode == 1 and "nothing" in done.stderr and "imported" not in done.stderr


def test_a_checkpoint_may_name_only_what_a_config_may():
    kept = {"_class_path": "zoo.tasks.classify.Classify", "_instantiator": allowed.INSTANTIATOR}
    allowed.refuse_foreign({**kept, "backbone": {"class_path": "zoo.models.vit.ViT"}}, "x.ckpt")
    for hostile in (
        {**kept, "_instantiator": "os.system"},
        {**kept, "_class_path": "hostile.Task"},
        {**kept, "parts": [{"class_path": "os.system", "init_args": {}}]},
    ):
        with pytest.raises(ValueError, match=r"^x.ckpt: (os|hostile)\.\w+ is not among the classes"):
            allowed.refuse_foreign(hostile, "x.ckpt")


def test_no_argument_of_ours_takes_anything_whatever():
    """A value without a type is not checked; what Lightning, torch and a result bring along is listed."""
    known = {"Loader", "MuonAdamW", "Written", "Progress"}
    for name in (name for names in zoo.EXPORTS.values() for name in names if name not in known):
        value = getattr(zoo, name)
        if isinstance(value, type) and not issubclass(value, BaseException):
            for one in get_signature_parameters(value):
                assert one.annotation not in (Any, object, inspect.Parameter.empty), f"{name}.{one.name}"
                assert "typing.Any" not in str(one.annotation), f"{name}.{one.name}"


def test_every_public_class_may_be_named_and_nothing_beside_them():
    for module, names in zoo.EXPORTS.items():
        for name in names:
            value = getattr(zoo, name)
            home = value.__module__
            paths = (f"zoo.{name}", f"{module}.{name}", f"{home}.{name}" if home.startswith("zoo.") else f"zoo.{name}")
            assert all(allowed.allows(path) for path in paths), name
    for path in ("zoo.cli.facts.git", "zoo.cli.run.os.system", "os.system", "torch.load", "lightning.pytorch.Trainer"):
        assert not allowed.allows(path), path
