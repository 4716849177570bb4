"""The columns of a sheet: how wide and high images, sounds, texts and rows of a matrix are, and how they are drawn."""

# Shapes: N samples, C channels, H height, W width, n spectrogram frames, m mel bands.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.colors import Normalize, to_rgb
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from zoo.pictures import style
from zoo.pictures.page import Page
from zoo.pictures.passage import width, wrapped
from zoo.pictures.sheet import Column

SIDE, LARGEST, BELOW = 128, 176, 96  # pixels that a small and a large image take, and one below weights
SOUND = (330, 112)  # pixels of a spectrogram
HEADS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")  # Okabe & Ito
LONGEST = 96  # letters of a line of text at most
HEADED = 8.2  # pixels of a letter of a heading
SQUARE, MATRIX = 52, 832  # pixels of a number in a matrix, and of a matrix at most
WRITTEN = 38  # pixels in which a number can be read


class Drawn:
    """Base: a column that knows its room.  ``wide`` is its width in pixels, ``room(i)`` the height of its i-th item."""

    flexible = False  # can it be narrower, and get higher by it?
    left = 0.0  # pixels before the items, which their heading leaves out
    above = 0.0  # pixels between the heading and the first item
    below = 0.0  # and after the last one
    wide: float

    def __init__(self, column: Column, peers: Sequence[Column]):
        """``peers`` are the sheet's columns of the same kind, this one among them: they share one scale."""
        self.column, self.items = column, column.items

    @property
    def span(self) -> float:
        """Pixels that it needs with its heading."""
        return max(self.wide, self.left + len(self.column.heading) * HEADED)

    def fit(self, wide: float) -> None:
        """Take so many pixels."""
        self.wide = wide

    def room(self, i: int) -> float:
        raise NotImplementedError

    def draw(self, page: Page, i: int, x: float, y: float, height: float, last: bool) -> None:
        """The i-th item in the place of ``height`` pixels below and right of (x, y); ``last`` in its column."""
        raise NotImplementedError


class Images(Drawn):
    """Small ones enlarged by whole numbers, large ones made smaller."""

    def __init__(self, column: Column, peers: Sequence[Column]):
        super().__init__(column, peers)
        side = max(max(item.shape[-2:]) for item in column.items)
        room, most = (SIDE, LARGEST) if column.weights is None else (BELOW, BELOW)
        self.factor = room // side if side <= room else min(1.0, most / side)
        self.wide = max(self._pixels(i)[1] for i in range(len(column.items)))

    def _pixels(self, i: int) -> tuple[int, int]:
        """Height and width as drawn: images of different sizes are so beside each other, too."""
        high, wide = self.items[i].shape[-2:]
        return max(1, round(high * self.factor)), max(1, round(wide * self.factor))

    def room(self, i: int) -> float:
        return self._pixels(i)[0]

    def draw(self, page: Page, i: int, x: float, y: float, height: float, last: bool) -> None:
        high, wide = self._pixels(i)
        top = round(y + (height - high) / 2)
        shown = pixels(self.items[i])
        if self.column.weights is None:
            page.image(x, top, wide, high, shown)
            return
        page.image(x, top, wide, high, 0.35 + 0.65 * np.repeat(shown.mean(-1, keepdims=True), 3, -1))
        look = {"cmap": matplotlib.colormaps["inferno"], "alpha": 0.65}
        page.image(x, top, wide, high, self.column.weights[i].numpy(), **look)


def pixels(image: Tensor) -> np.ndarray:
    """(C, H, W) floats, NaN where unknown -> (H, W, 3) with a colour there that no pixel has; another number of
    channels than 3 and 4 is shown as grey."""
    image = image.float()
    if len(image) == 4:  # on white
        image = image[:3] * image[3:] + 1 - image[3:]
    elif len(image) != 3:
        image = image.mean(0, keepdim=True).expand(3, -1, -1)
    unknown = torch.tensor(to_rgb(style.HIDDEN))[:, None, None]
    return torch.where(image.isnan().any(0), unknown, image.clamp(0, 1)).permute(1, 2, 0).numpy()


