"""Guessing ahead changes nothing: the tokens, or their probabilities, are those of the model that reads the guesses."""

import copy
import itertools

import pytest
import torch
from torch import nn

from zoo.generation import Beam, Draft, Drafter, Generation, Greedy, Lookup, Sample, Speculative, Written
from zoo.generation.lookup import Places
from zoo.generation.proposals import Proposal
from zoo.generation.rules import Force, NoRepeat, RepetitionPenalty, Suppress
from zoo.models import GPT2, T5, LLaMA, Mistral
from zoo.nn import Cache
from zoo.tasks import CausalLM, Seq2Seq
from zoo.tokenizers import BPE, Ids, LinearStem, Patches

V = 24
PROMPTS = [[1, 2, 3, 4, 5, 1, 2, 3], [6, 7], [8, 9, 3, 8, 9]]
BACKBONES = {
    "gpt2": lambda: GPT2(dim=16, depth=2, heads=2, length=64),
    "llama": lambda: LLaMA(dim=16, depth=2, heads=2, hidden=32),
    "mistral": lambda: Mistral(dim=16, depth=2, heads=2, kv_heads=1, hidden=32, window=4),
}


def changed(task, scale):
    """A copy with noise on its weights: a draft that is right now and then."""
    task = copy.deepcopy(task)
    with torch.no_grad():
        for weight in task.parameters():
            weight.add_(torch.randn_like(weight) * scale)
    return task


def random_weights(task):
    for weight in task.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.4)
    return task.eval()


def model(name="gpt2", vocabulary=V, **words):
    return random_weights(CausalLM(BACKBONES[name](), Ids(vocabulary), **words))


def translator(**words):
    backbone = T5(dim=16, depth=2, heads=2, head_dim=8, hidden=32)
    return random_weights(Seq2Seq(backbone, BPE(), **words))


def same(one: Written, other: Written):
    assert [row.tolist() for row in one.tokens] == [row.tolist() for row in other.tokens]
    assert one.reasons == other.reasons


# ---- greedy, and what is looked up: token for token


@pytest.mark.parametrize("rules", [(), (RepetitionPenalty(1.5), NoRepeat(3), Force(9, step=7))], ids=["", "rules"])
@pytest.mark.parametrize("name", BACKBONES)
def test_greedy_tokens_are_the_models_own(name, rules):
    large = model(name, generation=Generation(rules=rules))
    draft = changed(large, 0.05)
    plain = large.generate(PROMPTS, 23, Greedy())
    for drafter in (Draft(draft, 3), Draft(draft, 1), Draft(model("llama")), Lookup(5), Lookup(1, longest=1)):
        same(large.generate(PROMPTS, 23, Speculative(drafter)), plain)
    alone = large.generate(PROMPTS[:1], 23, Speculative(Draft(draft, 3)))
    assert alone.tokens[0].tolist() == plain.tokens[0].tolist()
    assert 0.05 < alone.acceptance < 0.95  # both happen: proposals that stand, and others


@pytest.mark.parametrize("name", BACKBONES)
def test_sampled_tokens_with_lookup_are_the_models_own(name):
    large, sample = model(name), Sample(0.5, top_k=8, seed=5)
    written = large.generate(PROMPTS, 40, Speculative(Lookup(3), sample))
    same(written, large.generate(PROMPTS, 40, sample))
    alone = large.generate(PROMPTS[:1], 40, Speculative(Lookup(3), sample))
    assert alone.tokens[0].tolist() == written.tokens[0].tolist()
    assert 0 < alone.accepted < alone.proposed


def test_an_end_among_tokens_that_stand():
    """Rows that are over leave the batch of the model and of the draft."""
    large = model("llama")
    first, second, _ = (row.tolist() for row in large.generate(PROMPTS, 23).tokens)
    large.generation = Generation(ends=(first[2], second[9]))
    plain = large.generate(PROMPTS, 23)
    assert len({len(row) for row in plain.tokens}) == 3 and plain.reasons[0] == "end"
    for drafter in (Draft(large, 5), Draft(changed(large, 0.05), 5), Lookup(5)):
        same(large.generate(PROMPTS, 23, Speculative(drafter)), plain)


def test_a_stop_string_among_tokens_that_stand():
    pen, prompts = BPE(), ["to be or not", "that"]
    letters = Suppress([i for i in range(pen.vocabulary) if not pen.decode(torch.tensor([i])).isalpha()])
    large = random_weights(CausalLM(BACKBONES["gpt2"](), pen, generation=Generation(rules=[letters])))
    stop = large.generate(prompts, 20).outputs[0][7:9]
    plain, written = (large.generate(prompts, 20, s, stops=[stop]) for s in (Greedy(), Speculative(Draft(large, 6))))
    same(written, plain)
    assert written.outputs == plain.outputs and plain.reasons[0] == "stop"
    pieces = large.stream(prompts[0], 20, Speculative(Draft(large, 6)), stops=[stop])
    assert "".join(pieces) == plain.outputs[0]


# ---- sampled: the same probabilities


