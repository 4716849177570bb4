"""A comparison as one HTML file that needs nothing else: tables, and curves to look into."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from zoo.atomic import write_text
from zoo.runs.compare import MISSING, Table, captions, facts, labels, overview, reached, settings, shared
from zoo.runs.metrics import STAGES, Best, best, direction, leaders, scores, subjects
from zoo.runs.read import Row, Run
from zoo.runs.units import AXES, COLOURS, scale, shortened

TEMPLATE = Path(__file__).with_name("page.html")
POINTS = 1000  # of a curve; longer ones are thinned
WIDE = 5  # runs that stand side by side; more have a row each
CELL = 48  # letters of a value, the rest is shown by hovering
DASHES = ("", "6 3", "2 2", "6 2 2 2")  # for more runs than there are colours


def write(runs: Sequence[Run], path: str | Path) -> None:
    """Write the page of one run or of several."""
    write_text(path, page(runs))


def page(runs: Sequence[Run]) -> str:
    """The template with the runs in it: nothing that a run says becomes markup."""
    begin, many = shared(runs).rstrip("-"), f"{len(runs)} runs"
    title = runs[0].name if len(runs) == 1 else f"{begin}: {many}" if begin else many
    sections = [section("Runs", about(runs)), section("Best values", achieved(runs))]
    if len(runs) > 1:
        same = "<p>Nothing: the configs are equal.</p>"
        sections.append(section("What differs in the configs", sides(runs, settings(runs)) or same))
        sections.append(section("Facts that differ", sides(runs, facts(runs))))
    parts = {"title": escape(title), "tables": "\n".join(sections), "data": embedded(curves(runs))}
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], TEMPLATE.read_text(encoding="utf-8"))


# ---- tables


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def about(runs: Sequence[Run]) -> str:
    columns = overview(runs)
    return table(["run", *columns], [*zip(keys(runs), *map(values, columns.values()))])


def achieved(runs: Sequence[Run]) -> str:
    """A row a run, the best of each column marked."""
    found = reached(runs)
    ahead = {metric: leaders(metric, tops) for metric, tops in found.items()}
    head = [f"{metric} {'↑' if direction(metric) == 'max' else '↓'}" for metric in found]
    columns = [[top(item, place in ahead[metric]) for place, item in enumerate(tops)] for metric, tops in found.items()]
    rows = [*zip(keys(runs), *columns)]
    return table(["run", *head], rows) + "<p>The best that a run reached, and the step at which it did.</p>"


def sides(runs: Sequence[Run], rows: Table) -> str:
    """What differs: the runs side by side, or a row each where they are many."""
    if not rows:
        return ""
    if len(runs) <= WIDE:
        body = [[f"<code>{escape(name)}</code>", *values(items)] for name, items in rows.items()]
        return table(["key"], body, keys(runs))
    head = [name.replace("init_args.", "") for name in rows]
    return table(["run", *head], [*zip(keys(runs), *map(values, rows.values()))])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], more: Sequence[str] = ()) -> str:
    """``head`` is text, ``more`` of it and ``rows`` are markup."""
    cells = "".join(f"<th>{cell}</th>" for cell in [*map(escape, head), *more])
    lines = ["".join(f"<{kind}>{cell}</{kind}>" for kind, cell in zip(kinds(row), row)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def kinds(row: Sequence[str]) -> list[str]:
    return ["th", *["td"] * (len(row) - 1)]


def keys(runs: Sequence[Run]) -> list[str]:
    """A piece of each run's line, and its label."""
    return [key(place, label) for place, label in enumerate(labels(runs))]


def key(place: int, label: str) -> str:
    line = f'<line x1="0" y1="5" x2="24" y2="5" class="line" style="stroke: var(--c{place % len(COLOURS)})"'
    line += f' stroke-dasharray="{DASHES[place // len(COLOURS) % len(DASHES)]}"/>'
    return f'<span class="key"><svg width="24" height="10" aria-hidden="true">{line}</svg>{escape(label)}</span>'


def values(texts: Sequence[str]) -> list[str]:
    """Cells; a long text is shortened, and shown in full where the pointer rests on it."""
    return [value(text, short) for text, short in zip(texts, shortened(texts, CELL))]


def value(text: str, short: str) -> str:
    if text == MISSING:
        return f'<span class="missing">{MISSING}</span>'
    return escape(short) if short == text else f'<span title="{escape(text)}">{escape(short)}</span>'


def top(item: Best | None, ahead: bool) -> str:
    if item is None:
        return value(MISSING, MISSING)
    number = f"<strong>{item.value:.4g}</strong>" if ahead else f"{item.value:.4g}"
    return number if item.step is None else f"{number} <small>at {item.step:,}</small>"


# ---- curves


def curves(runs: Sequence[Run]) -> dict[str, Any]:
    """What the page's script draws: for each run columns of x-axes and metrics, without a value where it is null."""
    known = [axis for axis in AXES if any(run.reached(axis) is not None for run in runs)]
    axes = []
    for axis in known:
        divisor, title = scale(axis, max(run.reached(axis) or 0.0 for run in runs))
        axes.append({"key": axis, "title": title, "divisor": divisor})
    logged = {name for run in runs for name in run.names}
    groups: list[dict[str, Any]] = []
    for name in subjects(runs):
        metrics = [f"{stage}{name}" for stage in (*STAGES, "") if f"{stage}{name}" in logged]
        members = [{"key": metric, "stage": metric.removesuffix(name).rstrip("/")} for metric in metrics]
        groups.append({"name": name, "better": direction(name), "members": members})
    names = [*known, *(member["key"] for group in groups for member in group["members"])]
    entries = []
    for place, (label, caption, run) in enumerate(zip(labels(runs), captions(runs), runs)):
        rows = thinned(run)
        columns = {name: [plain(row.get(name)) for row in rows] for name in names if name in {*known, *run.names}}
        look = {"colour": place % len(COLOURS), "dash": DASHES[place // len(COLOURS) % len(DASHES)]}
        tops = {metric: best(run, metric) for metric in scores([run])}
        marks = {metric: [item.step, plain(item.value)] for metric, item in tops.items() if item}
        entries.append({"label": label, "caption": caption, **look, "best": marks, "columns": columns})
    return {"axes": axes, "subjects": groups, "runs": entries}


def thinned(run: Run) -> list[Row]:
    """At most about ``POINTS`` rows of training and as many of evaluation, and those of the best values among them."""
    special = set(scores([run]))
    tops = {metric: best(run, metric) for metric in special}
    evaluation = [number for number, row in enumerate(run.metrics) if special & row.keys()]
    training = [number for number, row in enumerate(run.metrics) if not special & row.keys()]
    kept = {number for group in (evaluation, training) for number in group[:: math.ceil(len(group) / POINTS) or 1]}
    kept |= {number for number in evaluation if any(is_top(run.metrics[number], tops, name) for name in special)}
    return [run.metrics[number] for number in sorted(kept | {len(run.metrics) - 1})]


def is_top(row: Row, tops: dict[str, Best | None], metric: str) -> bool:
    top = tops[metric]
    return top is not None and row.get(metric) == top.value


def plain(number: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return float(f"{number:.8g}") if number is not None and math.isfinite(number) else None


def embedded(content: Any) -> str:
    """JSON that cannot end the script element in which it stands."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
