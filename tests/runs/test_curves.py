"""The picture of learning curves: which panels there are, what is drawn in them, and that odd runs can be drawn."""

import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure
from PIL import Image

from zoo.runs import draw, read
from zoo.runs.curves import panel, panels
from zoo.runs.units import COLOURS


@pytest.fixture
def pair(written, curve):
    return [read(written(f"run-{floor}", curve(floor, seconds=20), {"lr": floor}))[0] for floor in (1, 2)]


def drawn(runs, name: str, axis: str) -> SimpleNamespace:
    """A panel's title, and its lines in the order in which they are drawn."""
    ax = Figure().subplots()
    title = panel(ax, runs, name, axis)
    return SimpleNamespace(title=title, ax=ax, lines=ax.get_lines())


def test_several_runs_have_a_column_for_each_known_axis(pair):
    axes = ("step", "seconds", "tokens", "flops")
    assert panels(pair) == [[(name, axis) for axis in axes] for name in ("loss", "accuracy")]
    assert panels(pair[:1]) == [[("loss", "step"), ("accuracy", "step"), ("lr", "step")]]


def test_one_axis_is_one_row(written):
    rows = [{"step": 1, "train/loss": 1, "val/loss": 2, "val/perplexity": 7, "val/wer": 1}]
    runs = [read(written(name, rows))[0] for name in "ab"]
    assert panels(runs) == [[("loss", "step"), ("wer", "step")]]


def test_curves_are_drawn_in_the_unit_of_their_axis(pair):
    seen = drawn(pair, "accuracy", "seconds")
    assert seen.title == "training time (minutes)"
    first, second, *rings = seen.lines
    assert list(first.get_xdata()) == pytest.approx([200 / 60, 400 / 60, 600 / 60, 800 / 60, 1000 / 60])
    assert list(second.get_ydata()) == pytest.approx([1 / (2 + 11 / step) for step in (10, 20, 30, 40, 50)])
    assert [line.get_color() for line in (first, second)] == list(COLOURS[:2])
    assert [ring.get_xydata().tolist() for ring in rings] == [
        line.get_xydata()[-1:].tolist() for line in (first, second)
    ]


def test_training_is_thinner_than_validation(pair):
    validation, training, _ring = drawn(pair[:1], "loss", "step").lines
    assert (len(validation.get_xdata()), len(training.get_xdata())) == (5, 50)
    assert training.get_linewidth() < validation.get_linewidth() and training.get_alpha() < 1


def test_the_first_steep_steps_are_left_outside(pair):
    seen = drawn(pair, "loss", "step")
    assert 5 < seen.ax.get_ylim()[1] < 7  # the losses begin at 12, and are 2 + 10 / 3 after a twentieth


def test_many_runs_are_told_apart_and_only_the_best_is_ringed(written, curve):
    runs = [read(written(f"r-{place}", curve(1 + place)))[0] for place in range(20)]
    lines = drawn(runs, "accuracy", "step").lines
    assert len(lines) == 21
    assert len({(line.get_color(), line.get_linestyle(), line._unscaled_dash_pattern[1] is None) for line in lines}) > 7
    assert lines[-1].get_ydata()[0] == pytest.approx(1 / 1.22)


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 1, "train/loss": 1}],
        [{"step": 1, "test/accuracy": 0.5, "test/loss": 1}],
        [{"step": step, "train/loss": value} for step, value in enumerate([1, "nan", "inf", 2])],
        [{"step": 1, "val/loss": "nan"}, {"step": 2, "val/loss": "inf"}],
        [{"lr": 1.0}],
        [{"step": 1, "my_metric": 1}],
    ],
    ids=["one point", "test only", "diverged", "never finite", "no step", "no stage"],
)
def test_odd_runs_can_be_drawn(written, tmp_path, rows):
    runs = [read(written(name, rows))[0] for name in "ab"]
    for place, chosen in enumerate((runs[:1], runs)):
        draw(chosen, tmp_path / f"{place}.png")
        width, height = Image.open(tmp_path / f"{place}.png").size
        assert width >= 900 and height >= 300


def test_the_picture_has_the_runs_colours(pair, tmp_path):
    draw(pair, tmp_path / "curves.png")
    colours = {colour for _, colour in Image.open(tmp_path / "curves.png").convert("RGB").getcolors(1 << 24)}
    used = [tuple(int(code[place : place + 2], 16) for place in (1, 3, 5)) in colours for code in COLOURS[:4]]
    assert used == [True, True, False, False]


def test_without_matplotlib_one_sentence_says_so(pair, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'lightning-zoo\[demo\]'"):
        draw(pair, tmp_path / "curves.png")
