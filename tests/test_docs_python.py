"""What docs/python.md says works: its blocks run one after another, and what it names is there."""

import re
from pathlib import Path

import pytest
import torch

import zoo

PAGE = Path(__file__).resolve().parent.parent / "docs" / "python.md"
TEXT = PAGE.read_text(encoding="utf8") if PAGE.is_file() else ""
pytestmark = pytest.mark.skipif(not TEXT, reason="not a checkout")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_its_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for number, code in enumerate(blocks):
        exec(compile(code, f"python.md, block {number}", "exec"), names)
    assert len(blocks) == 8
    shapes = {"logits": (2, 10), "pooled": (2, 64), "layer": (2, 16, 64), "look": (2, 4, 4), "vectors": (2, 64)}
    assert {name: tuple(names[name].shape) for name in shapes} == shapes
    assert names["crossed"].shape[:2] == (1, 4) and names["loss"].isfinite()
    assert str(zoo.list("vit*")[:2])[:-1] in capsys.readouterr().out


def test_its_table_names_what_there_is():
    with torch.device("meta"):
        task = zoo.create("vit-ti16")
    named = set(re.findall(r"`task\.(\w+)", TEXT)) | {
        "num_features",
        "num_classes",
        "num_prefix_tokens",
        "feature_info",
    }
    assert len(named) > 12 and not {name for name in named if name not in dir(task) and name not in ("tokenizer",)}
    assert {name for name in re.findall(r"`zoo\.(\w+)", TEXT) if name not in dir(zoo)} == set()
