"""Text in cells: wrapped to a width, its marks kept, and only letters that some font has."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

LONGEST = 2000  # letters of a passage that are shown
MISSING = "\N{WHITE SQUARE}"
LINE_END = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
MONO = "DejaVu Sans Mono"
UNFIT = ("Last Resort", "STIXNon", "STIXSize", "cm")  # boxes for every letter, and other letters than they say

Pieces = list[tuple[str, str]]  # (text, mark)


def pieces(item: str | Pieces) -> Pieces:
    return [(item, "")] if isinstance(item, str) else list(item)


def cells(letter: str) -> int:
    """How many letters' room it takes: Chinese, Japanese and Korean ones are twice as wide, accents have none."""
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def width(item: str | Pieces) -> int:
    """Cells of its longest line."""
    text = "".join(text for text, _ in pieces(item))
    return max((sum(map(cells, line)) for line in text.expandtabs(4).split("\n")), default=0)


def wrapped(item: str | Pieces, room: int) -> list[Pieces]:
    """The lines of a passage, none wider than ``room`` cells; lines break at spaces where there are any."""
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for letter, mark in letters(item):
        if letter == "\n":
            lines.append([])
            used = 0
            continue
        if used + cells(letter) > room:
            if letter == " ":
                lines.append([])
                used = 0
                continue
            space = last_space(lines[-1])
            lines[-1], rest = lines[-1][:space], lines[-1][space + 1 :]
            lines.append(rest)
            used = sum(cells(other) for other, _ in rest)
        lines[-1].append((letter, mark))
        used += cells(letter)
    return [joined(line) for line in lines]


def last_space(line: list[tuple[str, str]]) -> int:
    """The place of the last space between words, or the end of the line where there is none."""
    text = "".join(letter for letter, _ in line)
    space = text.rfind(" ")
    return space if text[: max(space, 0)].strip() else len(line)


def letters(item: str | Pieces) -> Iterable[tuple[str, str]]:
    """Each letter with its mark; beyond ``LONGEST`` an ellipsis stands for the rest, and more than two line ends in a
    row are seen as signs."""
    count = ends = 0
    for text, mark in pieces(item):
        for letter in text.expandtabs(4):
            if count == LONGEST:
                yield "…", ""
                return
            count += 1
            ends = ends + 1 if letter == "\n" else 0
            if ends > 2:
                letter = LINE_END
            yield (letter if letter == "\n" or letter.isprintable() else MISSING), mark


def joined(line: list[tuple[str, str]]) -> Pieces:
    """Neighbours of one mark as one piece."""
    out: Pieces = []
    for letter, mark in line:
        if out and out[-1][1] == mark:
            out[-1] = (out[-1][0] + letter, mark)
        else:
            out.append((letter, mark))
    return out


# ---- fonts


def drawable(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with a square for letters that no installed font has, and the fonts that it needs, in their order."""
    fonts = [MONO]
    for letter in sorted(set(text) - coverage(MONO)):
        found = font_of(letter)
        if found is None:
            text = text.replace(letter, MISSING)
        elif found not in fonts:
            fonts.append(found)
    return text, tuple(fonts)


@functools.cache
def font_of(letter: str) -> str | None:
    """An installed font that has this letter."""
    names = sorted(files(), key=lambda name: (not name.startswith("DejaVu Sans"), not name.startswith("Noto"), name))
    return next((name for name in names if letter in coverage(name)), None)


@functools.cache
def coverage(name: str) -> frozenset[str]:
    """The letters that a font has; none of one that cannot be drawn, such as coloured emoji."""
    try:
        return frozenset(map(chr, FT2Font(files()[name]).get_charmap()))
    except (RuntimeError, ValueError, OSError):
        return frozenset()


@functools.cache
def files() -> dict[str, str]:
    """The installed fonts' files by their names."""
    fonts = font_manager.fontManager.ttflist
    upright = [font for font in fonts if font.style == "normal" and font.weight in (400, "normal", "regular")]
    return {font.name: font.fname for font in upright if not font.name.startswith(UNFIT)}
