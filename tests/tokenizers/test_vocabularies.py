"""Older vocabulary files become a tokenizer.json whose ids are those of the reference's tokenizer."""

import itertools
import json
import logging
from pathlib import Path

import pytest
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from zoo.tokenizers import Subword
from zoo.tokenizers.vocabularies import backend_file

LINES = ["The quick brown fox isn't lazy, and Émile's naïve café costs 1234.56 euros.", "they'll say hello world " * 3]
TEXTS = [
    "",
    "Hello World, the quick BROWN fox isn't lazy!",
    "Émile's naïve café  costs   12345.67 euros\n\tand more ",
    "快速的棕色狐狸 and 👩‍🚀🙂 e\u0301",
    " [CLS] <s> hello [MASK] world<mask>  fox </s>[SEP]<|endoftext|> end <|startoftext|>",
    "a" * 120 + " fox",
    "<extra> fox <EXTRA>fox<|en|>",
]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyzTHÉé.,!'12", "the", "fox", "##ox"]
PIECES += [*("##" + letter for letter in "abcdefghijklmnopqrstuvwxyzé1234567"), "hello", "Hello", "cafe", "快", "棕"]


def bpe(folder: Path, first: list[str], last: list[str], suffix: str = "") -> None:
    """A tiny vocab.json with merges.txt."""
    end = {"end_of_word_suffix": suffix} if suffix else {}
    backend = Tokenizer(models.BPE(**end))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if suffix:
        backend.normalizer = normalizers.Lowercase()
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), backend.pre_tokenizer])
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        **end,
    )
    backend.train_from_iterator(LINES, trainer)
    backend.model.save(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    for token in (*(letter + suffix for letter in "abcdefghijklmnopqrstuvwxyz" if suffix), *last):
        vocabulary.setdefault(token, len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))


def settings(folder: Path, **values) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


def agree(folder: Path, reference: type, model_type: str, pairs: bool = True, texts: list[str] = TEXTS) -> Subword:
    theirs = reference.from_pretrained(folder)
    ours = Subword(content=backend_file(folder, model_type))
    for text in texts:
        assert ours.encode(text).tolist() == theirs(text)["input_ids"], text
    for a, b in itertools.pairwise(texts) if pairs else ():
        found, wanted = ours.pairs([a], [b]), theirs(a, b, return_token_type_ids=True)
        assert found.value[0].tolist() == wanted["input_ids"]
        assert found.types[0].tolist() == wanted["token_type_ids"]
    return ours


@pytest.mark.parametrize(
    "values",
    [
        None,
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    ],
)
def test_bert(values, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf8")
    if values is not None:
        settings(tmp_path, **values)
    ours = agree(tmp_path, hf.BertTokenizer, "bert")
    assert ours.decode(ours.encode("the fox")) == "the fox"


def test_bert_with_other_special_tokens(tmp_path):
    pieces = [{"[CLS]": "<s>", "[SEP]": "</s>", "[UNK]": "<unk>"}.get(piece, piece) for piece in PIECES]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf8")
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"cls_token": "<s>", "sep_token": {"content": "</s>", "lstrip": False}, "unk_token": "<unk>"})
    )
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<extra>": len(pieces)}))
    agree(tmp_path, hf.BertTokenizer, "bert")


@pytest.mark.parametrize(
    "values",
    [{}, {"add_prefix_space": True}, {"add_bos_token": True}, {"add_bos_token": True, "add_eos_token": True}],
)
def test_gpt2(values, tmp_path):
    bpe(tmp_path, [], ["<|endoftext|>"])
    settings(tmp_path, **values)
    ours = agree(tmp_path, hf.GPT2Tokenizer, "gpt2")
    assert ours.decode(ours.encode(TEXTS[2])) == (" " if "add_prefix_space" in values else "") + TEXTS[2]


def test_tokens_that_were_added(tmp_path):
    bpe(tmp_path, [], ["<|endoftext|>"])
    size = len(json.loads((tmp_path / "vocab.json").read_text()))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<extra>": size, "<|en|>": size + 1}))
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["<|en|>"], "pad_token": "<extra>"})
    )
    agree(tmp_path, hf.GPT2Tokenizer, "gpt2")
    (tmp_path / "added_tokens.json").unlink()
    common = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    settings(
        tmp_path,
        added_tokens_decoder={
            str(size + 1): {"content": "<|en|>", **common},
            str(size): {"content": "<extra>", **common, "special": False},
        },
    )
    agree(tmp_path, hf.GPT2Tokenizer, "gpt2")
    settings(tmp_path, added_tokens_decoder={str(size + 5): {"content": "<|en|>", **common}})
    with pytest.raises(ValueError, match=r"vocab.json .*the added token '<\|en\|>' cannot have the id"):
        backend_file(tmp_path, "gpt2")


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("kind", ["roberta", "bart", "longformer"])
def test_roberta(kind, prefix, tmp_path):
    bpe(tmp_path, ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    mask = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False}
    settings(tmp_path, add_prefix_space=prefix, **({"mask_token": {**mask, "normalized": False}} if prefix else {}))
    agree(tmp_path, hf.RobertaTokenizer, kind)


def test_deberta(tmp_path):
    bpe(tmp_path, ["[PAD]", "[CLS]", "[SEP]", "[UNK]"], ["[MASK]"])
    agree(tmp_path, hf.DebertaTokenizer, "deberta")


