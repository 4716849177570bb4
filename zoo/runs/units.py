"""How quantities are written for people: x-axes and their units, engineering numbers, shortened text."""

from __future__ import annotations

from collections.abc import Sequence

AXES = {  # column of metrics.csv -> what it is called; their order is that of columns and menus
    "step": "optimizer steps",
    "seconds": "training time",
    "tokens": "tokens",
    "flops": "training compute",
    "samples": "samples",
}
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
TIMES = (
    (86400.0, "days", 4 * 86400.0),
    (3600.0, "hours", 3 * 3600.0),
    (60.0, "minutes", 300.0),
)  # from where each is used
# Okabe and Ito's colours (2008), which the colour-blind tell apart, without their yellow, which is too pale for a line;
# the last is for black, which must change with the background.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")


def engineering(value: float, digits: int = 4) -> str:
    """12000 -> "12k", 1.5e15 -> "1.5P"; small values as they are, as many digits as asked for."""
    power = 0
    while abs(float(f"{value:.{digits}g}")) >= 1000 and power + 1 < len(PREFIXES):  # 999999 is 1M, not 1000k
        value, power = value / 1000, power + 1
    return f"{value:.{digits}g}{PREFIXES[power]}"


def duration(seconds: float) -> str:
    """3725 -> "1 h 02 min", 75 -> "1 min 15 s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{seconds:.3g} s"


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """1234567 bytes ("B") -> "1.23 MB"."""
    number = engineering(value, digits)
    plain = number.rstrip("".join(PREFIXES))
    return f"{plain} {number[len(plain) :]}{unit}"


def flops(count: float) -> str:
    """1.2e15 -> "1.2 PFLOP"."""
    return scaled(count, "FLOP", digits=4)


def scale(axis: str, largest: float) -> tuple[float, str]:
    """What the values of an x-axis are divided by, and its title with the unit."""
    title = AXES[axis]
    if axis == "seconds":
        divisor, unit = next(((divisor, unit) for divisor, unit, least in TIMES if largest >= least), (1.0, "seconds"))
        return divisor, f"{title} ({unit})"
    if axis == "flops":
        unit = flops(largest).split()[1]
        return 1000.0 ** PREFIXES.index(unit.removesuffix("FLOP")), f"{title} ({unit})"
    return 1.0, title


def shorten(text: str, width: int) -> str:
    """Text of at most ``width`` letters; the middle of a longer one is left out."""
    if len(text) <= width:
        return text
    left = (width - 1) // 2
    return f"{text[: width - 1 - left]}…{text[len(text) - left :]}"


def shortened(texts: Sequence[str], width: int) -> list[str]:
    """Each shortened; where that makes different ones equal, what the long ones begin with is left out instead."""
    short = [shorten(text, width) for text in texts]
    if len(set(short)) == len(set(texts)):
        return short
    letters = zip(*(text for text in texts if len(text) > width))
    begin = next((place for place, column in enumerate(letters) if len(set(column)) > 1), 0)
    return [shorten(f"…{text[begin:]}" if len(text) > width and begin else text, width) for text in texts]
