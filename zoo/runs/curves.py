"""Learning curves as a picture: each metric against each of the x-axes that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.atomic import replaced
from zoo.runs.compare import captions
from zoo.runs.metrics import EVALUATED, STAGES, best, direction, leaders, scores, subject, subjects
from zoo.runs.read import Run
from zoo.runs.units import AXES, COLOURS, engineering, scale, shorten

METRICS = 4  # in one picture
EARLY = 0.05  # the share of training in which a loss falls too fast to be shown
TITLES = {"lr": "learning rate"}
LABEL, GAP = 60, 30  # letters of a label, pixels between the legends
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))  # for more runs than there are colours
INK, GREY = "#222222", "#666666"
STYLE: Any = {
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": "#b8b8b8",
    "axes.labelcolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "grid.color": "#ececec",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def draw(runs: Sequence[Run], path: str | Path) -> None:
    """Write a PNG: training thin, validation with markers, the best value ringed.

    Each metric has a row and each known x-axis a column, or a column each where one x-axis is enough: that of one run,
    whose x-axes differ by no more than a factor, and whose learning rate is shown too.  Raises ImportError without
    matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures of curves need matplotlib: pip install 'lightning-zoo[demo]'") from None
    grid = panels(runs)
    height, width = len(grid), len(grid[0])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(3.4 * width, 6.5), 2.3 * height + 0.9), dpi=160, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(height, width, squeeze=False, sharex="col", sharey="row" if height > 1 else "none")
        for place, (ax, (name, axis)) in enumerate(zip(axes.flat, (cell for row in grid for cell in row))):
            below = panel(ax, runs, name, axis)
            ax.set_title(TITLES.get(name, name.replace("_", " ")) if place % width == 0 or height == 1 else "")
            ax.set_xlabel(below if place >= width * (height - 1) else "")
        legends(figure, runs, grid)
        with replaced(path, "wb") as file:
            figure.savefig(file, format=Path(path).suffix[1:] or "png")


def panels(runs: Sequence[Run]) -> list[list[tuple[str, str]]]:
    """Rows of (metric, x-axis).  Perplexity is left out: it is the loss on another scale."""
    compared = {"loss", *(subject(name) for name in scores(runs))}
    names = [name for name in subjects(runs) if name in compared and not name.endswith("perplexity")][:METRICS]
    known = [axis for axis in AXES if axis != "samples" and any(run.reached(axis) is not None for run in runs)]
    if len(runs) == 1:
        names = [*names[: METRICS - 1], *(["lr"] if "lr" in runs[0].names else [])]
    if len(runs) == 1 or len(known) < 2:
        return [[(name, (known or ["step"])[0]) for name in names]]
    return [[(name, axis) for axis in known] for name in names]


def panel(ax: Any, runs: Sequence[Run], name: str, axis: str) -> str:
    """One metric of all runs, in all stages, against one x-axis; the result is the x-axis's title."""
    divisor, title = scale(axis, max(run.reached(axis) or 0.0 for run in runs))
    few = len(runs) <= len(COLOURS)
    for place, run in enumerate(runs):
        colour, dash = style(place)
        evaluated = False
        for stage in (*EVALUATED, "train/", ""):
            x, y = curve(run, f"{stage}{name}", axis, divisor)
            if x and stage in EVALUATED:
                evaluated = True
                marker = "o" if stage == "val/" else "D"
                size = 3 if few or len(x) == 1 else 0
                ax.plot(
                    x, y, color=colour, linestyle=dash, linewidth=1.7 if few else 1.3, marker=marker, markersize=size
                )
            elif x:
                strength = 1.0 if not evaluated else 0.45 if few else 0.2
                ax.plot(x, y, color=colour, linestyle=dash, linewidth=1.1, alpha=strength)
    for metric in (f"{stage}{name}" for stage in EVALUATED):
        tops = [best(run, metric) for run in runs]
        ringed = range(len(runs)) if few else leaders(metric, tops)
        for place in ringed:
            ring(ax, runs[place], metric, axis, divisor, style(place)[0], told=len(runs) == 1)
    ax.xaxis.set_major_formatter(lambda value, place: engineering(value))
    ax.margins(y=0.12 if len(runs) == 1 else 0.06)
    settled(ax, runs, name, axis)
    return title


