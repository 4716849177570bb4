"""Drawing: pages that hold everything, colours that mean what they should, and letters of every script."""

import warnings

import matplotlib
import numpy as np
import pytest
import torch

from zoo.pictures import Column, Confusion, Sheet, Weights, style
from zoo.pictures.draw import draw
from zoo.pictures.passage import MISSING, drawable, width, wrapped


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def has(image, colour: str) -> int:
    """How many pixels have exactly this colour."""
    return int((np.asarray(image) == rgb(colour)).all(-1).sum())


def test_pixels_become_squares_of_their_own_colour():
    image = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]).view(3, 1, 3).repeat(1, 3, 1)  # three stripes
    unknown = image.clone()
    unknown[:, :, 0] = float("nan")
    drawn = draw(Sheet("a", "Stripes", [Column("all", "image", [image]), Column("some", "image", [unknown])]))
    counts = [has(drawn, colour) for colour in ("#ff0000", "#00ff00", "#0000ff", style.HIDDEN)]
    assert counts[0] > 3000 and counts[1] == counts[2] == 2 * counts[0] and counts[3] == counts[0]


def test_transparent_pixels_lie_on_white_and_two_channels_are_grey():
    clear = torch.tensor([1.0, 0, 0, 0]).view(4, 1, 1).expand(4, 4, 4)
    drawn = draw(
        Sheet("a", "Clear", [Column("clear", "image", [clear]), Column("two", "image", [torch.ones(2, 4, 4)])])
    )
    assert has(drawn, "#ff0000") == 0


def test_spectrograms_of_a_sheet_share_colours():
    quiet, loud = torch.zeros(40, 8), torch.ones(40, 8)
    quiet[0] = 1.0
    drawn = draw(Sheet("a", "Sounds", [Column("one", "audio", [quiet], 0.01), Column("two", "audio", [loud], 0.01)]))
    low, high = (matplotlib.colormaps[style.SPECTRUM](value, bytes=True)[:3] for value in (0.0, 1.0))
    bright, dark = ((np.asarray(drawn) == colour).all(-1).sum() for colour in (high, low))
    assert bright / dark == pytest.approx(41 / 39, rel=0.05)  # a scale for each would leave the second without colours


@pytest.mark.parametrize("seconds", [None, 0.01])
def test_a_sheet_of_all_kinds_fits_on_its_page(seconds):
    count = 5
    columns = [
        Column("image", "image", [torch.rand(3, 32, 48)] * count),
        Column("sound", "audio", [torch.randn(20 + 30 * i, 16) for i in range(count)], seconds),
        Column("text", "text", ["word " * 30 * i for i in range(count)]),
        Column("pieces", "text", [[("given ", ""), ("guess", "right"), ("no", "wrong")]] * count),
        Column("values", "values", list(torch.eye(count))),
    ]
    drawn = draw(Sheet("mixed", "Everything at once", columns), "step 5")
    assert drawn.width <= style.WIDTH + 1 and drawn.mode == "RGB"
    for edge in (np.asarray(drawn)[:4], np.asarray(drawn)[-4:], np.asarray(drawn)[:, :8], np.asarray(drawn)[:, -4:]):
        assert (edge == 255).all(), "something is cut off"
    assert has(drawn, style.MARKED["right"][1]) and has(drawn, style.MARKED["wrong"][1])


def test_a_matrix_of_many_samples_fits_on_its_page():
    texts = Column("input", "text", ["some words " * 9] * 40)
    drawn = draw(Sheet("a", "A", [texts, Column("cosine", "values", list(torch.rand(40, 40))), texts]))
    assert drawn.width <= style.WIDTH + 1


@pytest.mark.parametrize("count", [1, 2, 7, 8, 13])
def test_any_number_of_samples_is_drawn_once(count):
    image = torch.zeros(3, 8, 8)
    image[0] = 1.0
    one = has(draw(Sheet("a", "A", [Column("red", "image", [image])])), "#ff0000")
    assert has(draw(Sheet("a", "A", [Column("red", "image", [image] * count)])), "#ff0000") == one * count


