"""``diff``: what differs between two families or checkpoints, part by part."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from torch import nn

import zoo
from zoo.cli.arguments import Arguments
from zoo.cli.convert import read
from zoo.cli.errors import UserError, guarded, quiet
from zoo.cli.tables import console, titled
from zoo.hub.create import known


def main(argv: list[str]) -> int:
    parser = Arguments(
        "diff",
        "What differs between two families (bert, roberta), sizes (gpt2-xl) or checkpoints (directories).",
    )
    parser.add_argument("first")
    parser.add_argument("second")
    options = parser.parse_args(argv[1:])
    quiet()
    return guarded(lambda: show(options.first, options.second))


def show(first: str, second: str) -> None:
    a, b = find(first), find(second)
    sheet = console()
    rows = zoo.differences(a, b, shapes=False)
    show_table(sheet, "parts", (first, second), rows, "the same parts in the same order")
    extents = sizes(a, b)
    show_table(sheet, "sizes", (first, second), extents, "the same sizes")
    if not rows and not extents and not any(weight.is_meta for weight in (*a.parameters(), *b.parameters())):
        show_table(sheet, "weights", ("mean over layers", "largest"), weights(a, b), "the same weights")


def find(name: str) -> nn.Module:
    """A family or a size without weights, or a checkpoint with its own."""
    if name in known() and not Path(name).exists():
        with torch.device("meta"):
            return zoo.create(name)
    if Path(name).exists() or "/" in name or ":" in name:
        return read(name)
    raise UserError(f"{name!r} is no family or size ('python -m zoo list families' shows them), and no directory")


def sizes(a: nn.Module, b: nn.Module) -> list[tuple[str, str, str]]:
    """The arguments that both have and that differ, and the parameters."""
    ours, theirs = ({**arguments(task), "parameters": f"{count(task):,}"} for task in (a, b))
    pairs = [(key, str(ours[key]), str(theirs[key])) for key in ours if key in theirs]
    return [row for row in pairs if row[1] != row[2]]


def arguments(task: nn.Module) -> dict[str, Any]:
    vocabulary = {"vocabulary": v} if (v := getattr(task.tokenizer, "vocabulary", None)) else {}
    return {**task.backbone._arguments, **vocabulary}


def count(task: nn.Module) -> int:
    return sum(weight.numel() for weight in task.parameters())


def weights(a: nn.Module, b: nn.Module) -> list[tuple[str, str, str]]:
    """How far the weights of equal models lie apart: |b - a| / |a|, the layers taken together."""
    apart: dict[str, list[float]] = {}
    for (name, ours), (_, theirs) in zip(a.named_parameters(), b.named_parameters(), strict=True):
        distance = float((theirs - ours).detach().norm() / ours.detach().norm().clamp(min=1e-12))
        apart.setdefault(re.sub(r"\.\d+\.", ".*.", name), []).append(distance)
    return [(name, f"{sum(d) / len(d):.3g}", f"{max(d):.3g}") for name, d in apart.items() if max(d)]


def show_table(sheet: Console, title: str, columns: tuple[str, str], rows: list, same: str) -> None:
    if not rows:
        sheet.print(f"{title}: {same}\n")
        return
    table = titled(title, "", *columns)
    for row in rows:
        table.add_row(*map(Text, row))
    sheet.print(table)
    sheet.print()
