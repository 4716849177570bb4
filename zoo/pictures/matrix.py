"""Confusion matrices, the pairs that are confused most, and attention weights between tokens."""

# Shapes: K classes, T queries, S keys.

from __future__ import annotations

import math

import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from zoo.pictures import style
from zoo.pictures.page import LETTER, Page, titled
from zoo.pictures.passage import MONO, drawable
from zoo.pictures.sheet import Confusion, Weights

COUNTED, WHOLE = 20, 40  # classes up to which counts are written, and up to which the matrix is shown whole
BARS = 25  # pairs and classes that are listed where there are more
SMALLER = 124  # pixels of one head's weights
LABEL = 28  # letters of a name


def confusion(content: Confusion, title: str) -> Page:
    classes = [shortened(name) for name in content.classes]
    return whole(content, classes, title) if len(classes) <= WHOLE else worst(content, classes, title)


def whole(content: Confusion, classes: list[str], title: str) -> Page:
    """The matrix, its colour the share of the row, with names along both sides."""
    square = 46 if len(classes) <= 12 else 34 if len(classes) <= COUNTED else 22
    side, names = square * len(classes), written(classes)
    steep = names > square - 6  # do the names below need to stand on end?
    left, below = names + 44, (names if steep else 14) + 40
    width = max(left + side + 86, 380)
    lines = titled(title, width)
    top = style.MARGIN + 22 * len(lines) + 8
    page = Page(width + 2 * style.MARGIN, top + side + below + style.MARGIN * 0.5)
    page.title(lines)
    axes = page.frame(style.MARGIN + left, top, side, side)
    share = content.counts / content.counts.sum(1, keepdim=True).clamp(min=1)
    shown = axes.imshow(share.numpy(), cmap=style.SHARE, vmin=0, vmax=1, aspect="auto")
    named(axes, classes, classes, steep)
    axes.set(xlabel="predicted class", ylabel="true class")
    if len(classes) <= COUNTED:
        for (i, j), count in counted(content.counts).items():
            axes.text(j, i, f"{count}", ha="center", va="center", color="white" if share[i, j] > 0.5 else style.INK)
    bar = page.figure.colorbar(shown, cax=page.frame(style.MARGIN + left + side + 16, top, 12, min(side, 240)))
    bar.set_label("share of the true class", size=style.SMALL)
    return page


def worst(content: Confusion, classes: list[str], title: str) -> Page:
    """For many classes: the pairs that are confused most, and the classes that are found least often."""
    count = content.counts
    wrong = count.clone().fill_diagonal_(0).flatten().sort(descending=True, stable=True)
    found = zip(wrong.indices[:BARS].tolist(), wrong.values[:BARS].tolist(), strict=True)
    pairs = [(*divmod(place, len(classes)), number) for place, number in found if number]
    total = count.sum(1)
    recall = count.diagonal() / total.clamp(min=1)
    order = [int(i) for i in torch.argsort(recall, stable=True) if total[i] > 0][:BARS]
    lists = {
        f"the {len(pairs)} pairs confused most: true \N{RIGHTWARDS ARROW} predicted, samples": [
            (f"{classes[i]} \N{RIGHTWARDS ARROW} {classes[j]}", float(n), f"{n}") for i, j, n in pairs
        ],
        f"the {len(order)} classes found least often: share found": [
            (classes[i], float(recall[i]), f"{int(count[i, i])} of {int(total[i])}") for i in order
        ],
    }
    labels = [written([name for name, _, _ in rows] or [""]) + 12 for rows in lists.values()]
    lines = titled(title, 900)
    top = style.MARGIN + 22 * len(lines) + 34
    high = 22 * max(len(rows) for rows in lists.values())
    page = Page(sum(labels) + 2 * 360 + 60 + 2 * style.MARGIN, top + high + 40)
    page.title(lines)
    x = float(style.MARGIN)
    for (heading, rows), label in zip(lists.items(), labels, strict=True):
        page.write(x, top - 14, heading, size=style.HEADING, color=style.FAINT)
        if rows:
            bars(page.frame(x + label, top, 300, 22 * len(rows)), rows)
        x += label + 420
    return page


