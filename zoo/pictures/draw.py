"""Sheets, confusion matrices and attention weights as images."""

from __future__ import annotations

import math

import matplotlib
from PIL import Image

from zoo.pictures import style
from zoo.pictures.columns import KINDS, Drawn, Sounds, Values
from zoo.pictures.matrix import confusion, weights
from zoo.pictures.page import Page, titled
from zoo.pictures.passage import pieces
from zoo.pictures.sheet import MARKS, Confusion, Picture, Sheet

BETWEEN, APART = 12, 44  # pixels between rows, and between blocks of them
NARROWEST = 640  # pixels that a title has at least
SHORTEST = 24  # letters that a line of text has at least


def draw(picture: Picture, when: str = "") -> Image.Image:
    """An RGB image at 100 dots an inch; ``when`` ends its title: "step 500".  Raises ValueError for a kind of column
    that cannot be drawn."""
    samples = f"{picture.count:,} validation sample{'s' * (picture.count != 1)}"
    return entitled(picture, f"{picture.title}: " + ", ".join(filter(None, (when, samples))))


def entitled(picture: Picture, title: str) -> Image.Image:
    """The same under another title."""
    with matplotlib.rc_context(style.SETTINGS):
        if isinstance(picture, Sheet):
            page = sheet(picture, title)
        elif isinstance(picture, Confusion):
            page = confusion(picture, title)
        else:
            page = weights(picture, title)
        return page.finish()


def sheet(content: Sheet, title: str) -> Page:
    columns = prepared(content)
    natural = breadth(columns)
    heights = [max(column.room(i) for column in columns) for i in range(content.count)]
    if any(column.kind == "values" for column in content.columns):  # a matrix has rows of one height
        heights = [max(heights)] * content.count
    blocks = abreast(columns, heights, natural)
    share = math.ceil(content.count / blocks)
    parts = [range(start, min(start + share, content.count)) for start in range(0, content.count, share)]
    width = max(natural * len(parts) + APART * (len(parts) - 1), NARROWEST)
    lines, marks = titled(title, width), used(content)
    top = style.MARGIN + 22 * len(lines) + (26 if marks else 0) + 8
    head = 24 + max(column.above for column in columns)
    below = max(column.below for column in columns)
    high = max(sum(heights[i] + BETWEEN for i in part) for part in parts)
    page = Page(width + 2 * style.MARGIN, top + head + high - BETWEEN + below + style.MARGIN)
    page.title(lines)
    legend(page, marks, style.MARGIN + 22 * len(lines) + 2)
    for number, part in enumerate(parts):
        block(page, columns, heights, part, style.MARGIN + number * (natural + APART), top, top + head)
    return page


def legend(page: Page, marks: list[str], y: float) -> None:
    """What the colours of texts mean, in one line."""
    x = float(style.MARGIN)
    for mark in marks:
        page.passage(x, y, [[(f" {MARKS[mark]} ", mark)]])
        x += (len(MARKS[mark]) + 4) * style.CELL


def block(
    page: Page, columns: list[Drawn], heights: list[float], part: range, left: float, top: float, start: float
) -> None:
    """Some samples below each other, the first at ``start``, and the headings at ``top``."""
    x, ruled = left, any(column.flexible for column in columns)
    level = not all(column.flexible for column in columns)  # texts beside each other begin at one height
    for column in columns:
        y = start
        page.write(x + column.left, top + 10, column.column.heading, size=style.HEADING, color=style.FAINT)
        for i in part:
            column.draw(page, i, x, y, heights[i] if level else column.room(i), i == len(heights) - 1)
            y += heights[i] + BETWEEN
            if ruled and column is columns[0] and i != part[-1]:
                page.rule(left, y - BETWEEN / 2, breadth(columns))
        x += column.span + style.GAP


def prepared(content: Sheet) -> list[Drawn]:
    """The columns with their widths: what text needs, or an equal share of what the others leave."""
    columns = []
    for column in content.columns:
        if column.kind not in KINDS:
            raise ValueError(f"a column of kind {column.kind!r} cannot be drawn; there are {', '.join(KINDS)}")
        columns.append(KINDS[column.kind](column, [peer for peer in content.columns if peer.kind == column.kind]))
    texts = sorted((column for column in columns if column.flexible), key=lambda column: column.wide)
    rest = style.WIDTH - 2 * style.MARGIN - breadth(columns) + sum(text.span for text in texts)
    for i, text in enumerate(texts):
        share = max(rest / (len(texts) - i), SHORTEST * style.CELL)
        if text.wide > share:
            text.fit(share)
        rest -= text.span
    return columns


def breadth(columns: list[Drawn]) -> float:
    return sum(column.span for column in columns) + style.GAP * (len(columns) - 1)


def abreast(columns: list[Drawn], heights: list[float], natural: float) -> int:
    """In how many blocks side by side the samples go: as many as make the sheet as wide as it is high."""
    if any(isinstance(column, (Sounds, Values)) for column in columns):
        return 1
    blocks, room = 1, style.WIDTH - 2 * style.MARGIN
    while (
        (blocks + 1) * natural + blocks * APART <= room
        and blocks < len(heights)
        and blocks * natural < (sum(heights) + BETWEEN * len(heights)) / blocks
    ):
        blocks += 1
    return blocks


def used(content: Sheet) -> list[str]:
    """The marks that stand in its texts."""
    texts = [item for column in content.columns if column.kind == "text" for item in column.items]
    found = {mark for item in texts for _, mark in pieces(item)}
    return [mark for mark in MARKS if mark in found]
