"""``zoo.list``: the names of what there is, as the objects themselves say, without torch."""

import builtins
import subprocess
import sys

import pytest

import zoo
from zoo.listing import shipped
from zoo.models import PUBLISHED

SIZES = sorted({name for published in PUBLISHED for name in published.sizes})


def test_all_published_sizes():
    assert zoo.list() == SIZES


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("vit*", [name for name in SIZES if name.startswith("vit")]),
        ("gpt2", ["distilgpt2", "gpt2", "gpt2-large", "gpt2-medium", "gpt2-xl"]),
        ("GPT2-*", ["gpt2-large", "gpt2-medium", "gpt2-xl"]),
        ("vit-?16", ["vit-b16", "vit-l16", "vit-s16"]),
        ("nothing of this name", []),
    ],
)
def test_filters(pattern, expected):
    assert zoo.list(pattern) == expected != SIZES


def test_other_kinds():
    assert zoo.list(kind="families") == sorted(zoo.EXPORTS["zoo.models"])
    assert zoo.list("*lm", kind="tasks") == ["CausalLM", "MaskedLM"]
    assert zoo.list("vit_", kind="configs") == sorted(name for name in shipped() if "vit_" in name) != []
    assert "Images" in zoo.list(kind="data") and "Patches" in zoo.list(kind="tokenizers")


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="no kind 'family'; did you mean 'families'?"):
        zoo.list(kind="family")
    with pytest.raises(ValueError, match="no kind 'xyz'; there are sizes, configs, sweeps"):
        zoo.list(kind="xyz")


def test_it_needs_no_torch_and_leaves_python_s_own_alone():
    code = "import sys, zoo; zoo.list(); assert 'torch' not in sys.modules; from zoo import *; print(list is type([]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "True" and zoo.list is not builtins.list
