"""``list``: what the library contains, read from its files' text, so that it answers before torch could be imported."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo import EXPORTS
from zoo.cli.configs import PACKAGE, shipped

KINDS = {  # title -> where they are, and what they are subclasses of
    "tasks": ("tasks", ("Task",)),
    "data": ("data", ("DataModule", "LightningDataModule")),
    "families": ("models", ("Backbone", "EncoderDecoder")),
    "tokenizers": ("tokenizers", ("Tokenizer",)),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m zoo list", description="What the library contains.", allow_abbrev=False)
    parser.add_argument("kind", nargs="?", choices=["configs", *KINDS], help="one kind only")
    parser.add_argument("filter", nargs="?", default="", help="show what contains these letters")
    options = parser.parse_args(argv[1:])
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else 200  # a pipe or a file should not be cut at 80
    for kind in [options.kind] if options.kind else ["configs", *KINDS]:
        found = [row for row in rows(kind) if options.filter.lower() in " ".join(row).lower()]
        columns = {"configs": ("", "what", "measured"), "families": ("", "what", "sizes (parameters)")}.get(kind, ("", "what"))
        table = Table(*columns, title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for row in found:
            table.add_row(*map(Text, row))
        console.print(table if found else f"{kind}: none")
        console.print()
    return 0


def rows(kind: str) -> Iterator[tuple[str, ...]]:
    if kind == "configs":
        for name, path in shipped().items():
            yield name, *head(path)
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
    """The published sizes that a family's file states, with their parameters."""
    published = [node for node in ast.walk(module) if isinstance(node, ast.Call) and called(node) == "Published"]
    own = [node for node in published if any(isinstance(a, ast.Name) and a.id == family for a in node.args)]
    tables = [word.value for node in own for word in node.keywords if word.arg == "sizes"]
    pairs = [pair for table in tables if isinstance(table, ast.Dict) for pair in zip(table.keys, table.values)]
    return ", ".join(
        f"{name.value} ({readable(size.args[0].value)})"
        for name, size in pairs
        if isinstance(name, ast.Constant) and isinstance(size, ast.Call) and isinstance(size.args[0], ast.Constant)
    )


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def readable(count: int) -> str:
    """124439808 -> 124M"""
    for unit, factor in (("B", 10**9), ("M", 10**6)):
        if count >= factor:
            return f"{count / factor:.3g}{unit}"
    return str(count)


def descends(name: str, roots: tuple[str, ...], bases: dict[str, list[str]]) -> bool:
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
