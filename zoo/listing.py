"""What the library contains, read from its files' text, so that it answers before torch could be imported."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from zoo import EXPORTS

__all__ = ["list"]

PACKAGE = Path(__file__).resolve().parent
PLACES = (PACKAGE / "configs", PACKAGE.parent / "configs")  # an installed wheel, a checkout
SWEEPS = "sweeps/"
KINDS = {  # title -> where they are, and what they are subclasses of
    "tasks": ("tasks", ("Task",)),
    "data": ("data", ("DataModule", "LightningDataModule")),
    "families": ("models", ("Backbone", "EncoderDecoder")),
    "tokenizers": ("tokenizers", ("Tokenizer",)),
    "callbacks": ("callbacks", ("Callback", "ModelSummary", "ProgressBar", "RichProgressBar")),
}
ALL = ("configs", "sweeps", *KINDS)


def list(filter: str = "", kind: str = "sizes") -> builtins.list[str]:
    """The names of all published sizes that ``filter`` matches, sorted: what ``zoo.create`` takes.

    ``filter`` is a pattern ("vit*", as in timm's ``list_models``) or a part of the name, in any case.  ``kind`` can
    be "configs", "sweeps", "tasks", "data", "families", "tokenizers" or "callbacks".  Raises ValueError for another.
    """
    if kind == "sizes":
        names = {name for _, _, sizes in rows("families") for name in re.findall(r"([^\s,]+):", sizes)}
    elif kind in ALL:
        names = {row[0] for row in rows(kind)}
    else:
        close = difflib.get_close_matches(kind, ALL, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are sizes, {', '.join(ALL)}"
        raise ValueError(f"no kind {kind!r}; {hint}")
    pattern = filter.lower() if set("*?[") & set(filter) else f"*{filter.lower()}*"
    return sorted(name for name in names if fnmatchcase(name.lower(), pattern))


def shipped() -> dict[str, Path]:
    """Name, such as ``vit_cifar`` or ``trainer/gpu`` -> file."""
    for place in PLACES:
        if place.is_dir():
            found = {path.relative_to(place).with_suffix("").as_posix(): path for path in sorted(place.rglob("*.yaml"))}
            return {name: path for name, path in found.items() if not name.startswith(SWEEPS)}
    return {}


def sweeps() -> dict[str, Path]:
    """Name -> file, of the searches that W&B can start."""
    return {path.stem: path for place in PLACES for path in sorted((place / SWEEPS).glob("*.yaml"))}


def rows(kind: str) -> Iterator[tuple[str, ...]]:
    """What there is of a kind: its name and what it is; of configs also what was measured, of families the sizes."""
    if kind == "configs":
        for name, path in shipped().items():
            yield name, *head(path)
        return
    if kind == "sweeps":
        for name, path in sweeps().items():
            yield name, head(path)[0], str(path)
        return
    folder, roots = KINDS[kind]
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((PACKAGE / folder).rglob("*.py"))]
    classes = [(module, node) for module in modules for node in module.body if isinstance(node, ast.ClassDef)]
    bases = {node.name: [ast.unparse(base).split(".")[-1] for base in node.bases] for _, node in classes}
    for module, node in classes:
        if node.name in EXPORTS[f"zoo.{folder}"] and descends(node.name, roots, bases) and node.name not in roots:
            if kind == "families":  # a family is a file, and its docstring names the paper
                yield node.name, first_sentence(ast.get_docstring(module) or ""), sizes(module, node.name)
            else:
                yield node.name, first_sentence(ast.get_docstring(node) or "")


def sizes(module: ast.Module, family: str) -> str:
    """The published sizes that a family's file states, with their parameters.

    A table of sizes belongs to the class that stands beside it, or else to that of the table before.
    """
    named = {ast.unparse(node.targets[0]): node.value for node in module.body if isinstance(node, ast.Assign)}
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef)]
    owner, found = "", {}
    for call in named.values():
        words = {word.arg: word.value for word in call.keywords} if isinstance(call, ast.Call) else {}
        table = words.get("sizes")
        if isinstance(call, ast.Call) and isinstance(table, ast.Dict):
            owner = next((name for name in map(ast.unparse, (*call.args, *words.values())) if name in classes), owner)
            if owner == family:
                found |= {ast.literal_eval(name): size for name, size in zip(table.keys, table.values) if name}
    counts = {name: named.get(size.id) if isinstance(size, ast.Name) else size for name, size in found.items()}
    return ", ".join(
        f"{name}:{readable(ast.literal_eval(size.args[0]))}"
        for name, size in counts.items()
        if isinstance(size, ast.Call)
    )


def readable(count: int) -> str:
    """124439808 -> 124M"""
    for unit, factor in (("B", 10**9), ("M", 10**6)):
        if count >= factor:
            return f"{count / factor:.3g}{unit}"
    return str(count)


def descends(name: str, roots: tuple[str, ...], bases: dict[str, builtins.list[str]]) -> bool:
    return name in roots or any(descends(base, roots, bases) for base in bases.get(name, []))


def first_sentence(text: str) -> str:
    text = " ".join(text.split("\n\n", maxsplit=1)[0].replace("``", "").split())
    return re.split(r"(?<=[a-z)]{2}\.) (?=[A-Z])", text, maxsplit=1)[0]


def head(path: Path) -> tuple[str, str]:
    """What a config is, and what was measured with it, from the comments at its top."""
    comments = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("# ").rstrip())
    measured = [line.split(":", 1)[1].strip() for line in comments if line.lower().startswith("measured")]
    return comments[0] if comments else "", measured[0] if measured else ""
