"""Vocabulary files older than tokenizer.json, brought into its form.

Each kind is built as transformers 5.24 builds it, so that the ids are equal.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from zoo.tokenizers.checked import checked
from zoo.tokenizers.reading import first_line, read_json, read_utf8

log = logging.getLogger(__name__)

Settings = dict[str, Any]  # a tokenizer_config.json
Names = Mapping[str, str]  # "cls" -> "[CLS]"

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")  # in the order in which tokens that are new get their ids
SENTENCEPIECE = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "source.spm")
CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


@dataclass(frozen=True)
class Kind:
    """A kind of vocabulary: its files, how a tokenizer is built from them, what it adds to a text, and the names of
    its special tokens where no file says another."""

    files: tuple[str, ...]
    build: Callable[[list[str], Settings, Names], Backend]
    frame: Callable[[Backend, Settings, Names], processors.PostProcessor]
    special: Names


def backend_file(folder: Path, model_type: str) -> str | None:
    """The text of the ``tokenizer.json`` of a checkpoint's folder, or None where it has no vocabulary that can be read;
    a sentencepiece model is such a one, and a warning names it.

    Raises ValueError for a damaged one.
    """
    whole = folder / "tokenizer.json"
    if whole.is_file():
        text = read_utf8(whole)
        checked(text, str(whole))
        return text
    about = settings(folder)
    kind = kind_of(about, model_type)
    if kind is None or not (folder / kind.files[0]).is_file():
        for name in SENTENCEPIECE:
            if (folder / name).is_file():
                log.warning(
                    "%s needs sentencepiece, so this model reads token ids only; for text make a tokenizer.json: "
                    "transformers.AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                    folder / name,
                )
        return None
    return built(folder, kind, about).to_str()


def settings(folder: Path) -> Settings:
    """tokenizer_config.json, with what special_tokens_map.json and added_tokens.json say in older directories."""
    found = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    if "added_tokens_decoder" in found:
        return found
    if (folder / "special_tokens_map.json").is_file():
        found |= read_json(folder / "special_tokens_map.json")
    if (folder / "added_tokens.json").is_file():
        special = {content(found.get(f"{role}_token")) for role in ROLES} | set(map(content, extra(found)))
        found["added_tokens_decoder"] = {
            index: {"content": name, "normalized": name not in special, "special": name in special}
            for name, index in read_json(folder / "added_tokens.json").items()
        }
    return found


def stated(about: Settings) -> dict[str, str]:
    """The special tokens that the files name, by their roles."""
    names = {role: content(about.get(f"{role}_token")) for role in ROLES}
    return {role: name for role, name in names.items() if name is not None}


def usual(about: Settings, model_type: str) -> Names:
    """The special tokens that its kind has where the files name none."""
    kind = kind_of(about, model_type)
    return kind.special if kind else {}


def kind_of(about: Settings, model_type: str) -> Kind | None:
    name = str(about.get("tokenizer_class")).removesuffix("Fast")
    return BY_CLASS.get(name) or BY_TYPE.get(model_type)


def content(token: Any) -> str | None:
    """The text of a special token, which older files write as an object with its settings."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def extra(about: Settings) -> list[Any]:
    found = about.get("extra_special_tokens") or about.get("additional_special_tokens") or []
    return list(found.values()) if isinstance(found, dict) else list(found)


# ---- building


def built(folder: Path, kind: Kind, about: Settings) -> Backend:
    """A tokenizer from the files of a kind.  Raises ValueError, naming them, where they are damaged."""
    files = [str(folder / name) for name in kind.files]
    for name in kind.files:
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has {kind.files[0]} and no {name}, which belongs to it")
    names = {**kind.special, **stated(about)}
    try:
        backend = kind.build(files, about, names)
        known = backend.get_vocab(with_added_tokens=False)
        if getattr(backend.model, "unk_token", None) not in (None, *known):
            raise ValueError(f"there is no {backend.model.unk_token!r}")
        add(backend, about, names)
        backend.post_processor = kind.frame(backend, about, names)
    except Exception as error:  # the library raises plain Exceptions
        raise ValueError(f"{' with '.join(files)} makes no tokenizer ({first_line(error)})") from None
    return backend


