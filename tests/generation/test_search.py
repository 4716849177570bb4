"""One token at a time: against loops without a cache, and chances against what they should be."""

from functools import partial

import pytest
import torch

from tests.tasks.conftest import TOKENIZERS, backbone, batch, both
from zoo.generation import Force, Generation, Greedy, Sample, SuppressFirst, Written
from zoo.generation.search import drawn
from zoo.nn import Cache, Causal, Learned, PreNorm, Window
from zoo.tasks import CausalLM, Seq2Seq
from zoo.tokenizers import Tokens

MASKS = {"causal": Causal(), "window": Causal() & Window(5)}
PROMPTS = ["hello wor", "a", "a third and longer line"]


def lively(task):
    """Weights as large as trained ones: other tokens follow on other prompts."""
    torch.manual_seed(1)
    for name, weight in task.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(weight, std=0.3)
    return task.eval()


def writes(mask=Causal(), **arguments) -> CausalLM:
    return lively(CausalLM(backbone(mask), TOKENIZERS["text"], **arguments))


def uncached(task: CausalLM, prompt: torch.Tensor, length: int) -> torch.Tensor:
    """The definition: the whole is read again for every token."""
    whole = prompt
    with torch.no_grad():
        for _ in range(length):
            whole = torch.cat((whole, task.head(task(Tokens(whole[None])))[0, -1].argmax()[None]))
    return whole[len(prompt) :]


@pytest.mark.parametrize("mask", MASKS)
def test_greedy_is_the_likeliest_of_the_full_forward(mask):
    """Prompts of other lengths share a batch, and nobody notices."""
    task = writes(MASKS[mask], generation=Generation(length=20))
    written = task.generate(PROMPTS)
    found = [uncached(task, TOKENIZERS["text"].prompt(prompt), 20) for prompt in PROMPTS]
    ends = [row.tolist().index(2) + 1 if 2 in row else 20 for row in found]
    assert [row.tolist() for row in written.tokens] == [row[:end].tolist() for row, end in zip(found, ends)]
    assert len({tuple(row.tolist()) for row in written.tokens}) == 3
    for cache in (Cache(capacity=64), Cache(spare=3)):
        assert all(map(torch.equal, task.generate(PROMPTS, cache=cache).tokens, written.tokens))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("search", [Greedy(), Sample(0.8, top_k=50, seed=3)])
def test_a_row_that_ends_leaves_the_others_alone(mask, search):
    """Some end early: the batch becomes smaller, and each row is what it is alone, also in what is drawn by chance."""
    task = writes(MASKS[mask])
    free = task.generate(PROMPTS, 16, search)
    task.generation = Generation(ends=[int(free.tokens[1][4])])
    rows: list[int] = []
    task.backbone.register_forward_pre_hook(lambda part, inputs: rows.append(len(inputs[0])))
    written = task.generate(PROMPTS, 16, search)
    assert written.reasons[1] == "end" and len(written.tokens[1]) <= 5
    assert rows[0] == 3 and rows[-1] < 3
    for number, prompt in enumerate(PROMPTS):
        alone = task.generate([prompt], 16, search, first=number)
        assert torch.equal(alone.tokens[0], written.tokens[number]) and alone.reasons[0] == written.reasons[number]


def test_reasons_and_room():
    task = writes(generation=Generation(length=7))
    written = task.generate(["hello"])
    assert written.reasons == ["length"] and len(written.tokens[0]) == 7
    text = written.outputs[0]
    stopped = task.generate(["hello"], stops=[text[2:4]])
    assert stopped.reasons == ["stop"] and stopped.outputs[0] == text[: text.index(text[2:4])]
    task.backbone.position = Learned(32, 8).eval()
    assert len(task.generate(["hello"], 50).tokens[0]) == 4  # 5 given, 3 more read, and one that nobody reads
    assert task.generate(["hello"], 50).reasons == ["context"]
    assert len(task.generate(["hello you"[:8]], 50).tokens[0]) == 1
    with pytest.raises(ValueError, match="the prompt has 9 tokens, and the model positions for 8; give a shorter one"):
        task.generate(["hello you"])


def test_what_cannot_be_written_on_is_told():
    task = writes()
    with pytest.raises(ValueError, match="the prompt is empty; give at least one token to go on from"):
        task.generate([""])
    with pytest.raises(ValueError, match="there is no token 260: the vocabulary has the ids 0 to 259"):
        task.generate(torch.tensor([[5, 260]]))
    with pytest.raises(ValueError, match="is one prompt; give a list of them"):
        task.generate("hello")
    with pytest.raises(ValueError, match="without a prompt"):
        task.generate(["hello"], prompt=["x"])
    with pytest.raises(ValueError, match="length=0 writes nothing"):
        Generation(length=0)
    image = lively(CausalLM(backbone(Causal()), TOKENIZERS["image"]))
    with pytest.raises(
        ValueError, match="Patches predicts numbers and no chances, so Sample has nothing to choose from"
    ):
        image.generate(Tokens(batch("image").input.value[:, :8]), search=Sample())


