"""Beam search finds the likeliest text, alone or in a batch; that it equals another library's is in tests/models."""

import itertools
import math

import pytest
import torch

import zoo
from zoo.generation import Beam, Generation, Greedy
from zoo.generation.rules import Force, MinLength, NoRepeat, RepetitionPenalty
from zoo.nn import Cache
from zoo.tokenizers import Ids, Patches, Tokens

SMALL, LENGTH = 5, 4  # of the first a vocabulary, of which all texts of the second can be scored


def drawn(task):
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in task.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.5)
    return task.eval()


def decoder(vocabulary: int = SMALL, backbone=None, eos: int | None = None):
    return drawn(zoo.CausalLM(backbone or zoo.GPT2(16, 2, 2, length=40), Ids(vocabulary, eos=eos), tie=False))


def pair(vocabulary: int = 31):
    return drawn(zoo.Seq2Seq(zoo.Transformer(16, 2, 2), Ids(vocabulary, 0, 1, 2), tie=False))


def stopping(task, search):
    """It writes at most 12 tokens, and stops earlier in some rows: at tokens that it writes if free."""
    rules = [NoRepeat(2)]
    task.generation = Generation(12, search, rules)
    free = task.generate(LONGER).tokens
    ends = [int(free[0][5]), int(free[1][8])]
    task.generation = Generation(12, search, [*rules, MinLength(3, ends)], ends)
    return task


PROMPTS = [[1, 2, 3], [4, 0], [3, 3, 1, 2, 0, 4, 4]]
LONGER = [[7, 12, 3], [4, 20], [30, 3, 1, 12, 9, 14, 24]]


def text(ids) -> str:
    return " ".join(map(str, ids))


def every_text(ends: set[int], stops: list[str]):
    """What can be written: up to the first end or stop, or to the greatest length."""
    found = set()
    for ids in itertools.product(range(SMALL), repeat=LENGTH):
        cut = (n for n in range(1, LENGTH + 1) if ids[n - 1] in ends or any(stop in text(ids[:n]) for stop in stops))
        found.add(ids[: next(cut, LENGTH)])
    return sorted(found)


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize(("ends", "stops"), [((), ()), ((2,), ()), ((0, 3), ()), ((), ("1 4", "2")), ((3,), ("0 0",))])
def test_with_beams_for_all_texts_the_best_of_all_is_found(penalty, ends, stops):
    task = decoder()
    task.generation = Generation(LENGTH, Beam(SMALL**LENGTH, penalty), ends=ends, stops=stops)
    texts = [list(ids) for ids in every_text(set(ends), list(stops))]
    written = task.generate(PROMPTS)
    for prompt, tokens, score in zip(PROMPTS, written.tokens, written.scores, strict=True):
        sums = [float(chances.sum()) for chances in task.log_probabilities([prompt] * len(texts), texts)]
        scores = [total / len(ids) ** penalty for total, ids in zip(sums, texts, strict=True)]
        assert tokens.tolist() == texts[max(range(len(texts)), key=scores.__getitem__)]
        assert score == pytest.approx(max(scores), abs=1e-5)


def test_greedy_does_not_find_it():
    """Otherwise the test above would say nothing."""
    task = decoder()
    best = task.generate(PROMPTS, LENGTH, Beam(SMALL**LENGTH)).tokens
    assert any(not torch.equal(a, b) for a, b in zip(best, task.generate(PROMPTS, LENGTH, Greedy()).tokens))


@pytest.mark.parametrize(
    "task",
    [
        lambda: decoder(31),
        lambda: decoder(31, zoo.LLaMA(16, 2, 2, hidden=32)),
        lambda: decoder(31, zoo.Mistral(16, 2, 2, 1, 32, window=3)),  # the window is passed by prompt and text
        pair,
    ],
    ids=["gpt2", "llama", "mistral", "seq2seq"],
)
@pytest.mark.parametrize("early", [False, True, "never"])
def test_a_batch_writes_what_each_row_alone_does(task, early):
    """Prompts of other lengths, rows that leave before others, and a cache of a fixed size change nothing."""
    task = stopping(task(), Beam(3, 0.8, early))
    alone = [task.generate([prompt]) for prompt in LONGER]
    tokens, scores = [one.tokens[0].tolist() for one in alone], [one.scores[0] for one in alone]
    assert len({len(row) for row in tokens}) > 1 and max(map(len, tokens)) > 3
    for cache in (None, Cache(40)):
        written = task.generate(LONGER, cache=cache)
        assert [row.tolist() for row in written.tokens] == tokens
        assert written.scores == pytest.approx(scores, abs=1e-5)
        assert written.reasons == [one.reasons[0] for one in alone]


