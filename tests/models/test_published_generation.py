"""Loaded decoders write what the reference writes, token for token, by every search and under every rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from torch import Tensor, nn

import zoo
from tests.models.parity import Row, random_ids, worst
from tests.models.rows import bart, gpt, gpt2, llama, mistral, t5, transformer, whisper
from tests.tokenizers.test_subword import CORPUS
from zoo.generation import Beam, Generation, Greedy, Sample, Search
from zoo.generation.rules import (
    Force,
    ForceLast,
    MinLength,
    MinTotal,
    NoRepeat,
    Renormalise,
    RepetitionPenalty,
    Rule,
    Suppress,
    SuppressFirst,
)
from zoo.nn import Cache
from zoo.tasks.writing import WritingTask
from zoo.tokenizers import BPE, Tokens

DECODERS = [row for family in (gpt, gpt2, llama, mistral) for row in family.ROWS if not row.name.endswith("classifier")]
TRANSLATORS = [*t5.ROWS, *bart.ROWS[:2], *transformer.ROWS]
NEW = 8
PAD = 82  # of the reference's batches: an id of every vocabulary; where it is 0, outputs are filled with an end
PROMPTS = [[5, 60, 31, 12, 44, 9, 80], [71, 8, 33], [20, 21, 22, 23, 24, 25, 26]]  # longer than Mistral's window of 4
SEARCHES: list[tuple[Search, dict[str, Any]]] = [
    (Greedy(), {}),
    (Beam(3), {"num_beams": 3}),
    (Beam(4, 2.0, "never"), {"num_beams": 4, "length_penalty": 2.0, "early_stopping": "never"}),
    (Beam(2, 0.5, True), {"num_beams": 2, "length_penalty": 0.5, "early_stopping": True}),
    (Beam(4, -1.0), {"num_beams": 4, "length_penalty": -1.0}),
]
LIVELY = {"no_repeat_ngram_size": 2}  # random models like to repeat one token


class Pair:
    """A model in both libraries, and how the reference is given what ours is."""

    def __init__(self, row: Row, folder: Any):
        self.theirs = row.build()
        for module in self.theirs.modules():
            if isinstance(module, nn.LayerNorm):  # drawn around 1, a text depends on its source and on its beginning
                module.weight.data.add_(1)
        self.theirs.config.eos_token_id = None  # ends are said when it is asked
        self.theirs.generation_config = hf.GenerationConfig()
        self.theirs.save_pretrained(folder)
        self.ours: WritingTask = zoo.load(folder)  # type: ignore[assignment]
        self.alone = row.name.startswith("gpt ") or row.name == "gpt"  # it has no positions for padding on the left
        self.cache = row.name not in ("t5 odd", "t5 gated odd")  # it makes one for as many layers as the encoder has

    def told(self, given: dict[str, Tensor], ends: Sequence[int], **how: Any) -> Any:
        """What the reference's own loop writes; Whisper's class has another around it, for sounds of any length."""
        settings = {"do_sample": False, "max_new_tokens": NEW, "pad_token_id": PAD, "use_cache": self.cache, **how}
        settings.setdefault("decoder_start_token_id", getattr(self.theirs.config, "decoder_start_token_id", None))
        config = hf.GenerationConfig(
            **settings,
            eos_token_id=list(ends) or None,
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
        )
        return hf.GenerationMixin.generate(self.theirs, **given, generation_config=config)

    def continued(self, prompts: list[list[int]], ends: Sequence[int], **how: Any) -> tuple[list[Tensor], list[Any]]:
        """Each prompt's new tokens, and where there are beams the score; padded on the left, or one at a time."""
        groups = [[prompt] for prompt in prompts] if self.alone else [prompts]
        texts, scores = [], []
        for group in groups:
            size = max(map(len, group))
            rows = [[PAD] * (size - len(row)) + row for row in group]
            real = [[0] * (size - len(row)) + [1] * len(row) for row in group]
            out = self.told({"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(real)}, ends, **how)
            texts += list(out.sequences[:, size:])
            scores += out.sequences_scores.tolist() if "sequences_scores" in out else [None] * len(group)
        return texts, scores

    def answered(self, given: dict[str, Tensor], ends: Sequence[int], **how: Any) -> tuple[list[Tensor], list[Any]]:
        out = self.told(given, ends, **how)
        scores = out.sequences_scores.tolist() if "sequences_scores" in out else [None] * len(out.sequences)
        return list(out.sequences[:, 1:]), scores

    def agree(self, x: Any, told: tuple[list[Tensor], list[Any]], how: Generation, prompt: Any = None) -> None:
        self.ours.generation = how
        written = self.ours.generate(x, prompt=prompt)
        for ours, score, theirs, their_score in zip(written.tokens, written.scores, *told, strict=True):
            expected = theirs.tolist()
            end = next((place + 1 for place, token in enumerate(expected) if token in how.ends), len(expected))
            assert ours.tolist() == expected[:end], how.search
            assert score == (None if their_score is None else pytest.approx(their_score, abs=1e-4, rel=1e-4))


def chosen(texts: list[Tensor]) -> list[int]:
    """Two ends that stop the first text and the last in their middle, if nothing stops them before."""
    ids = [text.tolist() for text in (texts[0], texts[-1])]
    return sorted({next(token for token in row[least:] if token not in row[:least]) for row, least in zip(ids, (2, 4))})


def heard(row: Row) -> tuple[Tokens, dict[str, Tensor]]:
    """Sounds as features, for ours and for the reference."""
    mels, frames = (12, 24) if row.name == "whisper" else (7, 18)
    features = torch.randn(3, frames, mels, generator=torch.Generator().manual_seed(0))
    return Tokens(features), {"input_features": features.mT}


def source(pad: int) -> tuple[Tokens, dict[str, Tensor]]:
    tokens = random_ids(83, 9, 4, pad)
    return tokens, {"input_ids": tokens.value, "attention_mask": tokens.real.long()}


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.name)
def test_decoders_step_by_step(row: Row, tmp_path):
    """A cache that is continued gives the reference's logits."""
    pair, prompt = Pair(row, tmp_path), random_ids(97, 7, 0).value
    told = pair.told({"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}, [])
    cache, states = Cache(), []
    with torch.no_grad():
        for new in (prompt, *told.sequences[:, 7:-1].split(1, 1)):
            states.append(pair.ours(Tokens(new), cache)[:, -1])
        assert worst(pair.ours.head(torch.stack(states, 1)), torch.stack(told.logits, 1)) < 1e-4


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.name)
def test_decoders(row: Row, tmp_path):
    pair = Pair(row, tmp_path)
    ends = chosen(pair.continued(PROMPTS, [], **LIVELY)[0])
    for search, how in SEARCHES:
        pair.agree(PROMPTS, pair.continued(PROMPTS, [], **how), Generation(NEW, search))
        told = pair.continued(PROMPTS, ends, **how, **LIVELY)
        pair.agree(PROMPTS, told, Generation(NEW, search, [NoRepeat(2)], ends))


@pytest.mark.parametrize("row", [*TRANSLATORS, *whisper.ROWS], ids=lambda row: row.name)
def test_encoder_decoders(row: Row, tmp_path):
    """Text or sound to text."""
    pair = Pair(row, tmp_path)
    x, given = heard(row) if row in whisper.ROWS else source(pair.theirs.config.pad_token_id)
    ends = chosen(pair.answered(given, [], **LIVELY)[0])
    for search, how in SEARCHES:
        pair.agree(x, pair.answered(given, [], **how), Generation(NEW, search))
        told = pair.answered(given, ends, **how, **LIVELY)
        pair.agree(x, told, Generation(NEW, search, [NoRepeat(2)], ends))


def test_when_a_row_is_over(tmp_path):
    """Whoever stops early, late or never finds other texts, here in some of many rows."""
    pair, found = Pair(llama.ROWS[0], tmp_path), {}
    prompts = torch.randint(4, 97, (24, 5), generator=torch.Generator().manual_seed(1)).tolist()
    common = torch.cat(pair.continued(prompts, [], num_beams=3, max_new_tokens=12)[0]).bincount().topk(3).indices
    for penalty in (1.0, 2.0, -0.5):
        for early in (False, True, "never"):
            how = {"num_beams": 3, "length_penalty": penalty, "early_stopping": early, "max_new_tokens": 12}
            told = pair.continued(prompts, common.tolist(), **how)
            pair.agree(prompts, told, Generation(12, Beam(3, penalty, early), ends=common.tolist()))
            found[penalty, early] = pair.ours.generate(prompts).scores
    for penalty in (1.0, 2.0):
        assert found[penalty, True] != found[penalty, False] != found[penalty, "never"]
    assert found[-0.5, False] == found[-0.5, "never"]


def test_beginnings_of_other_lengths_after_a_source(tmp_path):
    """The reference has no positions for padding after the token that starts a decoder, so it is asked one by one."""
    pair = Pair(bart.ROWS[0], tmp_path)
    x, given = source(1)
    for search, how in SEARCHES[:2]:
        pair.ours.generation = Generation(NEW, search)
        written = pair.ours.generate(x, prompt=PROMPTS[:2])
        for place, (prompt, ours) in enumerate(zip(PROMPTS, written.tokens)):
            begun = torch.tensor([[pair.theirs.config.decoder_start_token_id, *prompt]])
            row = {name: value[place : place + 1] for name, value in given.items()}
            out = pair.told({**row, "decoder_input_ids": begun}, [], **how)
            assert torch.equal(ours, out.sequences[0, begun.size(1) :])


def rules(ends: list[int], answers: bool) -> list[tuple[list[Rule], dict[str, Any]]]:
    """The same in both words, each alone and then together; only what ``answers`` a source can be forced to begin."""
    common = [token for token in (*range(11, 17), *range(20, 60)) if token not in ends]
    total = 7 if answers else 10  # with those that were given
    last = {"forced_eos_token_id": ends[0]}
    first: tuple[list[Rule], dict[str, Any]] = ([Force(7)], {"forced_bos_token_id": 7}) if answers else ([], {})
    return [
        ([RepetitionPenalty(1.7)], {"repetition_penalty": 1.7}),
        ([RepetitionPenalty(0.6), Renormalise()], {"repetition_penalty": 0.6, "renormalize_logits": True}),
        ([MinLength(6, ends)], {"min_new_tokens": 6}),
        ([MinTotal(total, ends)], {"min_length": total}),
        ([ForceLast(NEW, [ends[0]])], last),
        ([Suppress(common)], {"suppress_tokens": common}),
        ([SuppressFirst(common)], {"begin_suppress_tokens": common}),
        *([first] if answers else []),
        (
            [
                *(RepetitionPenalty(1.3), NoRepeat(2), MinTotal(4, ends), MinLength(3, ends), *first[0]),
                *(ForceLast(NEW, [ends[0]]), Suppress(common[:6]), SuppressFirst(common, int(answers))),
            ],
            {
                "repetition_penalty": 1.3,
                "no_repeat_ngram_size": 2,
                "min_length": 4,
                "min_new_tokens": 3,
                **first[1],
                **last,
                "suppress_tokens": common[:6],
                "begin_suppress_tokens": common,
            },
        ),
    ]


@pytest.mark.parametrize(
    "row", [gpt2.ROWS[0], mistral.ROWS[0], bart.ROWS[1], whisper.ROWS[1]], ids=lambda row: row.name
)
def test_rules(row: Row, tmp_path):
    """In the reference, padding counts for the least length of a prompt with its text, so there it is asked one by
    one: what a prompt is padded with cannot change its text."""
    pair = Pair(row, tmp_path)
    answers = row not in DECODERS
    x, given = heard(row) if row in whisper.ROWS else source(0) if answers else (PROMPTS, {})

    def told(ends: list[int], **how: Any) -> tuple[list[Tensor], list[Any]]:
        return pair.answered(given, ends, **how) if answers else pair.continued(PROMPTS, ends, **how)

    ends = chosen(told([], **LIVELY)[0])
    changed = set()
    for search, how in SEARCHES[:3]:
        pair.alone = False
        free = [text.tolist() for text in told(ends, **how)[0]]
        for place, (ours, theirs) in enumerate(rules(ends, answers)):
            pair.alone = "min_length" in theirs
            expected = told(ends, **how, **theirs)
            pair.agree(x, expected, Generation(NEW, search, ours, ends))
            changed |= {place} if free != [text.tolist() for text in expected[0]] else set()
    assert len(changed) == 8 + answers, changed


@pytest.mark.parametrize("row", [gpt2.ROWS[1], mistral.ROWS[0]], ids=lambda row: row.name)
def test_sampling_one_of_one_is_greedy(row: Row, tmp_path):
    pair = Pair(row, tmp_path)
    pair.agree(PROMPTS, pair.continued(PROMPTS, []), Generation(NEW, Sample(top_k=1)))
    assert not torch.equal(pair.ours.generate(PROMPTS, search=Sample()).tokens[0], pair.continued(PROMPTS, [])[0][0])


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 0.7},
        {"temperature": 1.6, "top_k": 9},
        {"top_p": 0.6},
        {"min_p": 0.1},
        {"temperature": 1.3, "top_k": 40, "top_p": 0.8, "min_p": 0.02},
    ],
    ids=str,
)
def test_sampling_has_the_same_chances(how: dict[str, float], tmp_path):
    """Our probabilities of our logits are those from which the reference draws."""
    pair, size = Pair(gpt2.ROWS[0], tmp_path), len(PROMPTS[0])
    prompts = torch.tensor([PROMPTS[0], PROMPTS[2]])
    torch.manual_seed(0)
    given = {"input_ids": prompts, "attention_mask": torch.ones_like(prompts)}
    told = pair.told(given, [], **{"do_sample": True, "top_k": 0, **how})
    with torch.no_grad():
        states = pair.ours(Tokens(told.sequences))[:, size - 1 : -1]
        chances = Sample(**how).chances(pair.ours.head(states))  # type: ignore[arg-type]
    expected = torch.stack(told.scores, 1).softmax(-1)
    assert torch.equal(chances > 0, expected > 0) and torch.allclose(chances, expected, atol=1e-5)
    assert "temperature" in how or (expected == 0).any()


