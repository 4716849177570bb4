"""A page measured in pixels on which columns, matrices and bars are drawn; no global state of matplotlib's is used."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from PIL import Image

from zoo.pictures import style
from zoo.pictures.passage import Pieces, cells, drawable

LETTER, BOLD = 0.56, 0.65  # mean width of a letter of DejaVu Sans, of its size


class Page:
    """``width`` x ``height`` white pixels, (0, 0) at the top left."""

    def __init__(self, width: float, height: float):
        self.width, self.height = round(width), round(height)
        self.figure = Figure(figsize=(self.width / style.DPI, self.height / style.DPI), dpi=style.DPI)
        self.canvas = FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set(xlim=(0, self.width), ylim=(self.height, 0), autoscale_on=False)

    def title(self, lines: list[str]) -> None:
        for i, line in enumerate(lines):
            self.write(style.MARGIN, style.MARGIN + 22 * i + 6, line, size=style.TITLE, weight="bold")

    def write(self, x: float, y: float, text: str, **look: Any) -> None:
        """A line of text with its middle at ``y``; ``look`` is matplotlib's."""
        text, fonts = drawable(text)
        if len(fonts) > 1:  # many a font for rarer letters has no bold ones
            look.pop("weight", None)
        self.axes.text(x, y, text, **{"va": "center", "family": ["DejaVu Sans", *fonts], **look})

    def passage(self, x: float, y: float, lines: list[Pieces]) -> None:
        """Lines of marked text from the top left corner (x, y)."""
        for row, line in enumerate(lines):
            left, middle = x, y + (row + 0.5) * style.LINE
            for text, mark in line:
                room = sum(map(cells, text)) * style.CELL
                colour, background = style.MARKED.get(mark, (style.INK, None))
                if background:
                    self.box(left, middle - style.LINE / 2 + 1, room, style.LINE - 2, background)
                if mark in ("wrong", "other"):  # seen without colours, too
                    self.axes.plot([left, left + room], [middle + 7.5] * 2, color=colour, linewidth=1.2)
                if text.strip():
                    text, fonts = drawable(text)
                    self.axes.text(left, middle, text, va="center_baseline", family=list(fonts), color=colour)
                left += room

    def box(self, x: float, y: float, width: float, height: float, colour: Any, edge: str = "none") -> None:
        self.axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=edge, linewidth=3))

    def rule(self, x: float, y: float, width: float) -> None:
        self.axes.plot([x, x + width], [y, y], color=style.RULE, linewidth=0.8)

    def image(self, x: float, y: float, width: float, height: float, pixels: np.ndarray, **look: Any) -> None:
        """(H, W), (H, W, 3) or (H, W, 4) values; pixels that become larger stay squares."""
        enlarged = pixels.shape[1] <= width and pixels.shape[0] <= height
        extent = (x, x + width, y + height, y)
        look = {"interpolation": "nearest" if enlarged else "antialiased", **look}
        shown = AxesImage(self.axes, extent=extent, **look)
        shown.set_data(pixels)
        self.axes.add_image(shown)

    def frame(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes of their own in this place."""
        left, bottom = x / self.width, 1 - (y + height) / self.height
        return self.figure.add_axes((left, bottom, width / self.width, height / self.height))

    def finish(self) -> Image.Image:
        self.canvas.draw()
        return Image.fromarray(np.asarray(self.canvas.buffer_rgba())[..., :3].copy())


def titled(text: str, width: float) -> list[str]:
    """The lines of a title over so many pixels."""
    return textwrap.wrap(text, max(20, int(width / (style.TITLE * style.DPI / 72 * BOLD))))
