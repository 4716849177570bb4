"""What a picture compares, as plain data: columns of images, sounds and texts, or a matrix with names."""

# Shapes: N samples, C channels, H height, W width, n spectrogram frames, m mel bands, K classes, T queries, S keys.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Column:
    """One column of a sheet: something of every sample.

    ``kind`` says what the N ``items`` are.  "image": (C, H, W) floats in [0, 1]; "audio": (n, m) spectrograms of frames
    that last ``seconds``; either with NaN where nothing is known.  "text": strings, or lists of (text, mark), where a
    mark is one of ``MARKS`` or empty.  "values": (N,) numbers, a row of a matrix.
    ``weights`` may lie over the items: (rows, columns) over an image, (curves, T) along a sound, the first drawn thick.
    """

    heading: str
    kind: str
    items: Sequence[Any]
    seconds: float | None = None
    weights: Sequence[Tensor] | None = None


MARKS = {  # mark -> what it means, for the line above the sheet that explains the colours
    "hidden": "hidden from the model",
    "right": "right",
    "wrong": "wrong",
    "new": "written by the model",
    "other": "not in the reference",
}


@dataclass(frozen=True)
class Sheet:
    """Samples side by side; ``name`` is its file's, ``title`` says in words what one sees."""

    name: str
    title: str
    columns: list[Column]

    @property
    def count(self) -> int:
        """How many samples it shows."""
        return len(self.columns[0].items)


@dataclass(frozen=True)
class Confusion:
    """Which classes were taken for which: ``counts`` (K, K) of samples, a row for each true class."""

    name: str
    title: str
    counts: Tensor
    classes: list[str]

    @property
    def count(self) -> int:
        """How many samples it counts."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Weights:
    """Who looks at whom in one sample: a (T, S) matrix for each of several heads, by their names; ``queries`` and
    ``keys`` are the tokens along the axes, empty where they have no text."""

    name: str
    title: str
    maps: dict[str, Tensor]
    queries: list[str]
    keys: list[str]
    count: int = field(default=1, init=False)


Picture = Sheet | Confusion | Weights
