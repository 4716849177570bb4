"""A tokenizer.json of any kind: ids equal to the reference's, special tokens, pairs, and what a checkpoint carries."""

import copy
import itertools
import json
import logging
import pickle
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import zoo
from tests.tokenizers.test_vocabularies import PIECES, TEXTS
from zoo.described import describe
from zoo.processors import read_text
from zoo.tokenizers import BPE, Ids, Subword, TextEmbed

CORPUS = ["the quick brown fox jumps over the lazy dog", "Émile's café costs 12 euros"]


def wordpiece() -> Tokenizer:
    made = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[PAD]", "[CLS]", "[SEP]", "[MASK]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def bytelevel() -> Tokenizer:
    made = Tokenizer.from_str(BPE.train(CORPUS, 280).content)
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B:1 <eos>:1", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    return made


def unigram() -> Tokenizer:
    scores = [("<unk>", 0.0), ("<pad>", 0.0), ("▁", -2.0), *((letter, -3.0) for letter in "abcdefghijklmnopqrstuvwxyz")]
    made = Tokenizer(
        models.Unigram([*scores, ("▁the", -1.5), ("▁fo", -1.7), ("ox", -1.0)], unk_id=0, byte_fallback=False)
    )
    made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<pad>", "</s>"])
    return made


def words() -> Tokenizer:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "fox": 2, "hello": 3}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["[PAD]"])
    return made


KINDS = (wordpiece, bytelevel, unigram, words)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ids_are_those_of_the_reference(kind, tmp_path):
    made = kind()
    made.enable_truncation(5)  # what a file switches on is off here
    made.enable_padding(
        length=32, pad_token=next(name for name in ("[PAD]", "<pad>") if made.token_to_id(name) is not None)
    )
    made.save(str(tmp_path / "tokenizer.json"))
    ours = Subword(str(tmp_path / "tokenizer.json"))
    theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for a, b in itertools.pairwise(TEXTS):
        assert ours.encode(a).tolist() == theirs(a, truncation=False, padding=False)["input_ids"], a
        wanted = theirs(a, b, truncation=False, padding=False, return_token_type_ids=True)
        found = ours.pairs([a], [b])
        assert found.value[0].tolist() == wanted["input_ids"] and found.types[0].tolist() == wanted["token_type_ids"]
        assert ours.decode(ours.encode(a)) == theirs.decode(ours.encode(a), skip_special_tokens=True)
    assert ours.vocabulary == len(theirs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("literal", [False, True])
def test_it_is_a_value(kind, literal):
    """Pickled, copied, described and built again, it is the same."""
    one = Subword(content=kind().to_str(), literal=literal)
    again = describe(one)["init_args"]
    assert again["file"] is None and again["content"] == one.content
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), Subword(**again)):
        assert other == one and hash(other) == hash(one)
        assert all(torch.equal(other.encode(text), one.encode(text)) for text in TEXTS)
    assert one != Subword(content=kind().to_str(), literal=literal, vocabulary=1000)


def test_our_own_bpe_keeps_special_tokens_literal_when_it_is_pickled():
    one = BPE()
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert torch.equal(other.encode("a <eos>"), one.encode("a <eos>"))


def test_special_tokens(tmp_path):
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Subword(str(tmp_path / "tokenizer.json"), pad="[PAD]", mask="[MASK]", eos="[SEP]")
    assert [tokenizer.find(role) for role in ("pad", "mask", "eos", "bos")] == [0, 4, 3, None]
    assert tokenizer.encode("the [MASK]").tolist() == [2, PIECES.index("the"), 4, 3]
    assert tokenizer.prompt("the").tolist() == [2, PIECES.index("the")]
    assert tokenizer.decode(torch.tensor([2, PIECES.index("the"), 3, 0, 0])) == "the"
    with pytest.raises(ValueError, match=r"no bos token; give Subword\(bos=\.\.\.\) its name"):
        tokenizer.special("bos")
    with pytest.raises(ValueError, match=r"tokenizer.json has no token '<s>' to be its bos"):
        Subword(str(tmp_path / "tokenizer.json"), bos="<s>")
    literal = Subword(str(tmp_path / "tokenizer.json"), literal=True)
    assert 4 not in literal.encode("the [MASK]")


