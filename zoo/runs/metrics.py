"""What is good: the direction of each metric, and the best that a run reached."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from zoo.runs.read import Run

HIGHER = re.compile(
    r"(^|_)(accuracy|acc|bleu|chrf|rouge\w*|recall|precision|f1|auc|auroc|exact_match|r2|mfu)($|[@_\d])|_per_s$"
)
EVALUATED = ("val/", "test/")
STAGES = ("train/", *EVALUATED)


class Best(NamedTuple):
    """The best value of a metric, and the optimizer step (None where unknown) at which it was first reached."""

    value: float
    step: int | None


def direction(name: str) -> Literal["min", "max"]:
    """Which values of a metric are better, by its name's last part: losses, perplexities and error rates are "min",
    accuracies, recalls, BLEU and throughput are "max"."""
    return "max" if HIGHER.search(name.rsplit("/", 1)[-1].lower()) else "min"


def best(run: Run, metric: str) -> Best | None:
    """None where a run does not have the metric; NaN where it has nothing else."""
    rows = [row for row in run.metrics if metric in row]
    if not rows:
        return None
    choose = max if direction(metric) == "max" else min
    finite = [row for row in rows if math.isfinite(row[metric])]
    row = choose(finite or rows, key=lambda row: row[metric])
    step = row.get("step")
    return Best(row[metric], None if step is None else int(step))


def leaders(metric: str, reached: Sequence[Best | None]) -> set[int]:
    """The places of the best among runs; nobody leads where fewer than two are known or all are equal."""
    known = {place: item.value for place, item in enumerate(reached) if item and math.isfinite(item.value)}
    if len(set(known.values())) < 2:
        return set()
    top = (max if direction(metric) == "max" else min)(known.values())
    return {place for place, value in known.items() if value == top}


def scores(runs: Sequence[Run]) -> list[str]:
    """The metrics by which runs are compared: what they are monitored by, then the other evaluated ones; of runs that
    were never evaluated, those of training."""
    seen = list(dict.fromkeys(name for run in runs for name in run.names))
    monitored = [name for name in dict.fromkeys(run.summary.get("monitor") for run in runs) if name in seen]
    evaluated = [name for name in seen if name.startswith(EVALUATED)]
    chosen = evaluated or [name for name in seen if name.startswith("train/")] or seen
    return list(dict.fromkeys([*monitored, *chosen]))


def subjects(runs: Sequence[Run]) -> list[str]:
    """What is measured in one or more stages, loss first, then that by which runs are compared: "loss", "accuracy"."""
    seen = list(dict.fromkeys(name for run in runs for name in run.names))
    names = list(dict.fromkeys(subject(name) for name in [*scores(runs), *seen]))
    return sorted(names, key=lambda name: name != "loss")


def subject(name: str) -> str:
    """ "val/text/loss" -> "text/loss"."""
    return name.split("/", 1)[1] if name.startswith(STAGES) else name
