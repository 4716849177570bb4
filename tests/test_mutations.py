"""The short form of ``python -m tests.long.mutations``, and that it would find what breaks a promise."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.long.cases import Case
from tests.long.mutations import (
    CODE,
    CONTROL,
    EXECUTED,
    GREED,
    HANG,
    LINE,
    SIGNAL,
    TRACEBACK,
    Outcome,
    attempt,
    judge,
    makers,
    outcomes,
)
from tests.long.report import Report

A_FEW = 2  # damaged files of a kind, spread over all that there are
KINDS = ("checkpoint", "export", "image", "config")  # each in a second or two; tests of their readers have the others
GOOD = Outcome(Case("checkpoint", "damaged", [], "/b/file.bin"), 1, 1.0, 0, "zoo: error: /a/file.bin: no", "", False)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
def test_a_few_damaged_files_of_each_kind(tmp_path):
    report = Report("a few damaged files")
    made = makers(tmp_path, 0)
    for kind in KINDS:
        place = tmp_path / kind
        place.mkdir()
        cases = list(made[kind](place))
        damaged = [case for case in cases if not case.control]
        controls = [case for case in cases if case.control]
        found = attempt(kind, [controls[0], *damaged[len(damaged) // 4 :: len(damaged) // A_FEW]], place, report)
        assert not [(outcome.case.name, outcome.broken, outcome.said) for outcome in found if outcome.broken]
    assert report.kept


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({}, None),
        ({"executed": True}, EXECUTED),
        ({"said": "Traceback (most recent call last)\nValueError: /a/file.bin"}, TRACEBACK),
        ({"code": -11}, SIGNAL),
        ({"code": None, "seconds": 10.5}, HANG),
        ({"peak": 2_100_000_000}, GREED),
        ({"code": 0}, CODE),
        ({"code": 3}, CODE),
        ({"said": "zoo: error: it is damaged"}, LINE),
        ({"said": "a warning\nzoo: error: /a/file.bin is damaged"}, LINE),
        ({"said": ""}, LINE),
    ],
)
def test_a_broken_promise_is_seen(changes, promise):
    outcome = replace(GOOD, broken=[], **changes)
    judge(outcome, ordinary=1_000_000_000)
    assert (promise in outcome.broken) if promise else not outcome.broken


def test_a_control_that_is_refused_is_seen():
    outcome = replace(GOOD, case=replace(GOOD.case, control=True), broken=[])
    judge(outcome, ordinary=0)
    assert outcome.broken == [CONTROL]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
def test_what_a_process_does_is_noted(tmp_path):
    """A command whose output is a file that hostile code might have made, and one that is wrong."""
    canary = tmp_path / "canary.json"
    cases = [Case("x", "one", ["schema", "--out", str(canary)], ""), Case("x", "two", ["fit", "--nonsense"], "")]
    one, two = sorted(outcomes(cases, tmp_path), key=lambda outcome: outcome.case.name)
    assert one.code == 0 and one.executed and Path(canary).is_file()
    assert two.code == 2 and two.said.startswith("zoo: error: ") and two.peak > 10_000_000