@torch.no_grad()
def test_text_to_text(tmp_path):
    """A tokenizer's file of the reference beside a decoder: prompts and what is written are texts."""
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(BPE.train(CORPUS, 280).content),
        eos_token="<eos>",
        pad_token="<pad>",
        padding_side="left",
    )
    row = Row("gpt2", lambda: hf.GPT2LMHeadModel(gpt2.config(vocab_size=len(tokenizer))), gpt2.ROWS[0].run)
    theirs, end = row.build(), tokenizer.eos_token_id
    for name in ("eos_token_id", "bos_token_id"):
        setattr(theirs.config, name, end)
    prompts = ["the quick brown fox", "a", "lazy dogs, one é"]
    given = tokenizer(prompts, padding=True, return_tensors="pt")
    given = {name: given[name] for name in ("input_ids", "attention_mask")}
    size = given["input_ids"].size(1)
    how = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": tokenizer.pad_token_id, **LIVELY}
    theirs.generation_config = hf.GenerationConfig()
    free = theirs.generate(**given, generation_config=hf.GenerationConfig(**how))[:, size:]
    table, common = theirs.transformer.wte.weight, chosen(list(free))[0]
    table[[end, common]] = table[[common, end]]  # now the end is likely
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ours = zoo.load(tmp_path)
    for search, words in SEARCHES:
        out = theirs.generate(**given, generation_config=hf.GenerationConfig(**how, **words, eos_token_id=end))
        ours.generation = Generation(12, search, [NoRepeat(2)])
        written = ours.generate(prompts)
        assert written.outputs == tokenizer.batch_decode(out[:, size:], skip_special_tokens=True)
        assert any(written.outputs)
        if search is SEARCHES[0][0]:
            assert "end" in written.reasons and "".join(ours.stream(prompts[0])) == written.outputs[0]