def add(backend: Backend, about: Settings, names: Names) -> None:
    """The added tokens: first those with a number, then special ones that are not among them."""
    numbered = {int(index): token for index, token in (about.get("added_tokens_decoder") or {}).items()}
    tokens = [made(numbered[index], bool(numbered[index].get("special"))) for index in sorted(numbered)]
    seen = {token.content for token in tokens}
    for token in [*(about.get(f"{role}_token") or names.get(role) for role in ROLES), *extra(about)]:
        if token is not None and content(token) not in seen:
            tokens.append(made(token, True))
            seen.add(tokens[-1].content)
    for special, group in itertools.groupby(tokens, lambda token: token.special):
        (backend.add_special_tokens if special else backend.add_tokens)(list(group))
    for index, token in numbered.items():
        if backend.token_to_id(token["content"]) != index:
            raise ValueError(f"the added token {token['content']!r} cannot have the id {index}")


def made(token: Any, special: bool) -> AddedToken:
    given = token if isinstance(token, dict) else {"content": token}
    keys = ("single_word", "lstrip", "rstrip", "normalized")
    return AddedToken(given["content"], special=special, **{key: given[key] for key in keys if key in given})


def wordpiece(files: list[str], about: Settings, names: Names) -> Backend:
    """BERT's vocab.txt."""
    backend = Backend(models.WordPiece.from_file(*files, unk_token=names["unk"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=about.get("tokenize_chinese_chars", True),
        strip_accents=about.get("strip_accents"),
        lowercase=about.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend


def bytelevel(files: list[str], about: Settings, names: Names) -> Backend:
    """GPT-2's vocab.json and merges.txt."""
    backend = Backend(models.BPE.from_file(*files, continuing_subword_prefix="", end_of_word_suffix=""))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=about.get("add_prefix_space", False))
    backend.decoder = decoders.ByteLevel()
    return backend


def clip(files: list[str], about: Settings, names: Names) -> Backend:
    """CLIP's vocab.json and merges.txt: small letters, and a mark at the end of a word."""
    model = models.BPE.from_file(
        *files, continuing_subword_prefix="", end_of_word_suffix="</w>", unk_token=names["unk"]
    )
    backend = Backend(model)
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    backend.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    return backend


def gpt(files: list[str], about: Settings, names: Names) -> Backend:
    """The vocab.json and merges.txt of the first GPT: BERT's words, and a mark at the end of each."""
    backend = Backend(models.BPE.from_file(*files, end_of_word_suffix="</w>", unk_token=names["unk"]))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    return backend


def residues(files: list[str], about: Settings, names: Names) -> Backend:
    """ESM's vocab.txt: one residue a token, and what stands between them unknown."""
    tokens = [line.strip() for line in read_utf8(Path(files[0])).splitlines()]
    backend = Backend(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=names["unk"]))
    known = Regex("|".join(re.escape(token) for token in sorted(filter(None, tokens), key=len, reverse=True)))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(known, behavior="isolated"), pre_tokenizers.WhitespaceSplit()]
    )
    return backend


# ---- what is added to a text, and to a pair


def template(single: str, pair: str) -> Callable[[Backend, Settings, Names], processors.PostProcessor]:
    """ "cls $A sep" with roles in place of the tokens."""

    def frame(backend: Backend, about: Settings, names: Names) -> processors.PostProcessor:
        return filled(single, pair, names, [numbered(backend, names[role]) for role in ROLES if role in names])

    return frame


def numbered(backend: Backend, token: str) -> tuple[str, int]:
    index = backend.token_to_id(token)
    if index is None:
        raise ValueError(f"there is no {token!r}")
    return token, index


def filled(single: str, pair: str, names: Names, tokens: list[tuple[str, int]]) -> processors.PostProcessor:
    words = [
        [names.get(role, role) + colon + kind for role, colon, kind in (word.partition(":") for word in text.split())]
        for text in (single, pair)
    ]
    return processors.TemplateProcessing(single=words[0], pair=words[1], special_tokens=list(dict.fromkeys(tokens)))