def test_pairs_are_padded_with_their_types():
    tokens = Subword(content=wordpiece().to_str(), pad="[PAD]").pairs(["the", "the fox"], ["fox", "fox the fox"])
    assert tokens.types.tolist() == [[0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    assert tokens.real.sum(1).tolist() == [5, 8] and tokens.value[0, 5:].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is no tokenizer.json"), (b"{}", "is no tokenizer.json"), (b"\xff", "is not UTF-8: byte 0")],
)
def test_a_damaged_file_is_named(content, message, tmp_path):
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(ValueError, match="broken.json " + message):
        Subword(str(tmp_path / "broken.json"))
    with pytest.raises(ValueError, match=r"has no missing.json"):
        Subword(str(tmp_path / "missing.json"))


def test_what_cannot_be_read_is_a_sentence():
    lacking = Tokenizer(models.WordLevel({"the": 0}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match="cannot read 'fox'"):
        Subword(content=lacking.to_str()).encode("fox")
    with pytest.raises(ValueError, match="the token 'hello' has the id 3, and the model has 3 ids"):
        Subword(content=words().to_str(), vocabulary=3).encode("hello")


# ---- beside a model


def beside(folder: Path, made: Tokenizer, about: dict | None = None, old: dict | None = None) -> None:
    made.save(str(folder / "tokenizer.json"))
    for name, content in (("tokenizer_config.json", about), ("special_tokens_map.json", old)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))


def read(folder: Path | None, begin: str = "bos_token_id", **config):
    return read_text({"model_type": "bert", "vocab_size": 300, **config}, folder, None, begin)


def test_names_come_from_the_tokenizers_files_then_from_the_ids_then_from_the_kind(tmp_path):
    beside(tmp_path, wordpiece(), {"eos_token": {"content": "[SEP]", "lstrip": False}}, {"bos_token": "[CLS]"})
    tokenizer = read(tmp_path, pad_token_id=0, eos_token_id=[4, 3])
    assert tokenizer.names == {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}
    assert tokenizer.vocabulary == 300
    assert read(tmp_path, "decoder_start_token_id", decoder_start_token_id=0).names["bos"] == "[PAD]"
    beside(tmp_path, wordpiece(), {"eos_token": "</s>"}, {})  # a name that the vocabulary has not
    assert read(tmp_path, eos_token_id=[4, 3]).names["eos"] == "[MASK]"


def test_ids_outside_of_the_vocabulary_are_none(caplog):
    with caplog.at_level(logging.WARNING):
        tokenizer = read(None, pad_token_id=-1, bos_token_id=50256, eos_token_id=[])
    assert isinstance(tokenizer, Ids) and all(tokenizer.find(role) is None for role in ("pad", "bos", "eos", "mask"))
    assert caplog.messages == ["bos_token_id=50256 is not below vocab_size=300, so there is no such token"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": "many"}, "vocab_size='many' is no number"),
        ({"vocab_size": None}, "vocab_size=None"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"vocab_size": 3.5}, "vocab_size=3.5"),
        ({"eos_token_id": "</s>"}, "eos_token_id='</s>' is no token id"),
        ({"eos_token_id": ["</s>"]}, r"eos_token_id=\['</s>'\]"),
        ({"pad_token_id": {"id": 3}}, "pad_token_id="),
    ],
)
def test_malformed_values_are_named(values, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(None, **values)
    with pytest.raises(ValueError, match="config.json: " + message):
        read(tmp_path, **values)


def test_a_tokenizer_that_is_too_large_is_told(tmp_path, caplog):
    beside(tmp_path, words())
    with caplog.at_level(logging.WARNING):
        tokenizer = read(tmp_path, vocab_size=4)
    assert "its tokenizer has 5 tokens and the model 4" in caplog.text
    assert tokenizer.encode("the hello").tolist() == [1, 3]


# ---- saved


@pytest.fixture
def gpt2(tmp_path) -> Path:
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=2
    )
    hf.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_saved_one_reads_as_the_reference_does(kind, gpt2, tmp_path):
    beside(gpt2, kind(), {"pad_token": {"content": "[PAD]", "lstrip": False}})
    task = zoo.load(gpt2)
    zoo.save(task, tmp_path / "ours")
    theirs, again = hf.AutoTokenizer.from_pretrained(tmp_path / "ours"), zoo.load_tokenizer(str(tmp_path / "ours"))
    for text in TEXTS:
        ids = task.tokenizer.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids == again.encode(text).tolist()
    assert "token_type_ids" not in theirs("the fox")
    assert again.names == task.tokenizer.names and theirs.pad_token == task.tokenizer.names["pad"]


