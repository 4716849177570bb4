"""What changes logits: equal to the reference's processors on random logits and histories."""

import math

import pytest
import torch
import transformers.generation.logits_process as hf

from zoo.described import describe
from zoo.generation import rules
from zoo.generation.rules import (
    Force,
    ForceLast,
    MinLength,
    MinTotal,
    NoRepeat,
    OneOf,
    Renormalise,
    RepetitionPenalty,
    Rule,
    Suppress,
    SuppressFirst,
)

V, START = 23, 4
PAD = -1
ENDS = [3, 7]


def drawn(seed: int, length: int = 12, rows: int = 3, few: int = V) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return 3 * torch.randn(rows, V), torch.randint(few, (rows, length))


CASES = [  # ours, theirs, and the lengths of history at which they are tried
    (RepetitionPenalty(1.3), hf.RepetitionPenaltyLogitsProcessor(1.3), range(4, 13)),
    (RepetitionPenalty(0.7), hf.RepetitionPenaltyLogitsProcessor(0.7), range(4, 13)),
    *((NoRepeat(size), hf.NoRepeatNGramLogitsProcessor(size), range(1, 13)) for size in (1, 2, 3, 4)),
    (Suppress([2, 5, 22, 99]), hf.SuppressTokensLogitsProcessor([2, 5, 22, 99]), [4, 6]),
    (Suppress([2, 5]), hf.NoBadWordsLogitsProcessor([[2], [5]]), [4, 6]),
    (SuppressFirst([2, 5]), hf.SuppressTokensAtBeginLogitsProcessor([2, 5], START), range(4, 8)),
    (SuppressFirst([2, 5], after=2), hf.SuppressTokensAtBeginLogitsProcessor([2, 5], START + 2), range(4, 8)),
    (MinLength(3, ENDS), hf.MinNewTokensLengthLogitsProcessor(START, 3, ENDS), range(4, 10)),
    (MinTotal(6, ENDS), hf.MinLengthLogitsProcessor(6, ENDS), range(4, 10)),
    (ForceLast(5, [6]), hf.ForcedEOSTokenLogitsProcessor(START + 5, 6), range(4, 11)),
    (ForceLast(5, ENDS), hf.ForcedEOSTokenLogitsProcessor(START + 5, ENDS), range(4, 11)),
    (Renormalise(), hf.LogitNormalization(), [4]),
]


@pytest.mark.parametrize(("ours", "theirs", "lengths"), CASES, ids=lambda case: type(case).__name__)
def test_equals_the_reference(ours, theirs, lengths):
    changed = 0
    for seed, length in enumerate(lengths):
        logits, history = drawn(seed, length, few=4 if isinstance(ours, NoRepeat) else V)
        before = logits.clone()
        found = ours(logits, history, START)
        assert torch.equal(found, theirs(history, logits.clone())), length
        assert torch.equal(logits, before)
        changed += not torch.equal(found, before)
    assert changed


def test_a_forced_first_token_equals_the_reference():
    for length in (1, 2, 3):
        logits, history = drawn(length, length)
        wanted = hf.ForcedBOSTokenLogitsProcessor(9)(history, logits)
        assert torch.equal(Force(9)(logits, history, 1), wanted)
    logits, history = drawn(0, 7)
    assert Force(9, step=3)(logits, history, 4).isfinite().nonzero().tolist() == [[0, 9], [1, 9], [2, 9]]
    assert Force(9, step=2)(logits, history, 4) is logits


def test_one_of_some_keeps_how_likely_they_are():
    logits, history = drawn(0, 1)
    found = OneOf([4, 8])(logits, history, 1)
    assert torch.equal(found[:, [4, 8]], logits[:, [4, 8]]) and found.isfinite().sum() == 6
    assert OneOf([4, 8], step=1)(logits, history, 1) is logits


PADDED = (RepetitionPenalty(1.3), NoRepeat(1), NoRepeat(2), NoRepeat(3), MinTotal(7, ENDS), MinTotal(11, ENDS))


@pytest.mark.parametrize("rule", PADDED, ids=lambda rule: type(rule).__name__)
def test_padding_counts_as_nothing(rule):
    """A row among longer ones is what it is alone."""
    for seed in range(20):
        logits, history = drawn(seed, few=4)
        for row, padding in enumerate((0, 3, 9)):
            history[row, :padding] = PAD
        together = rule(logits, history, 10)
        for row, padding in enumerate((0, 3, 9)):
            alone = rule(logits[row : row + 1], history[row : row + 1, padding:], 10 - padding)
            assert torch.equal(together[row], alone[0])


def test_ids_beyond_the_logits_count_as_nothing():
    """A vocabulary may have more ids than a head."""
    logits, history = drawn(0)
    history[:, ::2] = V + 5
    for rule, theirs in (
        (RepetitionPenalty(1.3), hf.RepetitionPenaltyLogitsProcessor(1.3)),
        (Suppress([V + 1, 2]), hf.SuppressTokensLogitsProcessor([V + 1, 2])),
    ):
        assert torch.equal(rule(logits, history, START), theirs(history, logits))
    assert NoRepeat(1)(logits, history, START).isinf().any()
    with pytest.raises(ValueError, match="the token 23 cannot be forced, for the vocabulary has 23 ids"):
        Force(V)(logits, history, history.size(1))


def test_tokens_that_are_kept_serve_outside_of_inference_too():
    rules.places.cache_clear()
    logits, history = drawn(0)
    with torch.inference_mode():
        Suppress([2])(logits, history, START)
    logits.requires_grad_()
    Suppress([2])(logits, history, START)[:, 3:].sum().backward()
    assert logits.grad[:, 2].eq(0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RepetitionPenalty(0), "penalty=0 is not above 0"),
        (lambda: RepetitionPenalty(math.inf), "penalty=inf"),
        (lambda: NoRepeat(0), "size=0 is no number of tokens"),
        (lambda: Suppress([-1]), r"tokens=\[-1\]: -1 is no token id"),
        (lambda: Suppress([]), r"tokens=\[\]: there is none"),
        (lambda: SuppressFirst([True]), "True is no token id"),
        (lambda: SuppressFirst([1], after=-1), "after=-1 is below 0"),
        (lambda: MinLength(-1, [1]), "length=-1 is below 0"),
        (lambda: Force("a"), "'a' is no token id"),
        (lambda: Force(1, step=-2), "step=-2"),
    ],
)
def test_senseless_values_are_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_they_are_values_that_yaml_can_say():
    for rule, *_ in CASES:
        again = describe(rule)
        assert isinstance(rule, Rule) and again["class_path"] == f"zoo.generation.rules.{type(rule).__name__}"
        assert describe(type(rule)(**again["init_args"])) == again