@pytest.mark.parametrize("values", [{}, {"language": "en", "task": "transcribe", "predict_timestamps": True}])
def test_whisper(values, tmp_path):
    marks = ["<|startoftranscript|>", "<|en|>", "<|zh|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]
    bpe(tmp_path, [], ["<|endoftext|>"])
    size = len(json.loads((tmp_path / "vocab.json").read_text()))
    (tmp_path / "added_tokens.json").write_text(json.dumps({mark: size + i for i, mark in enumerate(marks)}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": marks}))
    settings(tmp_path, **values)
    ours = agree(tmp_path, hf.WhisperTokenizer, "whisper")
    assert ours.decode(ours.encode("hello <|en|>world")) == "hello world"
    settings(tmp_path, language="xx")
    with pytest.raises(ValueError, match=r"<\|xx\|>"):
        backend_file(tmp_path, "whisper")


def test_clip(tmp_path):
    bpe(tmp_path, [], ["<|startoftext|>", "<|endoftext|>"], suffix="</w>")
    ours = agree(tmp_path, hf.CLIPTokenizer, "clip")
    theirs = hf.CLIPTokenizer.from_pretrained(tmp_path)
    ids = ours.encode(TEXTS[1])
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    saved = Tokenizer.from_str(ours.published())
    assert saved.decode(ids.tolist()) == ours.decode(ids) and saved.encode(TEXTS[1]).ids == ids.tolist()
    assert saved.decode(ids[:1].tolist()) == saved.decode([]) == ""  # a start without a text


def test_gpt(tmp_path):
    bpe(tmp_path, ["<unk>"], [], suffix="</w>")
    ours = agree(tmp_path, hf.OpenAIGPTTokenizer, "openai-gpt")
    assert ours.decode(ours.encode("the fox")) == "the fox"


def test_esm(tmp_path):
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    texts = ["MKTAYIAKQR", "MK TA<mask>YJJ jj.-", "<null_1>MX<cls> <mask> L", "mkt", "*M*", "A  <pad>", ""]
    ours = agree(tmp_path, hf.EsmTokenizer, "esm", pairs=False, texts=texts)
    pair = hf.EsmTokenizer.from_pretrained(tmp_path)("MKT", "LLA")["input_ids"]
    assert ours.encode(("MKT", "LLA")).tolist() == pair


def test_the_class_that_the_files_name_wins(tmp_path):
    bpe(tmp_path, ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    settings(tmp_path, tokenizer_class="RobertaTokenizerFast")
    agree(tmp_path, hf.RobertaTokenizer, "gpt2")


# ---- nothing, or damaged


def test_without_a_vocabulary_there_is_none(tmp_path, caplog):
    assert backend_file(tmp_path, "bert") is None and not caplog.messages
    (tmp_path / "vocab.txt").write_text("a\n")
    assert backend_file(tmp_path, "t5") is None


def test_sentencepiece_is_left_out_with_a_warning(tmp_path, caplog):
    (tmp_path / "spiece.model").write_bytes(b"\x0a")
    with caplog.at_level(logging.WARNING):
        assert backend_file(tmp_path, "t5") is None
    assert "spiece.model needs sentencepiece" in caplog.text and "save_pretrained" in caplog.text


@pytest.mark.parametrize(
    ("kind", "files", "message"),
    [
        ("bert", {"vocab.txt": b"\xff\xfe"}, "vocab.txt .* UTF-8"),
        ("bert", {"vocab.txt": b""}, r"vocab.txt .* no '\[UNK\]'"),
        ("bert", {"vocab.txt": b"[UNK]\n", "tokenizer_config.json": b'{"do_lower_case": "yes"}'}, "vocab.txt"),
        ("bert", {"vocab.txt": b"[UNK]\n", "tokenizer_config.json": b"[]"}, "tokenizer_config.json holds .* a list"),
        ("bert", {"vocab.txt": b"[UNK]\n", "special_tokens_map.json": b"{"}, "special_tokens_map.json is not JSON"),
        ("bert", {"vocab.txt": b"[UNK]\n", "added_tokens.json": b'{"a": "b"}'}, "vocab.txt"),
        ("bert", {"vocab.txt": b"[UNK]\n", "tokenizer_config.json": b'{"added_tokens_decoder": [1]}'}, "vocab.txt"),
        ("esm", {"vocab.txt": b"\xff"}, "vocab.txt .* UTF-8"),
        ("gpt2", {"vocab.json": b"{}"}, "has vocab.json and no merges.txt"),
        ("gpt2", {"vocab.json": b"[", "merges.txt": b""}, "vocab.json with .*merges.txt makes no tokenizer"),
        ("gpt2", {"vocab.json": b'{"a": 0}', "merges.txt": b"a b\n"}, "merges.txt makes no tokenizer"),
        ("gpt2", {"tokenizer.json": b"{}"}, "tokenizer.json is no tokenizer.json"),
        ("gpt2", {"tokenizer.json": b"\xff"}, "tokenizer.json is not UTF-8"),
    ],
)
def test_a_damaged_file_is_named(kind, files, message, tmp_path):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        backend_file(tmp_path, kind)
    assert "\n" not in str(caught.value)