def test_our_own_bpe_is_saved_and_read_by_the_reference(tmp_path):
    tokenizer = BPE.train(CORPUS, 280)
    task = zoo.CausalLM(zoo.GPT2(dim=16, depth=1, heads=2, length=32), tokenizer)
    zoo.save(task, tmp_path)
    theirs, again = hf.AutoTokenizer.from_pretrained(tmp_path), zoo.load(tmp_path).tokenizer
    for text in [*TEXTS, "a <eos> b<pad>"]:
        ids = tokenizer.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids == again.encode(text).tolist(), text
        assert again.prompt(text).tolist() == tokenizer.prompt(text).tolist()
        assert again.decode(torch.tensor(ids)) == tokenizer.decode(torch.tensor(ids)) == text
    assert [theirs.pad_token, theirs.bos_token, theirs.eos_token, theirs.mask_token] == list(tokenizer.names.values())


def test_a_saved_bert_tells_sentences_apart(tmp_path):
    tokenizer = Subword(content=wordpiece().to_str(), pad="[PAD]", mask="[MASK]", stem=partial(TextEmbed, types=2))
    head = partial(zoo.TransformHead, act="gelu", norm=partial(zoo.LayerNorm, eps=1e-12))
    zoo.save(zoo.MaskedLM(zoo.BERT(16, 1, 2, length=32), tokenizer, head=head), tmp_path)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)("the fox", "hello")
    ours = zoo.load(tmp_path).tokenizer.pairs(["the fox"], ["hello"])
    assert theirs["input_ids"] == ours.value[0].tolist() and theirs["token_type_ids"] == ours.types[0].tolist()


def test_a_decoder_writes_its_start_only_once():
    """Whisper's tokenizer puts down the token with which its decoder begins."""
    made = bytelevel()
    made.add_special_tokens(["<start>"])
    made.post_processor = processors.TemplateProcessing(
        single="<start> $A", special_tokens=[("<start>", made.token_to_id("<start>"))]
    )
    tokenizer = zoo.Subword(content=made.to_str(), bos="<start>")
    tokens = tokenizer(["a text", "another, longer"])
    written = tokenizer.written(tokens)
    assert torch.equal(written.value, tokens.value[:, 1:]) and torch.equal(written.padding, tokens.padding[:, 1:])
    other = zoo.Subword(content=made.to_str())  # whose decoder would begin with something else
    assert other.written(tokens) is tokens and zoo.BPE().written(tokens) is tokens


def test_vocabularies_agree_by_their_tokens_and_not_by_their_files():
    ours = BPE()
    published = Subword(content=ours.published(), eos="<eos>")
    assert published != ours and ours.agrees(published) and published.agrees(ours)
    assert not ours.agrees(BPE("docs-2048")) and not ours.agrees(Subword(content=ours.content, vocabulary=300))
    assert not ours.agrees(Ids(ours.vocabulary)) and Ids(7).agrees(Ids(7, eos=1)) and not Ids(7).agrees(Ids(8))