def settled(ax: Any, runs: Sequence[Run], name: str, axis: str) -> None:
    """Leave the first steps of a falling curve outside: they are so high that nothing else would be seen."""
    if direction(name) == "max" or name == "lr":
        return
    highest = -math.inf
    for run in runs:
        for stage in STAGES:
            x, y = run.points(f"{stage}{name}", axis)
            begin = EARLY * (run.reached(axis) or 0.0)
            highest = max([highest, *(value for at, value in zip(x, y) if at >= begin and math.isfinite(value))])
    bottom, top = ax.get_ylim()
    if bottom < highest < top:
        ax.set_ylim(bottom, min(top, highest + 0.06 * (highest - bottom)))


def ring(ax: Any, run: Run, metric: str, axis: str, divisor: float, colour: str, told: bool) -> None:
    """Mark the best value; ``told``: and say it."""
    top = best(run, metric)
    where = [row[axis] for row in run.metrics if axis in row and top and row.get(metric) == top.value]
    if not top or not where:
        return
    at = (where[0] / divisor, top.value)
    ax.plot(*at, "o", markersize=8, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.6, zorder=5)
    if told:
        above = direction(metric) == "max"
        offset, side = ((0, 8), "bottom") if above else ((0, -8), "top")
        ax.annotate(
            f"{top.value:.4g}", at, offset, textcoords="offset points", ha="right", va=side, color=colour, weight="bold"
        )


def legends(figure: Any, runs: Sequence[Run], grid: Sequence[Sequence[tuple[str, str]]]) -> None:
    """The runs on the left, what the kinds of lines mean on the right; one for all panels."""
    from matplotlib.lines import Line2D

    metrics = {f"{stage}{name}" for row in grid for name, _ in row for stage in STAGES}
    logged = {name.split("/")[0] for run in runs for name in run.names if name in metrics}
    kinds: list[Any] = []
    if "train" in logged:
        kinds.append(Line2D([], [], color=GREY, linewidth=1.1, alpha=0.6, label="training"))
    for stage, marker, word in (("val", "o", "validation"), ("test", "D", "test")):
        if stage in logged:
            kinds.append(Line2D([], [], color=GREY, linewidth=1.7, marker=marker, markersize=3, label=word))
    if logged - {"train"}:
        hollow = Line2D([], [], color=GREY, marker="o", markersize=7, markeredgewidth=1.6, linewidth=0, label="best")
        hollow.set_markerfacecolor("none")
        kinds.append(hollow)
    entries: list[Any] = []
    for place, caption in enumerate(captions(runs)):
        colour, dash = style(place)
        entries.append(Line2D([], [], color=colour, linestyle=dash, linewidth=2, label=shorten(caption, LABEL)))
    room = figure.bbox.width - GAP
    narrow = fitting(figure, entries, "outside upper left", 0)
    meanings = fitting(figure, kinds, "outside upper right", room - extent(narrow))
    narrow.remove()
    fitting(figure, entries, "outside upper left", room - extent(meanings))


def fitting(figure: Any, entries: Sequence[Any], place: str, room: float) -> Any:
    """A legend with as many columns as fit into so many pixels, one at least."""
    for columns in range(max(1, len(entries)), 0, -1):
        made = figure.legend(handles=entries, loc=place, ncols=columns, handlelength=2.2, columnspacing=1.5)
        if columns == 1 or extent(made) <= room:
            return made
        made.remove()
    raise AssertionError("one column always fits")


def extent(legend: Any) -> float:
    """The width of a legend in pixels."""
    return legend.get_window_extent().width


def style(place: int) -> tuple[str, Any]:
    """The colour and the dashes of a run by its place."""
    return COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]


def curve(run: Run, metric: str, axis: str, divisor: float) -> tuple[list[float], list[float]]:
    """Points with gaps where a value is not finite."""
    x, y = run.points(metric, axis)
    return [value / divisor for value in x], [value if math.isfinite(value) else math.nan for value in y]
