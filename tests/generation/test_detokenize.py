"""Text piece by piece equals that of all tokens at once, whatever the vocabulary and wherever it is cut."""

import itertools
import random

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.tokenizers.test_subword import unigram, wordpiece, words
from tests.tokenizers.test_vocabularies import bpe
from zoo.generation.detokenize import BROKEN, TextStream
from zoo.tokenizers import BPE, Ids, Subword
from zoo.tokenizers.vocabularies import backend_file

FAMILY = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}\N{ZERO WIDTH JOINER}\N{BOY}"
TEXTS = [
    "The quick brown fox isn't lazy, they'll say.",
    f"a {FAMILY} b\N{GRINNING FACE}\N{GRINNING FACE} c",
    "e\N{COMBINING ACUTE ACCENT} n\N{COMBINING TILDE}\N{COMBINING DIAERESIS} café",
    "快速的棕色狐狸。  \N{IDEOGRAPHIC SPACE}\n\n\t x ",
    f"{BROKEN} and {BROKEN}{BROKEN}",
]


def llama() -> Tokenizer:
    """Pieces of text with the spaces before them, and a token for each byte, as in LLaMA's first two."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [*"▁abcdefghijklmnopqrstuvwxyzT.,'", "▁t", "he", "▁the", "fo", "fox", "▁▁"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("f", "o"), ("fo", "x"), ("▁", "▁")]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


def ends_of_words() -> Tokenizer:
    """The first GPT's."""
    made = Tokenizer(models.BPE({"<unk>": 0, "t": 1, "he</w>": 2, "fox</w>": 3, ".</w>": 4}, [], unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>")
    return made


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    bpe(folder, [], ["<|startoftext|>", "<|endoftext|>"], "</w>")
    clip = Subword(content=backend_file(folder, "clip"), eos="<|endoftext|>")
    backends = (llama, unigram, wordpiece, words, ends_of_words)
    return {
        "bytes": BPE(),
        "bpe": BPE("docs-2048"),
        "bpe as published": Subword(content=BPE("docs-2048").published(), eos="<eos>"),
        "clip": clip,
        "ids": Ids(50),
        **{made.__name__: Subword(content=made().to_str()) for made in backends},
    }


KINDS = ["bytes", "bpe", "bpe as published", "clip", "ids", "llama", "unigram", "wordpiece", "words"]
KINDS += ["ends_of_words"]


def whole(tokenizer, prompt: list[int], new: list[int]) -> str:
    """What new tokens add to a prompt's text, all decoded at once."""
    before, after = (tokenizer.decode(torch.tensor(ids, dtype=torch.long)) for ids in (prompt, prompt + new))
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after))
    return after[len(list(same)) :]


