"""What needs no torch: help, lists, versions."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", (["--help"], ["list"], ["list", "families", "vit"], ["--version"]), ids=" ".join)
def test_torch_is_not_imported(words):
    code = "import sys; from zoo.__main__ import main; main(sys.argv[1:]); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "lightning", "numpy", "yaml", "jsonargparse"} & set(out.splitlines()[-1].split())


def test_list_shows_configs_and_classes(command):
    families = command("list", "families")
    assert "ViT" in families.out and "Dosovitskiy" in families.out and "GPT2" in families.out
    assert "trainer/gpu" in command("list", "configs").out
    filtered = command("list", "families", "gpt").out
    assert "GPT2" in filtered and "ViT" not in filtered
    everywhere = command("list", "digits").out
    assert "vit_digits_size" in everywhere and "caption_digits" in everywhere and "GPT2" not in everywhere


MISTAKES = {
    ("list", "famlies", "vit"): "there is no kind 'famlies'; did you mean 'families'?",
    ("list", "configs", "vitt_digits"): "nothing contains 'vitt_digits'; did you mean 'vit_digits'?",
    ("completion", "bsh"): "there is no 'bsh'; did you mean 'bash'?",
    ("completion", "tcsh"): "there is no 'tcsh'; there is bash, fish, zsh",
    ("schema", "--uot", "x"): "there is no argument '--uot'; did you mean '--out'?",
    ("compare",): "the following arguments are required: run",
    ("convert", "a"): "the following arguments are required: destination",
    ("fitt",): "no verb 'fitt'; did you mean 'fit'?",
    ("--config", "vit_digits", "fti"): "a verb comes first; did you mean 'fit'?",
    ("--config", "vit_digits"): "a verb comes first; there are fit, validate",
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_a_mistake_is_answered_in_a_line(words, command):
    answer = command(*words)
    (line,) = answer.err.splitlines()
    assert answer.code == 2 and line.startswith("zoo: error: " + MISTAKES[words])
