"""How quantities are written."""

import pytest

from zoo.runs.units import duration, engineering, flops, scale, shorten, shortened


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (10_000, "10k"),
        (1_234_567, "1.235M"),
        (999_999, "1M"),
        (-2e9, "-2G"),
        (0.00012, "0.00012"),
    ],
)
def test_engineering_numbers(value, text):
    assert engineering(value) == text


def test_durations_and_flops():
    assert [duration(s) for s in (0.25, 59.4, 75, 3725, 90000)] == [
        "0.25 s",
        "59.4 s",
        "1 min 15 s",
        "1 h 02 min",
        "25 h 00 min",
    ]
    assert duration(59.96) == "1 min 00 s"
    assert [flops(count) for count in (12, 1.2e15, 3e21)] == ["12 FLOP", "1.2 PFLOP", "3 ZFLOP"]


def test_axes_have_the_unit_of_their_largest_value():
    assert scale("seconds", 100) == (1, "training time (seconds)")
    assert scale("seconds", 1000) == (60, "training time (minutes)")
    assert scale("seconds", 40_000) == (3600, "training time (hours)")
    assert scale("seconds", 1e6) == (86400, "training time (days)")
    assert scale("flops", 2.5e16) == (1e15, "training compute (PFLOP)")
    assert scale("tokens", 1e9) == (1, "tokens")


def test_long_text_loses_its_middle():
    assert shorten("short", 5) == "short"
    assert shorten("abcdefghij", 5) == "ab…ij" and shorten("abcdefghij", 6) == "abc…ij"


def test_values_that_differ_in_the_middle_stay_different():
    texts = [f"/data/{name}/{'x' * 20}.txt" for name in "ab"]
    assert shortened([*texts, "—"], 12) == ["…a/xxx…x.txt", "…b/xxx…x.txt", "—"]
    assert shortened(["abcdefghij", "x"], 5) == ["ab…ij", "x"]