def test_a_draft_that_is_the_model_is_always_right():
    for large in (
        model("mistral"),
        model("gpt2", generation=Generation(rules=[RepetitionPenalty(1.3), Force(9, step=7)])),
    ):
        for search in (Greedy(), Sample(0.9, seed=2)):
            written = large.generate(PROMPTS, 23, Speculative(Draft(large, 4), search))
            assert written.acceptance == 1.0
            same(written, large.generate(PROMPTS, 23, search))


def test_sampled_tokens_depend_on_their_seed_alone():
    large = model("mistral")
    draft = changed(large, 0.05)

    def tokens(x, ahead=3, length=23, seed=7, **words):
        search = Speculative(Draft(draft, ahead), Sample(0.8, seed=seed))
        return [row.tolist() for row in large.generate(x, length, search, **words).tokens]

    whole = tokens(PROMPTS)
    assert whole == tokens(PROMPTS) == tokens(PROMPTS, 1) == tokens(PROMPTS, 6)
    assert whole == [tokens([prompt], first=row)[0] for row, prompt in enumerate(PROMPTS)]
    assert [row[:12] for row in whole] == tokens(PROMPTS, length=12)
    assert whole != tokens(PROMPTS, seed=8)
    assert tokens(PROMPTS[:1] * 2)[0] != tokens(PROMPTS[:1] * 2)[1]


def exact(task, prompt, length, sample, rules):
    """Every continuation and its probability, from full forward passes."""
    vocabulary, found = task.tokenizer.vocabulary, {}
    for continuation in itertools.product(range(vocabulary), repeat=length):
        probability = 1.0
        for place, token in enumerate(continuation):
            ids = torch.tensor([[*prompt, *continuation[:place]]])
            logits = task.head(task.backbone(task.embed(ids)))[:, -1]
            for rule in rules:
                logits = rule(logits, ids, len(prompt))
            probability *= float(sample.chances(logits)[0, token])
        found[continuation] = probability
    return found


@pytest.mark.parametrize("rules", [(), (RepetitionPenalty(2.0),)], ids=["", "rules"])
@torch.no_grad()
def test_every_continuation_is_as_likely_as_the_model_says(rules):
    sample, rows, prompt = Sample(1.3, top_k=4, seed=11), 6000, [1, 2]
    large = model("llama", vocabulary=5, generation=Generation(rules=rules))
    expected = exact(large, prompt, 3, sample, rules)
    for drafter in (Draft(changed(large, 0.3), 2), Draft(model("gpt2", vocabulary=5), 1), Lookup()):
        written = large.generate([prompt] * rows, 3, Speculative(drafter, sample))
        drawn = [tuple(row.tolist()) for row in written.tokens]
        assert all(expected[continuation] > 0 for continuation in drawn)
        often = {c for c, probability in expected.items() if rows * probability >= 5}
        bins = [(sum(d == c for d in drawn), rows * expected[c]) for c in often]
        bins.append((sum(d not in often for d in drawn), rows * sum(expected[c] for c in expected if c not in often)))
        chi2 = sum((count - mean) ** 2 / max(mean, 1.0) for count, mean in bins)
        freedom = len(bins) - 1
        assert chi2 < freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3  # once in 1,000
        for row in (0, 17, 4711):  # alone, where more than the first proposal may stand at once
            alone = large.generate([prompt], 3, Speculative(drafter, sample), first=row)
            assert tuple(alone.tokens[0].tolist()) == drawn[row]


# ---- what it costs, and where it ends


def test_the_model_reads_as_often_as_it_must():
    large, reads = model(), []
    draft = copy.deepcopy(large)
    large.backbone.register_forward_pre_hook(lambda part, inputs: reads.append(inputs[0].size(1)))
    large.generate(PROMPTS, 12, Speculative(Draft(draft, 4)))
    assert reads == [8, 5, 5, 1]  # the prompt, twice 4 proposals after the last token, and what is left
    written = large.generate(PROMPTS, 12)
    assert written.acceptance is None


class Known(Drafter):
    """Proposes what will be written in the first row, and in the others something else."""

    def __init__(self, tokens, texts):
        super().__init__(tokens)
        self.texts = torch.stack(texts)

    def begin(self, writer, written, search, rules):
        return self

    def propose(self, new, count, written):
        tokens = self.texts[:, written.count : written.count + count].clone()
        tokens[1:] = (tokens[1:] + 1) % V
        return Proposal(tokens)


def test_every_row_has_its_own_acceptance():
    """A batch goes on by one token where no proposal of one row stands; in the other they all do."""
    large = model()
    plain = large.generate(PROMPTS[:2], 5)
    written = large.generate(PROMPTS[:2], 5, Speculative(Known(2, plain.tokens)))
    same(written, plain)
    assert (written.proposed, written.accepted) == (2 * (2 + 2 + 1), 2 + 2 + 1)
    assert written.acceptance == 0.5