def roberta(end: str, begin: str) -> Callable[[Backend, Settings, Names], processors.PostProcessor]:
    """``<s> A </s>`` and ``<s> A </s></s> B </s>``."""

    def frame(backend: Backend, about: Settings, names: Names) -> processors.PostProcessor:
        last, first = (numbered(backend, names[role]) for role in (end, begin))
        return processors.RobertaProcessing(last, first, add_prefix_space=about.get("add_prefix_space", False))

    return frame


def ends(backend: Backend, about: Settings, names: Names) -> processors.PostProcessor:
    """Nothing, or the first and last token where the settings ask for them."""
    bos = "bos:{} " if about.get("add_bos_token") else ""
    eos = " eos:{}" if about.get("add_eos_token") else ""
    single, second = (f"{bos}${text}:{{}}{eos}".replace("{}", str(i)) for i, text in enumerate("AB"))
    return template(single, f"{single} {second}")(backend, about, names)


def transcript(backend: Backend, about: Settings, names: Names) -> processors.PostProcessor:
    """Whisper's: what is spoken (a code such as "en"), what is to be done, and whether times are written."""
    spoken = [about[key] for key in ("language", "task") if about.get(key)]
    begin = ["startoftranscript", *spoken, *([] if about.get("predict_timestamps") else ["notimestamps"])]
    marks = [f"<|{word}|>" for word in begin]
    tokens = [numbered(backend, mark) for mark in (*marks, names["eos"])]
    prefix = " ".join(f"{mark}:0" for mark in marks)
    return filled(f"{prefix} $A:0 eos:0", f"{prefix} $A:0 $B:1 eos:1", names, tokens)


BPE_FILES = ("vocab.json", "merges.txt")
OF_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
OF_ROBERTA = {
    "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"
}  # fmt: skip
OF_ESM = {"eos": "<eos>", "unk": "<unk>", "pad": "<pad>", "cls": "<cls>", "mask": "<mask>"}
END = "<|endoftext|>"

BERT = Kind(("vocab.txt",), wordpiece, template("cls:0 $A:0 sep:0", "cls:0 $A:0 sep:0 $B:1 sep:1"), OF_BERT)
GPT = Kind(BPE_FILES, gpt, ends, {"unk": "<unk>"})
GPT2 = Kind(BPE_FILES, bytelevel, ends, {"bos": END, "eos": END, "unk": END})
ROBERTA = Kind(BPE_FILES, bytelevel, roberta("sep", "cls"), OF_ROBERTA)
DEBERTA = Kind(
    BPE_FILES, bytelevel, template("cls $A sep", "cls $A sep sep $B sep"), {"bos": "[CLS]", "eos": "[SEP]", **OF_BERT}
)
WHISPER = Kind(BPE_FILES, bytelevel, transcript, GPT2.special)
CLIP = Kind(BPE_FILES, clip, roberta("eos", "bos"), {"bos": "<|startoftext|>", "eos": END, "unk": END, "pad": END})
ESM = Kind(("vocab.txt",), residues, template("cls $A eos", "cls $A eos $B eos"), OF_ESM)

BY_CLASS = {
    "BertTokenizer": BERT, "DistilBertTokenizer": BERT, "ElectraTokenizer": BERT, "OpenAIGPTTokenizer": GPT,
    "GPT2Tokenizer": GPT2, "RobertaTokenizer": ROBERTA, "BartTokenizer": ROBERTA, "LongformerTokenizer": ROBERTA,
    "DebertaTokenizer": DEBERTA, "WhisperTokenizer": WHISPER, "CLIPTokenizer": CLIP, "EsmTokenizer": ESM,
}  # fmt: skip
BY_TYPE = {
    "bert": BERT, "distilbert": BERT, "electra": BERT, "openai-gpt": GPT, "gpt2": GPT2, "gpt_neo": GPT2, "gptj": GPT2,
    "opt": GPT2, "roberta": ROBERTA, "bart": ROBERTA, "longformer": ROBERTA, "deberta": DEBERTA, "whisper": WHISPER,
    "clip": CLIP, "clip_text_model": CLIP, "esm": ESM,
}  # fmt: skip
