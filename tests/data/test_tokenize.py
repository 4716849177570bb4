"""A corpus becomes shards, whole and in order; what training reads of them is what it would have encoded itself."""

import gzip
import itertools
import json
import pickle
import sys
import types

import numpy as np
import pytest
import torch

from zoo.data import Text, corpus
from zoo.data.corpus import Corpus, found, hugging_face
from zoo.data.sharded import ShardBlocks
from zoo.data.shards import OFFSET, read_index, verify
from zoo.data.tokenize import LOAD, tokenize
from zoo.tokenizers import BPE, Characters, Ids, Patches, Subword

WORDS = ["one", "two", "drei\n", "vier", "\N{SNOWMAN}", "\n\n", "  ", "siebzehn."]


def document(number):
    return " ".join(WORDS[(number * 7 + i * i) % len(WORDS)] for i in range(3 + number % 5))


def ids(index, split):
    return np.concatenate([np.fromfile(index.ids(split, i), index.dtype) for i in range(len(index.splits[split]))])


def offsets(index, split):
    """Where documents begin in a split."""
    shards, before, out = index.splits[split], 0, []
    for number, shard in enumerate(shards):
        out += [int(place) + before for place in np.fromfile(index.offsets(split, number), OFFSET)]
        before += shard.tokens
    return out


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": document(i)}) + "\n" for i in range(60)), encoding="utf-8")
    return path


@pytest.mark.parametrize("shard", [7, 64, 10**6])
def test_every_id_is_written_in_order(jsonl, tmp_path, shard):
    heard = []
    index = tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "out", shard=shard, tell=heard.append)
    expected = [BPE().encode(document(i)).tolist() for i in range(60)]
    assert ids(index, "train").tolist() == [*itertools.chain(*expected)]
    assert offsets(index, "train") == [sum(map(len, expected[:i])) for i in range(60)]
    counts = [part.tokens for part in index.splits["train"]]
    assert set(counts[:-1]) <= {shard} and 0 < counts[-1] <= shard
    assert index.dtype == np.uint16 and index.documents("train") == 60
    assert sum(heard) == sum(len(document(i).encode()) for i in range(60))
    assert read_index(tmp_path / "out") == index == verify(tmp_path / "out", lambda count: None)
    assert not list(tmp_path.glob(".*"))


