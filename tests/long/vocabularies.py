"""Files of tokenizers that are damaged or hostile."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.long.cases import Case
from tests.long.mutate import altered, cut, flipped
from tests.long.mutate import text as written
from tests.long.texts import SOUND, TEXTS
from zoo.tokenizers.bpe import SHIPPED


def shipped() -> dict[str, Any]:
    return json.loads((SHIPPED / "docs-2048.json").read_text(encoding="utf8"))


def trained(kind: str) -> dict[str, Any]:
    """A small tokenizer.json of a kind."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = {"special_tokens": ["<unk>", "<s>", "</s>"], "show_progress": False, "vocab_size": 200}
    made, teacher = {
        "WordPiece": (Tokenizer(models.WordPiece(unk_token="<unk>")), trainers.WordPieceTrainer(**special)),
        "Unigram": (Tokenizer(models.Unigram()), trainers.UnigramTrainer(**special, unk_token="<unk>")),
    }[kind]
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("``", '"')])
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Digits()])
    made.decoder = decoders.Sequence([decoders.Metaspace(), decoders.Strip(" ", 1, 0)])
    made.train_from_iterator([SOUND.decode(), SHIPPED.as_posix(), __doc__], teacher)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return json.loads(made.to_str())


def odd_tokenizers() -> dict[str, Any]:
    """What must be refused: name -> JSON, or the part of one that replaces it."""
    step = {"prefix": "normalizer", "type": "Replace", "content": "b"}
    growing = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 99}
    return {
        "an id for two tokens": {"model": {"vocab": {"a": 1, "b": 1}}},
        "a negative id": {"model": {"vocab": {"a": -1}}},
        "an id of 2^31": {"model": {"vocab": {"a": 2**31}}},
        "an id of 2^70": {"model": {"vocab": {"a": 2**70}}},
        "an id that is text": {"model": {"vocab": {"a": "1"}}},
        "merges of one": {"model": {"merges": [["a"]]}},
        "merges of what is not there": {"model": {"merges": [["nowhere", "near"]]}},
        "merges null": {"model": {"merges": None}},
        "a prefix that no merge has": {"model": {"continuing_subword_prefix": "##"}},
        "no model": {"model": None},
        "another model": {"model": {"type": "Nonsense"}},
        "pieces without length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "a decoder that strips": {"decoder": {"type": "Strip", "content": " ", "start": 0, "stop": 3}},
        "a pattern that runs for ever": {"normalizer": {**step, "pattern": {"Regex": "(a+)+$"}}},
        "a pattern with choices": {"normalizer": {**step, "pattern": {"Regex": "(?:a|aa)+$"}}},
        "a pattern of 100,000 letters": {"normalizer": {**step, "pattern": {"Regex": "a?" * 50_000}}},
        "text that grows": {"normalizer": {"type": "Sequence", "normalizers": [growing] * 9}},
        "a table of letters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP///38="}},
        "a token that is not described": {
            "post_processor": {
                "type": "TemplateProcessing",
                "special_tokens": {},
                "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
                "pair": [],
            }
        },
        "an empty added token": {"added_tokens": [{"id": 0, "content": "", "special": True}]},
        "added tokens of text": {"added_tokens": "none"},
        "an added token without id": {"added_tokens": [{"content": "x"}]},
    }


def damaged_tokenizers(folder: Path, count: int) -> Iterator[Case]:
    """At least 60 tokenizer.json files, ``count`` and more of them mutated, and their controls."""
    config = folder / "tokenizer.yaml"
    config.write_text(TEXTS.replace("TOKENIZER", "{class_path: Subword, init_args: {eos: null}}"))
    (folder / "tokenizer.txt").write_bytes(SOUND)

    def case(name: str, content: bytes, control: bool = False, may_load: bool = False) -> Case:
        path = folder / f"odd-{name.replace(' ', '-').replace(',', '')}.json"
        path.write_bytes(content)
        words = ["fit", f"--config={config}", f"--data.root={folder / 'tokenizer.txt'}"]
        return Case("tokenizer", name, [*words, f"--model.tokenizer.file={path}"], str(path), control, may_load)

    sources, dice = {"BPE": shipped(), **{kind: trained(kind) for kind in ("WordPiece", "Unigram")}}, random.Random(0)
    for name, changes in odd_tokenizers().items():
        whole = shipped()
        for key, value in changes.items():
            whole[key] = {**whole[key], **value} if key == "model" and value else value
        yield case(name, written(whole).encode())
    yield case("nested", b'{"model":' * 10**5)
    yield case("not UTF-8", written(sources["BPE"]).encode().replace(b"the", b"\xff\xfe"))
    for kind, source in sources.items():
        data = written(source).encode()
        yield case(f"sound {kind}", data, control=True)
        yield case(f"cut {kind}", cut(data, dice))
        for i in range(max(12, count // len(sources))):
            changed = written(altered(source, dice)).encode() if i % 4 else flipped(data, dice, 3)
            yield case(f"mutated {kind}, {i}", changed, may_load=True)
