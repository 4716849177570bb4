"""Which values are better, and the best of them."""

import math

import pytest

from zoo.runs import Best, best, direction, read
from zoo.runs.metrics import leaders, scores, subjects

LOWER = ["loss", "perplexity", "wer", "cer", "bits_per_byte", "error", "error_rate", "mse", "nll"]
HIGHER = [
    "accuracy",
    "acc",
    "bleu",
    "chrf",
    "recall@1",
    "recall@10",
    "exact_match",
    "f1",
    "samples_per_s",
    "tokens_per_s",
    "mfu",
    "top5_accuracy",
]


@pytest.mark.parametrize("name", LOWER)
def test_lower_is_better(name):
    assert {direction(form) for form in (name, f"val/{name}", f"val/text/{name}")} == {"min"}


@pytest.mark.parametrize("name", HIGHER)
def test_higher_is_better(name):
    assert {direction(form) for form in (name, f"val/{name}", f"val/text/{name}")} == {"max"}


def test_only_the_last_part_of_a_name_counts():
    assert direction("val/accuracy_set/loss") == "min"


def test_the_best_is_finite_and_the_first(written):
    values = ["nan", 3, 1, "-inf", 1, 2]
    (run,) = read(written("a", [{"step": 10 * i, "val/loss": v, "val/bleu": v} for i, v in enumerate(values)]))
    assert best(run, "val/loss") == Best(1, 20)
    assert best(run, "val/bleu") == Best(3, 10)
    assert best(run, "val/wer") is None


def test_a_run_that_only_diverged_has_nan(written):
    (run,) = read(written("a", [{"step": 5, "val/loss": "nan"}]))
    found = best(run, "val/loss")
    assert found is not None and math.isnan(found.value) and found.step == 5


def test_leaders_need_somebody_behind_them():
    tops = [Best(1, 0), None, Best(2, 0), Best(1, 9), Best(math.nan, 1)]
    assert leaders("val/loss", tops) == {0, 3}
    assert leaders("val/bleu", tops) == {2}
    assert leaders("val/loss", [Best(1, 0), Best(1, 5)]) == set() == leaders("val/loss", [Best(1, 0), None])


def test_runs_are_compared_by_what_was_evaluated(written):
    rows = [{"step": 1, "train/loss": 1, "lr": 1, "val/loss": 1, "val/bleu": 2, "test/loss": 3}]
    (run,) = read(written("a", rows, summary={"monitor": "val/bleu"}))
    assert scores([run]) == ["val/bleu", "val/loss", "test/loss"]
    assert subjects([run]) == ["loss", "bleu", "lr"]
    (run,) = read(written("b", [{"step": 1, "train/loss": 1, "lr": 1}], summary={"monitor": "val/loss"}))
    assert scores([run]) == ["train/loss"]