def test_a_kind_that_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match="'video'.*image, audio, text"):
        draw(Sheet("a", "A", [Column("x", "video", [torch.zeros(1)])]))


@pytest.mark.parametrize("classes", [2, 10, 25, 60, 1000])
def test_confusion_of_few_and_many_classes_fits_on_its_page(classes):
    torch.manual_seed(0)
    counts = torch.randint(0, 2, (classes, classes)) + 8 * torch.eye(classes, dtype=torch.long)
    counts[1] = 0  # a class that does not occur
    drawn = draw(
        Confusion("confusion", "Which", counts, [f"a class with a rather long name {i}" for i in range(classes)])
    )
    assert drawn.width <= style.WIDTH + 1 and drawn.height < 1400
    for edge in (np.asarray(drawn)[:4], np.asarray(drawn)[-3:], np.asarray(drawn)[:, :4], np.asarray(drawn)[:, -3:]):
        assert (edge == 255).all(), "something is cut off"


def test_a_confusion_without_mistakes_is_drawn():
    draw(Confusion("confusion", "Which", torch.eye(50, dtype=torch.long), [str(i) for i in range(50)]))


@pytest.mark.parametrize("queries, keys", [(3, 5), (40, 40), (0, 40), (40, 0), (0, 0)])
def test_weights_with_and_without_names_fit_on_their_page(queries, keys):
    maps = {name: torch.rand(queries or 30, keys or 90) for name in ("mean", *(f"head {i}" for i in range(12)))}
    names = [[f"to {i}\n" for i in range(count)] for count in (queries, keys)]
    drawn = draw(Weights("attention", "Who looks", maps, *names), "step 1")
    assert drawn.width <= style.WIDTH + 1
    for edge in (np.asarray(drawn)[:4], np.asarray(drawn)[-3:], np.asarray(drawn)[:, :4], np.asarray(drawn)[:, -3:]):
        assert (edge == 255).all(), "something is cut off"


# ---- text


def test_lines_break_at_spaces_and_keep_every_letter():
    text = "    def f(x):\n        return  an_identifier_that_is_longer_than_a_line + x\n\nend"
    lines = ["".join(piece for piece, _ in line) for line in wrapped(text, 20)]
    assert max(map(len, lines)) <= 20 and lines[0] == "    def f(x):"
    assert lines[1] == "        return "
    assert "".join(lines).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert "" in lines  # the empty line


def test_marks_stay_with_their_letters():
    pieces = [("one two ", ""), ("three fo", "wrong"), ("ur five", "right")]
    found = [piece for line in wrapped(pieces, 9) for piece in line]
    for mark in ("wrong", "right"):
        expected = "".join(text for text, other in pieces if other == mark).replace(" ", "")
        assert "".join(text for text, other in found if other == mark).replace(" ", "") == expected


def test_wide_letters_take_two_cells_and_a_long_text_ends_in_an_ellipsis():
    assert width("漢字") == 4 and width("e\u0301") == 1
    assert "".join(text for line in wrapped("word " * 1000, 60) for text, _ in line).endswith("…")


def test_no_letter_of_any_script_is_warned_of(caplog):
    text = "$\\nonsense{$ \\alpha ñ Ж 漢字 かな 한글 العربية 🙂 \x00 \t tab \ufffd e\u0301"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(Sheet("a", f"A title with {text}", [Column(f"heading {text}", "text", [text, [(text, "right")]])]))
        draw(Confusion("c", "C", torch.eye(2, dtype=torch.long), [text, "漢字"]))
        draw(Weights("w", "W", {"mean": torch.rand(2, 2)}, ["漢字", "🙂"], ["العربية", "$"]))
    assert not caplog.records


def test_a_letter_without_a_font_becomes_a_square():
    assert drawable("a\U000f0000b") == (f"a{MISSING}b", ("DejaVu Sans Mono",))
