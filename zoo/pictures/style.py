"""How all pictures look: sizes in pixels at 100 %, colours that colour-blind readers can tell apart."""

from typing import Any

DPI = 100
WIDTH = 1560  # the widest a picture may be
MARGIN, GAP = 28, 18  # around everything, and between columns
TITLE, HEADING, TEXT, SMALL = 12.0, 10.0, 9.5, 8.0  # points
LINE = 18  # height of a line of text
CELL = 8  # width of a letter of DejaVu Sans Mono in that size, which is drawn in whole pixels

INK, FAINT, RULE = "#1f2328", "#57606a", "#d0d7de"
HIDDEN = "#93a4b8"  # what is not known in an image or a spectrogram: no grey that could be a pixel
MARKED = {  # mark -> (letters, background)
    "hidden": ("#1f2328", "#cfd8e3"),
    "right": ("#00573f", "#c9efe0"),
    "wrong": ("#9c3b00", "#fde0cc"),
    "new": ("#0b4a85", "#d6e9fb"),
    "other": ("#9c3b00", "#fde0cc"),
}
SPECTRUM, SHARE, HEAT = "magma", "Blues", "viridis"  # colour maps: sound, shares of a row, similarities

SETTINGS: dict[Any, Any] = {
    "text.usetex": False,
    "text.parse_math": False,  # a dollar in a text is a dollar
    "text.color": INK,
    "font.size": TEXT,
    "font.family": ["DejaVu Sans"],
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "axes.facecolor": "white",
    "axes.labelcolor": INK,
    "axes.labelsize": SMALL,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "figure.facecolor": "white",
}