def test_positions_that_end():
    large = random_weights(CausalLM(GPT2(dim=16, depth=2, heads=2, length=30), Ids(V)))
    short = random_weights(CausalLM(GPT2(dim=16, depth=1, heads=2, length=13), Ids(V)))
    shortest = random_weights(CausalLM(GPT2(dim=16, depth=1, heads=2, length=7), Ids(V)))
    for search in (Greedy(), Sample(seed=3)):
        plain = large.generate(PROMPTS, 100, search)
        assert set(plain.reasons) == {"context"}
        for drafter in (Draft(large, 4), Draft(short, 4), Draft(shortest, 4), Lookup()):
            written = large.generate(PROMPTS, 100, Speculative(drafter, search))
            assert written.reasons == plain.reasons and len(written.tokens[0]) == len(plain.tokens[0]) == 23
            if isinstance(search, Greedy):
                same(written, plain)
        assert large.generate(PROMPTS, 100, Speculative(Draft(shortest), search)).proposed == 0


def test_a_window_keeps_what_may_come_back_and_no_more():
    large = model("mistral")
    search = Speculative(Draft(changed(large, 0.05), 3))
    plain = large.generate(PROMPTS, 23)
    cache = Cache(spare=3)
    same(large.generate(PROMPTS, 23, search, cache=cache), plain)
    assert {state.branch("mixer").k.data.size(2) for state in cache.layers.values()} == {4 + 3}
    same(large.generate(PROMPTS, 23, search, cache=Cache(capacity=40, spare=3)), plain)
    with pytest.raises(ValueError, match=r"takes back up to 3 tokens, the cache lets it 2; make it with Cache"):
        large.generate(PROMPTS, 23, search, cache=Cache(spare=2))


# ---- a source


def test_a_text_that_is_read():
    large, sources = translator(), ["abcabcabd", "xyz"]
    draft = changed(large, 0.05)
    plain = large.generate(sources, 20)
    for drafter in (Draft(draft, 3), Lookup()):
        same(large.generate(sources, 20, Speculative(drafter)), plain)
        same(large.generate(large.tokens(sources), 20, Speculative(drafter)), plain)
    only = random_weights(CausalLM(BACKBONES["gpt2"](), BPE()))  # knows no source
    plain = large.generate(sources, 20, prompt=["ab", "q"])
    same(large.generate(sources, 20, Speculative(Draft(only)), prompt=["ab", "q"]), plain)
    with pytest.raises(ValueError, match="the draft is a CausalLM and has no token to go on from"):
        large.generate(sources, 20, Speculative(Draft(only)))


def test_a_source_is_looked_up():
    large, source = translator(), "say abcdef twice"
    pen = large.pen
    writer = large.writer([source], None)
    writer.read(pen.collate([pen.plain("a")]))
    written = Written(pen, [pen.plain("a")], 20, source=[source])
    proposal = Lookup(4).begin(writer, written, Greedy(), ()).propose(pen.plain("b")[None], 4, written)
    assert pen.decode(proposal.tokens[0]) == "cdef"


def test_lookup_finds_the_longest_and_latest():
    """Against a search from the end."""
    numbers = torch.Generator().manual_seed(0)
    for size in range(1, 40):
        tokens = torch.randint(0, 4, (size,), generator=numbers).tolist()
        expected = []
        for length in range(min(3, size), 0, -1):
            places = [i for i in range(length, size) if tokens[i - length : i] == tokens[-length:]]
            if places:
                whole = list(tokens)
                for ahead in range(5):
                    whole.append(whole[places[-1] + ahead])
                expected = whole[size:]
                break
        places = Places(tokens[: size // 2], 3)
        places.extend(tokens[size // 2 :])
        assert places.following(5) == expected


# ---- mistakes


def test_mistakes_are_named():
    large = model()
    with pytest.raises(ValueError, match=r"the draft's vocabulary \(Ids of 9 tokens\) is not the model's \(Ids of 24"):
        large.generate(PROMPTS, 5, Speculative(Draft(model(vocabulary=9))))
    with pytest.raises(ValueError, match="cannot be guessed ahead for Beam; give Greedy or Sample"):
        Speculative(Lookup(), Beam())
    with pytest.raises(ValueError, match="a GPT2 does not write; give a CausalLM"):
        Draft(large.backbone)
    with pytest.raises(ValueError, match="tokens=0 proposes nothing"):
        Draft(large, tokens=0)
    with pytest.raises(ValueError, match="tokens=0 proposes nothing"):
        Lookup(0)
    with pytest.raises(ValueError, match="longest=0 looks nothing up"):
        Lookup(longest=0)
    with pytest.raises(ValueError, match="the draft is on meta and the model on cpu"):
        large.generate(PROMPTS, 5, Speculative(Draft(model().to("meta"))))
    images = CausalLM(BACKBONES["gpt2"](), Patches(8, 4, 1, stem=LinearStem))
    with pytest.raises(ValueError, match="so Speculative has nothing to choose from"):
        images.generate(torch.zeros(1, 1, 8, 8), 2, Speculative(Lookup()))


def test_a_draft_is_put_into_evaluation_mode():
    large = model()
    draft = random_weights(CausalLM(GPT2(dim=16, depth=1, heads=2, length=64, dropout=0.5), Ids(V))).train()
    search = Speculative(Draft(draft), Sample(seed=1))
    same(large.generate(PROMPTS, 23, search), large.generate(PROMPTS, 23, search))