class Sounds(Drawn):
    """Spectrograms over seconds and mel bands; all of a sheet have the same colours and the same length of a second."""

    def __init__(self, column: Column, peers: Sequence[Column]):
        super().__init__(column, peers)
        self.second = column.seconds or 1.0
        self.length = max(len(item) for peer in peers for item in peer.items) * self.second
        values = torch.cat([item.flatten() for peer in peers for item in peer.items]).float()
        values = values[values.isfinite()]
        low, high = np.quantile(values.numpy(), (0.002, 0.998)) if len(values) else (0.0, 1.0)
        self.scale = Normalize(low, high)
        self.left = 44.0 if column is peers[0] else 0.0
        self.right = 68.0 if column is peers[-1] else 0.0
        self.wide, self.below = SOUND[0] + self.left + self.right, 36.0

    def room(self, i: int) -> float:
        return SOUND[1]

    def draw(self, page: Page, i: int, x: float, y: float, height: float, last: bool) -> None:
        frames = self.items[i].float()
        wide, bands = self.wide - self.left - self.right, frames.size(1)
        y += (height - SOUND[1]) / 2
        axes = page.frame(x + self.left, y, wide, SOUND[1])
        colours = matplotlib.colormaps[style.SPECTRUM].with_extremes(bad=style.HIDDEN)
        extent = (0.0, len(frames) * self.second, 0.0, float(bands))
        shown = axes.imshow(
            frames.mT.numpy(),
            cmap=colours,
            norm=self.scale,
            extent=extent,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
        )
        if self.column.weights is not None:
            curves = self.column.weights[i].float()
            time = (np.arange(curves.size(1)) + 0.5) * extent[1] / curves.size(1)
            for k, curve in reversed(list(enumerate(curves / curves.max() * bands * 0.95))):
                for colour, add in (("white", 1.2), ("black" if k == 0 else HEADS[k % len(HEADS)], 0.0)):
                    axes.plot(time, curve.numpy(), color=colour, linewidth=add + (2.0 if k == 0 else 0.9))
        axes.set(xlim=(0, self.length), ylim=(0, bands), yticks=[0, bands])
        axes.spines[["top", "right"]].set_visible(False)
        times = [time for time in MaxNLocator(5).tick_values(0, self.length) if 0 <= time < 0.96 * self.length]
        axes.set_xticks(times)  # none at the end, where the next column begins
        axes.tick_params(labelbottom=last, labelleft=bool(self.left))
        if last:
            axes.set_xlabel("seconds" if self.column.seconds else "frames", labelpad=2)
        if self.left:
            axes.set_ylabel("mel band", labelpad=-10)
        if self.right and i == 0:  # one bar: all have the same colours
            bar = page.figure.colorbar(shown, cax=page.frame(x + self.wide - 58, y, 10, SOUND[1]))
            bar.set_label("log-mel", size=style.SMALL, labelpad=3)
            bar.ax.yaxis.set_major_locator(MaxNLocator(4))


class Passages(Drawn):
    """Text in letters of one width, wrapped."""

    flexible = True

    def __init__(self, column: Column, peers: Sequence[Column]):
        super().__init__(column, peers)
        self.fit(min(max(width(item) for item in column.items), LONGEST) * style.CELL + 4)

    def fit(self, wide: float) -> None:
        self.wide = wide
        self.lines = [wrapped(item, max(8, int((wide - 2) / style.CELL))) for item in self.items]

    def room(self, i: int) -> float:
        return len(self.lines[i]) * style.LINE

    def draw(self, page: Page, i: int, x: float, y: float, height: float, last: bool) -> None:
        page.passage(x, round(y + (height - self.room(i)) / 2), self.lines[i])


class Values(Drawn):
    """Rows of a matrix whose columns are the samples again; the largest of each row is framed, blue where it stands on
    the diagonal."""

    def __init__(self, column: Column, peers: Sequence[Column]):
        super().__init__(column, peers)
        self.matrix = torch.stack(list(column.items)).float()  # (N, N)
        self.scale = Normalize(float(self.matrix.min()), float(self.matrix.max()))
        self.left, self.above = 22.0, 16.0
        self.square = min(SQUARE, MATRIX // self.matrix.size(1))
        self.wide = self.square * self.matrix.size(1) + 44

    def room(self, i: int) -> float:
        return 40

    def draw(self, page: Page, i: int, x: float, y: float, height: float, last: bool) -> None:
        x, middle = x + self.left, y + height / 2
        small: dict[str, Any] = {"color": style.FAINT, "size": style.SMALL}
        for j, value in enumerate(self.matrix[i].tolist()):
            left, centre = x + j * self.square, x + (j + 0.5) * self.square
            page.box(left + 1, y + 1, self.square - 2, height - 2, matplotlib.colormaps[style.HEAT](self.scale(value)))
            if self.square >= WRITTEN:
                ink = "white" if self.scale(value) < 0.6 else style.INK
                page.write(centre, middle, f"{value:.2f}", ha="center", color=ink)
            if i == 0:
                page.write(centre, y - 10, f"{j + 1}", ha="center", **small)
        best = int(self.matrix[i].argmax())
        left, colour = x + best * self.square, "#0072b2" if best == i else "#d55e00"
        page.box(left + 2, y + 2, self.square - 4, height - 4, "none", edge=colour)
        page.write(x - 8, middle, f"{i + 1}", ha="right", **small)
        page.write(x + self.square * self.matrix.size(1) + 8, middle, f"{i + 1}", ha="left", **small)


KINDS: dict[str, type[Drawn]] = {"image": Images, "audio": Sounds, "text": Passages, "values": Values}