def test_processes_change_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = [f"{i} " * (LOAD // 6) for i in range(7)]
    path.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    made = Corpus(found([str(path)]), key="body", val=0.4)
    one, two = (tokenize(made, BPE(), tmp_path / str(n), n, shard=10**5) for n in (1, 2))
    assert one.splits == two.splits and set(one.splits) == {"train", "val"} and len(one.splits["train"]) > 1
    assert (one.folder / "index.json").read_bytes() == (two.folder / "index.json").read_bytes()


def test_training_reads_what_it_would_have_encoded(tmp_path):
    for name, count in {"train-1": 9, "train-2": 8, "val": 5}.items():
        (tmp_path / "text" / name).mkdir(parents=True)
        for i in range(count):
            (tmp_path / "text" / name / f"{i}.txt").write_text(document(i), encoding="utf-8")
    tokenize(Corpus(found([str(tmp_path / "text")]), val=0.5), BPE(), tmp_path / "shards", shard=50)
    plain, sharded = (Text(str(tmp_path / n), 12, tokenizer=BPE(), batch_size=3) for n in ("text", "shards"))
    for loader in ("train_dataloader", "val_dataloader"):
        for a, b in zip(getattr(plain, loader)(), getattr(sharded, loader)(), strict=True):
            assert torch.equal(a.input.value, b.input.value) and torch.equal(a.key, b.key)
            assert b.input.value.dtype == torch.int64
    assert plain.fingerprint != sharded.fingerprint
    batch = sharded.sample("train", 2)
    assert torch.equal(batch.input.value, plain.sample("train", 2).input.value)


@pytest.mark.parametrize("shard", [5, 12, 30, 36, 10**6])
@pytest.mark.parametrize("length", [1, 8, 12, 40])
def test_blocks_are_gathered_across_shards(jsonl, tmp_path, shard, length):
    index = tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "out", shard=shard)
    whole = torch.from_numpy(ids(index, "train").astype(np.int64))
    blocks = ShardBlocks(index, "train", length)
    rows = whole[: len(whole) // length * length].view(-1, length)
    assert len(blocks) == len(rows)
    chosen = torch.randint(len(rows), (50,)).tolist()
    for field in (blocks, pickle.loads(pickle.dumps(blocks)), blocks.take(list(range(len(blocks))))):
        assert torch.equal(field.raw(chosen).value, rows[chosen])
    train, val = blocks.parted(0.2)
    assert torch.equal(torch.cat([part.raw(list(range(len(part)))).value for part in (train, val)]), rows)
    size = len(pickle.dumps(blocks))
    blocks.raw([0])
    assert len(pickle.dumps(blocks)) == size  # a worker maps the files by itself


def test_shards_without_validation_hold_out_their_end(jsonl, tmp_path):
    index = tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "out")
    assert set(index.splits) == {"train"}
    data = Text(str(tmp_path / "out"), 10, tokenizer=BPE(), val=0.25)
    train, val = (data.source.splits[split].input for split in ("train", "val"))
    assert (train.first, train.last, val.last) == (0, val.first, index.tokens("train") // 10)
    assert abs(len(val) / (len(train) + len(val)) - 0.25) < 0.02
    assert Text(str(tmp_path / "out"), 10, tokenizer=BPE(), val=0).val_dataloader() == []


def test_the_end_of_text_files_and_records_by_chance_are_held_out(tmp_path):
    lines = "".join(f"line {i:04}\n" for i in range(1000))
    (tmp_path / "a.txt").write_text(lines[:3000])
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(lines[3000:].encode()))
    pieces = list(Corpus(found([str(tmp_path)]), val=0.1).pieces())
    text = {split: "".join(piece.text for piece in pieces if piece.split == split) for split in ("train", "val")}
    assert text["train"] + text["val"] == lines and text["val"].startswith("line 09")
    assert [(piece.begins, piece.ends) for piece in pieces] == [(True, True)] * 3
    rows = [{"text": str(i)} for i in range(2000)]
    held = [p.text for p in Corpus({}, {"train": rows}, val=0.1).pieces() if p.split == "val"]
    assert 150 < len(held) < 250 and held != [str(i) for i in range(int(held[0]), int(held[-1]) + 1)]
    assert [p.split for p in Corpus({}, {"train": rows, "val": rows}, val=0.1).pieces()].count("val") == 2000


def test_long_documents_are_read_in_pieces_that_change_no_token(tmp_path, monkeypatch):
    text = "".join(f"word {i}\n{'' if i % 3 else '  indented'}\n" for i in range(400))
    (tmp_path / "a.txt").write_text(text)
    whole = tokenize(Corpus(found([str(tmp_path / "a.txt")])), BPE("docs-2048"), tmp_path / "whole")
    monkeypatch.setattr(corpus, "PIECE", 100)
    pieces = list(Corpus(found([str(tmp_path / "a.txt")]), val=0.3).pieces())
    assert "".join(piece.text for piece in pieces) == text and max(len(piece.text) for piece in pieces) <= 100
    assert sum(piece.begins for piece in pieces) == 2 == sum(piece.ends for piece in pieces)
    parts = tokenize(Corpus(found([str(tmp_path / "a.txt")])), BPE("docs-2048"), tmp_path / "parts")
    assert ids(parts, "train").tolist() == ids(whole, "train").tolist() and parts.documents("train") == 1


def test_published_tokenizers_get_an_end(jsonl, tmp_path):
    tokenizer = Subword(content=BPE("docs-2048").content, eos="<eos>")
    index = tokenize(Corpus(found([str(jsonl)])), tokenizer, tmp_path / "out")
    expected = [[*tokenizer.encode(document(i)).tolist(), tokenizer.special("eos")] for i in range(60)]
    assert ids(index, "train").tolist() == [*itertools.chain(*expected)]
    wider = Subword(content=tokenizer.content, eos="<eos>", vocabulary=2304)
    index.require(wider)  # a model may have more ids than its tokenizer
    with pytest.raises(
        ValueError, match=r"made by Subword of 2,048 tokens, and the tokenizer of the task is BPE of 2,048"
    ):
        index.require(BPE("docs-2048"))


def test_characters_have_neither_file_nor_end(tmp_path):
    (tmp_path / "a.txt").write_text("abcabc" * 10)
    index = tokenize(Corpus(found([str(tmp_path / "a.txt")])), Characters("abc"), tmp_path / "out")
    assert ids(index, "train").tolist() == [0, 1, 2] * 20 and not (tmp_path / "out" / "tokenizer.json").exists()
    with pytest.raises(ValueError, match="'d' is no character"):
        (tmp_path / "d.txt").write_text("abcd")
        tokenize(Corpus(found([str(tmp_path / "d.txt")])), Characters("abc"), tmp_path / "other")
    assert not (tmp_path / "other").exists() and not list(tmp_path.glob(".*"))


def test_parquet_and_hugging_face_rows(tmp_path, monkeypatch):
    class File:
        schema_arrow = types.SimpleNamespace(names=["body"])

        def __init__(self, path):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def iter_batches(self, size, columns):
            assert columns == ["body"]
            yield types.SimpleNamespace(to_pylist=lambda: [{"body": "a"}, {"body": "b"}])
            yield types.SimpleNamespace(to_pylist=lambda: [{"body": "c"}])

    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    parquet = types.ModuleType("pyarrow.parquet")
    parquet.ParquetFile = File
    arrow = types.ModuleType("pyarrow")
    arrow.parquet, arrow.ArrowException = parquet, RuntimeError
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    files = found([str(tmp_path / "a.parquet")])
    assert [piece.text for piece in Corpus(files, key="body").pieces()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"a.parquet: no column 'text'; it has 'body'; say which it is"):
        list(Corpus(files).pieces())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"a.parquet: Parquet needs pyarrow: pip install lightning-zoo\[data\]"):
        list(Corpus(files).pieces())

    asked = []
    rows = {"train": iter([{"text": "x"}]), "validation": iter([{"text": "y"}]), "unsupervised": iter([])}
    fake = types.SimpleNamespace(load_dataset=lambda *name, **options: asked.append((name, options)) or rows)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    pieces = list(Corpus({}, hugging_face("wiki:de", streaming=True), val=0.5).pieces())
    assert [(piece.split, piece.text) for piece in pieces] == [("train", "x"), ("val", "y")]
    assert asked == [(("wiki", "de"), {"streaming": True})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}\n{"body": "b"}\n', r"a.jsonl, line 2: no key 'text'; it has 'body'"),
        ('{"text": 5}\n', r"a.jsonl, line 1: 'text' is 5, not a str"),
        ("\n", "a.jsonl: has no records"),
        ('{"text": ', "a.jsonl, line 1: not JSON"),
    ],
)
def test_what_cannot_be_read_is_named_and_leaves_nothing(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        tokenize(Corpus(found([str(tmp_path / "a.jsonl")])), BPE(), tmp_path / "out")
    assert "\n" not in str(caught.value) and sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_what_is_no_source_or_no_tokenizer_is_refused(tmp_path, jsonl):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b")
    (tmp_path / "bad.txt").write_bytes(b"x" * 2**20 + b"caf\xe9")
    (tmp_path / "none.txt").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder; expected .txt"):
        found([str(tmp_path / "nowhere")])
    with pytest.raises(ValueError, match="empty: has no .txt or"):
        found([str(tmp_path / "empty")])
    with pytest.raises(ValueError, match="a.csv: is none of"):
        found([str(tmp_path / "a.csv")])
    with pytest.raises(ValueError, match="bad.txt: not UTF-8 text at byte 1048579: convert"):
        list(Corpus(found([str(tmp_path / "bad.txt")])).pieces())
    with pytest.raises(ValueError, match="none.txt: is empty"):
        list(Corpus(found([str(tmp_path / "none.txt")])).pieces())
    for tokenizer in (Patches(8, 4), Ids(5)):
        with pytest.raises(ValueError, match="does not read text"):
            tokenize(Corpus(found([str(jsonl)])), tokenizer, tmp_path / "out")
    with pytest.raises(ValueError, match="empty: is there already"):
        tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "empty")


