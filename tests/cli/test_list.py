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