def bars(axes: Axes, rows: list[tuple[str, float, str]]) -> None:
    """Horizontal bars from the top, each with its name and its number."""
    axes.barh(range(len(rows)), [value for _, value, _ in rows], color="#5b8fc9", height=0.72)
    named(axes, None, [name for name, _, _ in rows], False)
    largest = max(value for _, value, _ in rows) or 1.0
    axes.set(xlim=(0, largest * 1.02), ylim=(len(rows) - 0.5, -0.5), xticks=[])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    for i, (_, value, text) in enumerate(rows):
        axes.text(value + largest * 0.015, i, text, va="center", fontsize=style.SMALL, color=style.FAINT)


def weights(content: Weights, title: str) -> Page:
    """One large matrix, the mean of the heads, with the tokens along its axes, and beside it each head."""
    (mean, large), *heads = content.maps.items()
    keys, queries = ([visible(text) for text in side] for side in (content.keys, content.queries))
    wide, high = (extent(count, names) for count, names in zip(reversed(large.shape), (keys, queries), strict=True))
    left, below = written(queries or ["160"]) + 26, written(keys) + 30 if keys else 44
    apart, step = style.GAP * 2, SMALLER + 14
    fitting = max(1, int((style.WIDTH - 2 * style.MARGIN - left - wide - apart) // step))
    columns = min(fitting, math.ceil(len(heads) / max(1, int((high + below) // 150)))) or 1
    rows = math.ceil(len(heads) / columns)
    width = max(left + wide + apart + columns * step, 440)
    lines = titled(title, width)
    top = style.MARGIN + 22 * len(lines) + 46
    page = Page(width + 2 * style.MARGIN, top + max(high + below, rows * (SMALLER + 26)) + 10)
    page.title(lines)
    page.write(style.MARGIN, top - 40, "colour: square root of the weight", size=style.SMALL, color=style.FAINT)
    panel(page, style.MARGIN + left, top, (wide, high), mean, large)
    axes = page.figure.axes[-1]
    for names, axis, text in ((queries, axes.yaxis, "looks"), (keys, axes.xaxis, "is looked at")):
        axis.set_label_text(text if names else f"{text} (which token)")
        if not names:
            axis.set_major_locator(MaxNLocator(6, integer=True))
    named(axes, keys or None, queries or None, True, MONO)
    for i, (heading, values) in enumerate(heads):
        x = style.MARGIN + left + wide + apart + (i % columns) * step
        panel(page, x, top + (i // columns) * (SMALLER + 26), (SMALLER, SMALLER), heading, values)
        page.figure.axes[-1].set(xticks=[], yticks=[])
    return page


def panel(page: Page, x: float, y: float, size: tuple[float, float], heading: str, values: Tensor) -> None:
    """A matrix of weights below its heading."""
    page.write(x, y - 10, heading, size=style.SMALL, color=style.FAINT)
    scale = PowerNorm(0.5, 0, max(float(values.max()), 1e-6))  # else a token that sees itself alone outshines all
    page.frame(x, y, *size).imshow(values.numpy(), cmap=style.HEAT, norm=scale, aspect="auto", interpolation="nearest")


def extent(count: int, names: list[str]) -> float:
    """Pixels of an axis of so many tokens: room for each name, where they have names."""
    return max(15.0 * count, 90.0) if names else min(15.0 * count, 480.0)


def named(
    axes: Axes, below: list[str] | None, left: list[str] | None, steep: bool, family: str = "DejaVu Sans"
) -> None:
    """Names along the axes, where there are any, in fonts that have their letters."""
    sides = ((axes.set_yticks, left, {"va": "center"}), (axes.set_xticks, below, {"rotation": 90 if steep else 0}))
    for put, names, look in sides:
        if names is None:
            continue
        shown = [drawable(name) for name in names]
        fonts = list(dict.fromkeys([family, *(font for _, fonts in shown for font in fonts)]))
        put(range(len(names)), [text for text, _ in shown], fontsize=style.SMALL, family=fonts, **look)
    axes.tick_params(length=0)


def counted(counts: Tensor) -> dict[tuple[int, int], int]:
    """(row, column) -> number, where there is any."""
    return {(i, j): int(counts[i, j]) for i, j in counts.nonzero().tolist()}


def shortened(name: str) -> str:
    return name if len(name) <= LABEL else name[: LABEL - 1] + "…"


def visible(token: str) -> str:
    """A token as a label: spaces and line ends seen, not too long."""
    return shortened(token.replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}").replace(" ", "\N{OPEN BOX}"))[:14]


def written(names: list[str]) -> float:
    """Pixels that the longest name takes."""
    return max(map(len, names)) * style.SMALL * style.DPI / 72 * max(LETTER, 0.6) + 4