def test_the_score_is_the_likelihood_that_the_task_itself_says():
    task = pair()
    written = task.generate(LONGER, 9, Beam(4, 0.7))
    for chances, score in zip(task.log_probabilities(LONGER, [row.tolist() for row in written.tokens]), written.scores):
        assert score == pytest.approx(float(chances.sum()) / len(chances) ** 0.7, abs=1e-5)


def test_one_beam_is_greedy_with_rules_as_well():
    task = decoder(31, eos=5)
    task.generation = Generation(12, rules=[RepetitionPenalty(3.0), NoRepeat(2)])
    greedy, beam = (task.generate(LONGER, search=search) for search in (Greedy(), Beam(1)))
    assert [row.tolist() for row in greedy.tokens] == [row.tolist() for row in beam.tokens]
    assert beam.scores == [None] * 3 and beam.reasons == greedy.reasons


def test_rows_leave_the_batch():
    """Each step reads three beams of the rows that still write, and of no other."""
    task = stopping(decoder(31), Beam(3, early_stopping=True))
    sizes = []
    handle = task.backbone.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])))
    lengths, left = [], []
    for written in task.steps(LONGER):
        lengths.append([len(row) for row in written.tokens])
        left.append((list(written.active), written.numbers.tolist()))
    handle.remove()
    assert sizes[0] == 3 and set(sizes[1:]) == {3 * (3 - done) for done in range(len(lengths))} and len(lengths) > 1
    assert all(active == numbers for active, numbers in left) and left[-1] == ([], [])
    assert [sum(map(bool, row)) for row in lengths] == [3 - len(active) for active, _ in left]


def test_a_stop_string_ends_a_text_before_it():
    task = decoder(31)
    free = task.generate(LONGER[:1], 12, Beam(3)).tokens[0].tolist()
    stop = text(free[4:6])
    written = task.generate(LONGER[:1], 12, Beam(3, early_stopping=True), stops=[stop])
    assert written.reasons == ["stop"] and text(written.tokens[0].tolist()).endswith(stop)
    assert written.outputs == [" " + text(written.tokens[0].tolist()).removesuffix(stop)]


def test_a_stream_gives_its_text_at_the_end():
    task = decoder(31)
    pieces = list(task.stream(LONGER[0], 8, Beam(3)))
    assert pieces == [" " + text(task.generate(LONGER[:1], 8, Beam(3)).tokens[0].tolist())]


def test_where_nothing_may_follow_a_row_ends():
    task = decoder(SMALL)
    task.generation = Generation(12, Beam(3), rules=[NoRepeat(1)])
    written = task.generate(PROMPTS)
    for prompt, tokens, reason, score in zip(PROMPTS, written.tokens, written.reasons, written.scores, strict=True):
        assert sorted({*prompt, *tokens.tolist()}) == list(range(SMALL)), "every token once"
        assert len(tokens) == SMALL - len(set(prompt)) and reason == "end" and math.isfinite(score)


def test_a_beam_that_nothing_may_follow_does_not_win():
    """A forced token leaves one beginning for three beams."""
    task = decoder(31)
    task.generation = Generation(6, Beam(3), rules=[Force(9), Force(11, 1), Force(4, 5)])
    for tokens, score in zip((written := task.generate(LONGER)).tokens, written.scores, strict=True):
        assert tokens[[0, 1, 5]].tolist() == [9, 11, 4] and math.isfinite(score)


def test_more_beams_than_tokens():
    assert len(decoder(3).generate([[1]], 5, Beam(40)).tokens[0]) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"width": 0}, "width=0 is no number of beams"),
        ({"length_penalty": math.inf}, "length_penalty=inf is no number"),
        ({"early_stopping": "always"}, "early_stopping='always' is none of false, true and 'never'"),
    ],
)
def test_what_cannot_be(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Beam(**arguments)


def test_numbers_have_no_beams():
    tokenizer = Patches(8, 4)
    task = drawn(zoo.CausalLM(zoo.GPT2(16, 1, 2, length=40), tokenizer))
    with pytest.raises(ValueError, match="Patches predicts numbers and no chances, so Beam has nothing to choose from"):
        task.generate(Tokens(torch.rand(1, 2, tokenizer.features)), search=Beam(3))
