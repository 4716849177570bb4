"""The rules about the source that a reader may rely on: who imports whom, how long a file is, what is public."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import zoo

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(zoo.__file__).resolve().parent
FILES = sorted(SOURCE.rglob("*.py"))

LEAVES = {"allowed", "atomic", "described", "documents", "heartbeat", "memory", "rng", "secrets", "settings"}
MAY_IMPORT = {  # part of the package -> what it may import besides itself and the leaves
    "allowed": set(),
    "atomic": set(),
    "documents": set(),
    "heartbeat": set(),
    "memory": set(),
    "described": set(),
    "rng": set(),
    "secrets": set(),
    "settings": set(),
    "nn": set(),
    "optim": set(),
    "convert": {"nn"},
    "tokenizers": {"nn"},
    "files": {"convert", "tokenizers"},
    "parts": {"nn"},
    "precision": {"nn"},
    "listing": set(),
    "processors": {"nn", "convert", "tokenizers"},
    "models": {"nn", "convert", "tokenizers", "processors"},
    "hub": {"nn", "convert", "models", "tokenizers", "generation", "files", "parts", "precision"},
    "generation": {"nn", "tokenizers"},
    "checkpoints": set(),
    "pictures": set(),
    "runs": set(),
    "parallel": {"nn", "checkpoints"},
    "tasks": {"nn", "optim", "parallel", "tokenizers", "generation", "pictures", "precision", "checkpoints"},
    "data": {"tokenizers"},
    "callbacks": {"nn", "tokenizers", "parallel", "tasks", "data", "pictures", "runs", "checkpoints"},
    "planning": {"nn", "parallel", "tokenizers", "tasks", "data", "callbacks"},
    "cli": {
        *("nn", "tokenizers", "generation", "models", "hub", "convert", "parts", "precision", "tasks", "data"),
        *("callbacks", "checkpoints", "pictures", "planning", "runs", "listing"),
    },
}
LIGHTNING = {"checkpoints", "parallel", "tasks", "data", "callbacks", "planning", "cli"}


def part(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """The full names of everything that a file imports, at its top or later."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    own, names = part(path), imported(path)
    if own.startswith("__"):
        assert not {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
        return
    assert {name.split(".")[1] for name in names if name.startswith("zoo.")} <= {
        *MAY_IMPORT[own],
        *LEAVES,
        own,
        *({"EXPORTS"} if own in ("allowed", "cli", "listing") else ()),
    }
    if own not in LIGHTNING:
        assert not {name for name in names if name.split(".")[0] in ("lightning", "wandb", "torchmetrics")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_reads_in_one_sitting_and_says_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


@pytest.mark.parametrize("module", zoo.EXPORTS)
def test_the_table_of_public_names_is_true(module):
    package = importlib.import_module(module)
    public = {name for name in package.__all__ if not inspect.ismodule(getattr(package, name))}
    assert set(zoo.EXPORTS[module]) == public
    for name in public:
        home = importlib.import_module(zoo._HOME[name])
        assert getattr(zoo, name) is getattr(home, name)


def test_no_public_name_means_two_things():
    names = [name for names in zoo.EXPORTS.values() for name in names]
    assert sorted(set(names)) == sorted(names)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="ViTT"):
        _ = zoo.ViTT


def test_models_load_without_lightning():
    code = "import sys; from zoo.models import ViT; import zoo; zoo.ViT; print(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent
    ).stdout
    loaded = {name.split(".")[0] for name in out.split()}
    assert "torch" in loaded
    assert not loaded & {"lightning", "wandb", "timm", "transformers", "torchvision", "sklearn"}


def test_checkpoints_load_without_lightning():
    code = "import sys, zoo, torch; torch.set_default_device('meta'); zoo.create_backbone('gpt2'); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parent)
    assert not {name.split(".")[0] for name in out.stdout.split()} & {"lightning", "wandb", "timm", "transformers"}


def test_a_family_stays_short():
    """The design's promise: parts, families, tables and checkpoints, packing and the fused loss, in 4,400
    lines, blank ones not counted."""
    counted = [*SOURCE.glob("nn/*.py"), *SOURCE.glob("models/*.py"), *SOURCE.glob("hub/*.py"), SOURCE / "convert.py"]
    assert sum(bool(line.strip()) for path in counted for line in path.read_text("utf8").splitlines()) < 4400


@pytest.mark.skipif(not (ROOT / "configs").is_dir(), reason="not a checkout")
def test_every_config_says_what_it_is_and_how_to_run_it():
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        head = [line for line in path.read_text(encoding="utf-8").splitlines()[:8] if line.startswith("# ")]
        assert len(head) >= 2, f"{path} has no head"
        start = "wandb sweep" if path.parent.name == "sweeps" else "python -m zoo"
        assert any(start in line for line in head), f"{path} does not say how it is run"
