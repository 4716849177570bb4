"""``list``: what the library contains, read from its files' text, so that it answers before torch could be imported."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from zoo import EXPORTS
from zoo.cli.configs import PACKAGE, shipped
from zoo.cli.tables import console, titled

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
    sheet = console()
    for kind in [options.kind] if options.kind else ["configs", *KINDS]:
        found = [row for row in rows(kind) if options.filter.lower() in " ".join(row).lower()]
        columns = {"configs": ("", "what", "measured"), "families": ("", "what", "sizes (parameters)")}.get(
            kind, ("", "what")
        )
        table = titled(kind, *columns)
        for row in found:
            table.add_row(*map(Text, row))
        sheet.print(table if found else f"{kind}: none")
        sheet.print()
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
