"""``compare``: what differs between runs, what each reached, and their curves as a picture and as a page."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from zoo.cli.arguments import Arguments
from zoo.cli.errors import guarded
from zoo.cli.tables import console, titled
from zoo.runs import Best, Run, curves, direction, page, read
from zoo.runs.compare import MISSING, Table, facts, labels, overview, reached, settings, shared
from zoo.runs.metrics import leaders
from zoo.runs.units import shortened

CELL, GAP = 40, 2  # letters of a value and between columns


def main(argv: list[str]) -> int:
    parser = Arguments(
        "compare",
        "What differs between runs and what each reached, as tables, OUT.png and OUT.html.",
    )
    parser.add_argument("run", nargs="+", help="a run's folder (runs/NAME), a W&B folder or file, or a folder of runs")
    parser.add_argument("--out", default="compare", help="where the picture and the page go (compare)")
    options = parser.parse_args(argv[1:])
    return guarded(lambda: compare(options.run, Path(options.out)))


def compare(paths: Sequence[str], out: Path) -> None:
    runs = gathered(paths)
    show(console(), runs)
    if out.suffix in (".html", ".png"):
        out = out.with_suffix("")
    out.parent.mkdir(parents=True, exist_ok=True)
    picture, written = Path(f"{out}.png"), Path(f"{out}.html")
    page.write(runs, written)
    try:
        curves.draw(runs, picture)
    except ImportError as error:
        print(f"zoo: no {picture}: {error}", file=sys.stderr)
        print(f"curves: {written}")
    else:
        print(f"curves: {picture} and {written}")


def gathered(paths: Sequence[str]) -> list[Run]:
    """The runs at all paths, each once, in the order given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = {run.path.resolve(): run for path in paths for run in read(path)}
    for warning in caught:
        print(f"zoo: left out: {warning.message}", file=sys.stderr)
    return list(found.values())


def show(sheet: Console, runs: Sequence[Run]) -> None:
    names, begin = labels(runs), shared(runs)
    if begin:
        sheet.print(Text(f"{len(runs)} runs, {begin}…\n"))
    grid(sheet, "runs", names, texts(overview(runs)), turned=True)
    if len(runs) > 1:
        differing = settings(runs)
        grid(sheet, "what differs in the configs", names, texts(differing))
        if not differing:
            sheet.print("the configs are equal\n")
        grid(sheet, "facts that differ", names, texts(facts(runs)))
    grid(sheet, "best (at step)", names, achieved(runs))


def texts(rows: Table) -> dict[str, list[Text]]:
    return {key: [Text(value) for value in shortened(values, CELL)] for key, values in rows.items()}


def achieved(runs: Sequence[Run]) -> dict[str, list[Text]]:
    """The best values of each metric, the best of all bold; arrows point to what is better."""
    rows = {}
    for metric, tops in reached(runs).items():
        ahead = leaders(metric, tops)
        arrow = "↑" if direction(metric) == "max" else "↓"
        rows[f"{metric} {arrow}"] = [
            Text(written(top), "bold green" if place in ahead else "") for place, top in enumerate(tops)
        ]
    return rows


def written(top: Best | None) -> str:
    if top is None:
        return MISSING
    return f"{top.value:.4g}" if top.step is None else f"{top.value:.4g} ({top.step:,})"


def grid(sheet: Console, title: str, names: Sequence[str], rows: dict[str, list[Text]], turned: bool = False) -> None:
    """A table with a row a key and a column a run; ``turned``, or where it would be too wide, with a row a run.

    What is still too wide goes on in a table below.
    """
    if not rows:
        return
    upright = [[Text(""), *map(Text, names)], *([Text(key), *cells] for key, cells in rows.items())]
    short = [Text(key.replace("init_args.", "")) for key in rows]
    flat = [[Text(""), *short], *([Text(name), *cells] for name, *cells in zip(names, *rows.values()))]
    wide = [sum(widths(lines)) - GAP for lines in (upright, flat)]
    lines = flat if turned or (wide[0] > sheet.width and wide[1] < wide[0]) else upright
    for place, (head, *body) in enumerate(split(lines, sheet.width)):
        table = titled(title if place == 0 else "")
        for cell in head:
            table.add_column(cell, no_wrap=True)
        for line in body:
            table.add_row(*line)
        sheet.print(table)
        sheet.print()


def widths(lines: Sequence[Sequence[Text]]) -> list[int]:
    return [max(len(cell) for cell in column) + GAP for column in zip(*lines)]


def split(lines: list[list[Text]], room: int) -> list[list[list[Text]]]:
    """Tables of no more than ``room`` letters' width, where one column allows it; each begins with the first column."""
    first, *rest = widths(lines)
    blocks: list[list[int]] = [[]]
    for column, extent in enumerate(rest, 1):
        if blocks[-1] and first + sum(rest[other - 1] for other in blocks[-1]) + extent > room + GAP:
            blocks.append([])
        blocks[-1].append(column)
    return [[[line[0], *(line[column] for column in block)] for line in lines] for block in blocks]