def test_a_conversation_goes_on_from_its_cache():
    """What was read is not read again, and all is as if it had been written at once."""
    pen, cache = TOKENIZERS["text"], Cache()
    task = writes(generation=Generation(length=6))
    (first,) = task.generate(["hello"], cache=cache).tokens
    more = torch.cat((first[-1:], pen.prompt(" moon")))
    read: list[int] = []
    task.backbone.register_forward_pre_hook(lambda part, inputs: read.append(inputs[0].size(1)))
    (second,) = task.generate(more[None], cache=cache).tokens
    assert read[0] == len(more)
    whole = torch.cat((pen.prompt("hello"), first[:-1], more))
    assert torch.equal(second, task.generate(whole[None]).tokens[0])


# ---- chances


def test_a_number_draws_the_token_whose_share_it_falls_into():
    chances = torch.tensor([[0.2, 0.0, 0.5, 0.3]]).expand(6, 4)
    numbers = torch.tensor([0.0, 0.19, 0.2, 0.69, 0.71, 0.999])
    assert drawn(chances, numbers).tolist() == [0, 0, 2, 2, 3, 3]
    assert drawn(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0.9999999])).tolist() == [1]


def test_drawn_tokens_are_as_frequent_as_they_should_be():
    """Pearson's chi-square of 4,000 first tokens; 99.9 % of true samples lie below its quantile."""
    task, search = writes(), Sample(temperature=0.7, top_k=12, seed=5)
    ids = TOKENIZERS["text"].prompt("hello")[None]
    logits = task.head(task(Tokens(ids)))[:, -1].detach()
    chances = search.chances(logits)[0]
    found = torch.cat(task.generate(ids.expand(4000, -1), 1, search).tokens).bincount(minlength=len(chances))
    likely = chances * 4000 > 5
    assert likely.sum() > 4 and found[chances == 0].sum() == 0
    square = ((found - chances * 4000) ** 2 / (chances * 4000))[likely].sum()
    freedom = int(likely.sum()) - 1
    quantile = freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3  # Wilson & Hilferty 1931
    assert square < quantile


def test_seeds_reproduce_and_differ():
    task = writes()
    ids = TOKENIZERS["text"].prompt("hello")[None].expand(8, -1)
    one, two = (task.generate(ids, 12, Sample(seed=seed)).tokens for seed in (1, 2))
    assert all(map(torch.equal, one, task.generate(ids, 12, Sample(seed=1)).tokens))
    assert len({tuple(row.tolist()) for row in [*one, *two]}) == 16  # each row, and each seed, draws for itself
    halves = (
        task.generate(ids[:4], 12, Sample(seed=1)).tokens + task.generate(ids[4:], 12, Sample(seed=1), first=4).tokens
    )
    assert all(map(torch.equal, one, halves))
    assert not torch.equal(one[0][1:].eq(one[0][:-1]), torch.ones(11, dtype=torch.bool))  # and each step


# ---- other modalities


@pytest.mark.parametrize("modality", ["image", "audio"])
def test_features_are_gone_on_from(modality):
    task, value = lively(CausalLM(backbone(Causal()), TOKENIZERS[modality])), batch(modality).input.value[:, :6]
    written = task.generate(Tokens(value), None if modality == "image" else 5)
    assert [len(row) for row in written.tokens] == [10 if modality == "image" else 5] * 4
    whole = value
    with torch.no_grad():
        for _ in range(len(written.tokens[0])):
            whole = torch.cat((whole, task.head(task(Tokens(whole))[:, -1:])), 1)
    assert torch.allclose(torch.stack(written.tokens), whole[:, 6:], rtol=1e-4, atol=1e-4)
    assert torch.equal(written.outputs[0], TOKENIZERS[modality].decode(torch.cat((value[0], written.tokens[0]))))


@pytest.mark.parametrize("source", TOKENIZERS)
@pytest.mark.parametrize("target", TOKENIZERS)
def test_any_modality_is_written_from_any_other(source, target):
    task = lively(Seq2Seq(both(), TOKENIZERS[source], TOKENIZERS[target], generation=Generation(length=6)))
    data = batch(source)
    written = task.generate(data.input)
    for row, value in enumerate(written.tokens):
        alone = Tokens(data.input.value[row : row + 1], data.input.real[row : row + 1])
        with torch.no_grad():
            predicted = task.head(task(alone, Tokens(value[None])))[0]
        expected = TOKENIZERS[target].choose(predicted)
        assert torch.allclose(expected.float(), value.float(), rtol=1e-4, atol=1e-4)