def cut(text: str, stops: list[str]) -> str:
    """A text up to the stop string that is complete first, looked for letter by letter."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)]
    return text


def chunks(ids: list[int], chance: random.Random):
    while ids:
        size = chance.choice((1, 1, 1, 2, 5, 40))
        yield ids[:size]
        ids = ids[size:]


def streamed(tokenizer, prompt: list[int], new: list[int], chance: random.Random, stops: list[str] = ()) -> str:
    """The same piece by piece, with what a stream promises looked at on the way."""
    stream = TextStream(tokenizer, torch.tensor(prompt, dtype=torch.long) if prompt else None, stops)
    out = ""
    for chunk in chunks(new, chance):
        stopped = stream.stopped
        piece = stream.push(chunk)
        assert not (stopped and piece)
        out += piece
        assert stream.text == out
    out += stream.finish()
    assert stream.text == out and stream.finish() == ""
    return out


def random_ids(tokenizer, count: int, chance: random.Random) -> list[int]:
    """Tokens of any kind, or mostly of a few, so that runs of bytes, spaces and special tokens come about."""
    few = chance.sample(range(tokenizer.vocabulary), min(4, tokenizer.vocabulary))
    often = chance.random()
    return [
        chance.choice(few) if chance.random() < often else chance.randrange(tokenizer.vocabulary) for _ in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_text_at_once_for_any_tokens(kind, vocabularies):
    tokenizer, chance = vocabularies[kind], random.Random(0)
    for _ in range(150):
        prompt = random_ids(tokenizer, chance.choice((0, 1, 2, 7, 60)), chance)
        new = random_ids(tokenizer, chance.choice((1, 3, 20, 150)), chance)
        assert streamed(tokenizer, prompt, new, chance) == whole(tokenizer, prompt, new), (prompt, new)


@pytest.mark.parametrize("kind", ["bytes", "bpe", "bpe as published", "llama"])
def test_pieces_are_the_text_at_once_for_bytes_of_unfinished_characters(kind, vocabularies):
    """Beginnings, middles and ends of characters in any order."""
    tokenizer, chance = vocabularies[kind], random.Random(1)
    find = tokenizer.backend.token_to_id
    names = [f"<0x{byte:02X}>" for byte in range(256)] if kind == "llama" else list(letters_of_bytes())
    some = [0x61, 0xC3, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xBD, 0xFF, 0x20]
    some = [find(names[byte]) for byte in some]
    other = find("▁the" if kind == "llama" else "a")
    for _ in range(400):
        new = [chance.choice(some) if chance.random() < 0.85 else other for _ in range(chance.choice((2, 5, 60)))]
        prompt = [chance.choice([*some, other]) for _ in range(chance.choice((0, 3, 30)))]
        assert streamed(tokenizer, prompt, new, chance) == whole(tokenizer, prompt, new), (prompt, new)


def letters_of_bytes():
    """The letter that stands for each byte in a vocabulary of bytes."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(256))
    for byte in range(256):
        yield chr(byte) if byte in shown else chr(256 + next(hidden))


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_the_text_at_once_for_text(kind, vocabularies):
    tokenizer, chance = vocabularies[kind], random.Random(2)
    if kind == "ids":
        return  # they read no text
    for text in [*TEXTS, " ".join(TEXTS * 3)]:
        ids = tokenizer.prompt(text).tolist() if kind != "unigram" else tokenizer.prompt("the fox jumps").tolist()
        for given in {0, 1, len(ids) // 3, len(ids) // 2}:
            stream = streamed(tokenizer, ids[:given], ids[given:], chance)
            assert stream == whole(tokenizer, ids[:given], ids[given:])


@pytest.mark.parametrize("kind", ["bytes", "bpe", "llama"])
def test_no_broken_character_is_ever_seen(kind, vocabularies):
    tokenizer = vocabularies[kind]
    for text in TEXTS[:-1]:
        stream = TextStream(tokenizer)
        for token in tokenizer.prompt(text).tolist():
            assert BROKEN not in stream.push([token])
        stream.finish()
        assert stream.text == text.removeprefix(" ")


def test_a_character_comes_with_its_last_byte_and_text_with_its_token(vocabularies):
    tokenizer = vocabularies["bytes"]
    stream = TextStream(tokenizer, tokenizer.prompt("so "))
    assert [stream.push([token]) for token in tokenizer.prompt("aé€😀b").tolist()] == [
        *("a", "", "é", "", "", "€", "", "", "", "😀", "b")
    ]
    broken = [stream.push([token]) for token in tokenizer.prompt("😀").tolist()[:2]]
    assert broken == ["", ""] and stream.push(tokenizer.prompt("c").tolist()) == f"{BROKEN}c"
    assert stream.push(tokenizer.prompt(BROKEN).tolist()) == BROKEN  # which a model may also mean


def test_single_bytes_beside_pieces_wait_for_the_end_of_their_run(vocabularies):
    """One wrong byte breaks all of its run."""
    tokenizer = vocabularies["llama"]
    find = tokenizer.backend.token_to_id
    snow, the = [find(f"<0x{byte:02X}>") for byte in "☃".encode()], find("▁the")
    stream = TextStream(tokenizer)
    assert [stream.push([token]) for token in [the, *snow, the]] == ["the", "", "", "", "☃ the"]
    assert stream.push(snow) == "" and stream.push([find("<0xFF>")]) == 4 * BROKEN
    assert stream.push([find("<0xFF>")]) == BROKEN


def test_a_space_waits_for_what_may_be_another(vocabularies):
    """CLIP's texts end without spaces, also those of three bytes."""
    tokenizer = vocabularies["clip"]
    word, wide = tokenizer.prompt("the").tolist()[1:], "\N{IDEOGRAPHIC SPACE}".encode()
    names = list(letters_of_bytes())
    stream = TextStream(tokenizer)
    pieces = [stream.push(word)]
    pieces += [stream.push([tokenizer.backend.token_to_id(names[byte])]) for byte in wide]
    assert "".join(pieces) == "the" and stream.finish() == ""


@pytest.mark.parametrize(("kind", "names"), [("bytes", ["ÿ"]), ("llama", ["<0xFF>"]), ("llama", ["<0x0A>"])])
def test_nothing_is_held_back_for_ever(kind, names, vocabularies):
    tokenizer = vocabularies[kind]
    token = tokenizer.backend.token_to_id(names[0])
    stream = TextStream(tokenizer)
    for count in range(1, 1000):
        stream.push([token])
        assert len(stream.text) > count - 70
    stream.finish()
    assert stream.text == tokenizer.decode(torch.tensor([token] * 999))


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_costs_the_same_however_long_the_text_is(kind, vocabularies, monkeypatch):
    tokenizer, chance, sizes = vocabularies[kind], random.Random(3), []
    decode = type(tokenizer).decode
    monkeypatch.setattr(type(tokenizer), "decode", lambda self, value: sizes.append(len(value)) or decode(self, value))
    stream = TextStream(tokenizer)
    for _ in range(3000):
        stream.push([chance.randrange(tokenizer.vocabulary)])
    assert max(sizes) < 100 and sum(sizes) < 300 * 3000


@pytest.mark.parametrize("kind", ["bytes", "bpe", "llama", "wordpiece"])
def test_stop_strings_cut_the_text_wherever_tokens_are_cut(kind, vocabularies):
    tokenizer, chance = vocabularies[kind], random.Random(4)
    stopped = 0
    for _ in range(300):
        new = random_ids(tokenizer, 60, chance)
        text = whole(tokenizer, [], new)
        places = [chance.randrange(len(text)) for _ in range(3)] if text else []
        stops = [text[place : place + chance.choice((1, 2, 5, 12))] for place in places]
        stops = stops[: chance.choice((0, 1, 3))] + [text[:3] + "#", "never"]
        if "" in stops:
            continue
        found = streamed(tokenizer, [], new, chance, stops)
        assert found == cut(text, stops), (new, stops)
        stopped += found != text
    assert stopped > 100


def test_the_stop_string_that_is_complete_first_wins():
    tokenizer = BPE()
    stream = TextStream(tokenizer, stops=["lo wor", "wo", "o, b"])
    assert stream.push(tokenizer.prompt("hel").tolist()) == "he" and not stream.stopped
    assert stream.push(tokenizer.prompt("p hello w").tolist()) == "lp hel" and not stream.stopped
    assert stream.push(tokenizer.prompt("orld").tolist()) == "lo " and stream.stopped
    assert stream.push(tokenizer.prompt("more").tolist()) == "" == stream.finish() and stream.text == "help hello "
    both = TextStream(tokenizer, stops=["c", "abc"])
    assert both.push(tokenizer.prompt("xabcd").tolist()) == "x"
    never = TextStream(tokenizer, stops=["end."])
    assert never.push(tokenizer.prompt("the end").tolist()) == "the " and never.finish() == "end"
    assert not never.stopped
    prompted = TextStream(tokenizer, tokenizer.prompt("the e"), ["end"])
    assert prompted.push(tokenizer.prompt("nd").tolist()) == "nd"  # the prompt is not looked at
    with pytest.raises(ValueError, match="one of the stop strings is empty"):
        TextStream(tokenizer, stops=["a", ""])