def test_damage_is_told_before_training(jsonl, tmp_path):
    folder = tmp_path / "out"
    tokenize(Corpus(found([str(jsonl)])), BPE(), folder, shard=100)

    def refused(tokenizer=BPE(), **options):
        with pytest.raises(ValueError) as caught:
            Text(str(folder), 8, tokenizer=tokenizer, **options).train_dataloader()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "made by BPE of 260 tokens, and the tokenizer of the task is BPE of 2,048: give it" in refused(
        BPE("docs-2048")
    )
    assert "label='x'" in refused(label="x")
    path = folder / "train-00001.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    assert refused() == f"{path}: has 198 bytes instead of 200; copy it again, or tokenize again"
    path.unlink()
    assert refused() == f"{path}: is missing; copy it again, or tokenize again"
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert Text(str(folder), 8, tokenizer=BPE()).train_dataloader()
    with pytest.raises(ValueError, match="train-00001.bin: its SHA-256 is not that of index.json"):
        verify(folder, lambda count: None)
    path.write_bytes(content)
    text = (folder / "index.json").read_text()
    for old, new in {
        '"version": 1': '"version": 2',
        "uint16": "float16",
        '"tokens": 100': '"tokens": -1',
        "{": "[",
    }.items():
        (folder / "index.json").write_text(text.replace(old, new))
        assert "index.json: no index of token shards (" in refused()
    with pytest.raises(ValueError, match="no folder of token shards"):
        verify(tmp_path, lambda count: None)