def test_an_answer_may_have_its_beginning_given():
    task = lively(Seq2Seq(both(), TOKENIZERS["text"]))
    free = task.generate(["hello", "you"], 8)
    ids = Tokens(torch.stack([row[:3] for row in free.tokens]))
    written = task.generate(["hello", "you"], 5, prompt=ids)
    assert all(torch.equal(row[3:], more) for row, more in zip(free.tokens, written.tokens))
    uneven = task.generate(["hello", "you"], 5, prompt=Tokens(ids.value, torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()))
    assert torch.equal(uneven.tokens[0][:4], free.tokens[0][2:6]) and torch.equal(uneven.tokens[1], free.tokens[1][3:])


def test_a_given_beginning_takes_the_place_of_a_forced_one():
    forced = Generation(rules=[Force(70), SuppressFirst([71], after=1)], length=4)
    task = lively(Seq2Seq(both(), TOKENIZERS["text"], generation=forced))
    assert task.generate(["hello"]).tokens[0][0] == 70
    (row,) = task.generate(["hello"], prompt=["xy"]).tokens
    plain = lively(Seq2Seq(both(), TOKENIZERS["text"], generation=Generation(rules=[SuppressFirst([71])], length=4)))
    assert torch.equal(row, plain.generate(["hello"], prompt=["xy"]).tokens[0]) and row[0] != 71


# ---- streams and scores


def test_a_stream_is_the_text_in_pieces():
    task = writes()
    for search in (Greedy(), Sample(seed=2)):
        pieces = list(task.stream("hello", 30, search))
        assert "".join(pieces) == task.generate(["hello"], 30, search).outputs[0] and len(pieces) > 1
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    pieces = task.stream("hello", 30)
    next(pieces)
    assert not torch.is_inference_mode_enabled()  # between two pieces the caller's own mode holds


def test_what_is_written_can_be_learned_from():
    """Tokens are no inference tensors: a loss on them has gradients."""
    task = writes()
    (row,) = task.generate(["hello"], 5).tokens
    task.embed(row[None]).sum().backward()
    assert task.embed.table.weight.grad is not None


@pytest.mark.parametrize("kind", ["causal", "seq2seq"])
def test_log_probabilities_are_those_of_the_full_forward(kind):
    pen = TOKENIZERS["text"]
    task = writes() if kind == "causal" else lively(Seq2Seq(both(), pen))
    texts, more = ["hello wor", "a"], ["ld", " third and longer"]
    found = task.log_probabilities(texts, more)
    for text, rest, row in zip(texts, more, found):
        with torch.no_grad():
            if kind == "causal":
                ids, start = pen.prompt(text + rest), len(pen.prompt(text))
                logits = task.head(task(Tokens(ids[None])))[0, start - 1 : -1]
                ids = ids[start:]
            else:
                ids = pen.encode(rest)
                logits = task.head(task(pen([text]), Tokens(ids[None])))[0]
        expected = torch.stack([step.log_softmax(-1)[i] for step, i in zip(logits, ids)])
        assert torch.allclose(row, expected, atol=1e-4)
    with pytest.raises(ValueError, match="Frames predicts numbers and no chances, so log_probabilities"):
        lively(CausalLM(backbone(Causal()), TOKENIZERS["audio"])).log_probabilities(None, None)


def test_dropout_is_off_and_the_mode_comes_back():
    task = CausalLM(backbone(Causal(), residual=partial(PreNorm, dropout=0.5)), TOKENIZERS["text"]).train()
    one, two = (task.generate(["hello"], 12).tokens[0] for _ in range(2))
    assert torch.equal(one, two) and task.training and task.backbone.blocks[0].training


def test_written_counts_rows_and_tokens():
    written = Written(TOKENIZERS["text"], [torch.tensor([5])] * 3, length=4, ends={9})
    assert written.add(torch.tensor([[1, 2], [3, 9], [4, 4]])).tolist() == [0, 2]
    assert written.active == [0, 2] and written.numbers.tolist() == [0, 2] and written.count == 2
    assert written.add(torch.tensor([[6], [9]])).tolist() == [0]
    assert written.add(torch.tensor([[7, 8, 9]])).tolist() == []
    assert [row.tolist() for row in written.tokens] == [[1, 2, 6, 7], [3, 9], [4, 4, 9]]
    assert written.reasons == ["length", "end", "end"] and written.acceptance is None


def test_a_compiled_backbone_writes_the_same_from_two_graphs():
    """One for the prompt and one for every token after it, where the cache has a fixed capacity."""
    task, graphs = writes(generation=Generation(length=12)), []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    (expected,) = task.generate(["hello"]).tokens
    torch._dynamo.reset()
    task.backbone.compile(backend=count, fullgraph=True)
    for _ in range(2):
        assert torch.equal(task.generate(["hello"], cache=Cache(capacity=32)).tokens[0], expected)
        assert len(graphs) == 2
