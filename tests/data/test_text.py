"""Every form of text, and what is wrong with some."""

import gzip
import json
import sys
import types

import pytest
import torch

from zoo.data import Text
from zoo.data.text import cut
from zoo.tokenizers import BPE


def module(root, **options):
    return Text(str(root), length=8, tokenizer=BPE(), **options)


def decoded(loader):
    return "".join(BPE().decode(row) for batch in loader for row in batch.input.value)


def test_embedded_topics():
    data = Text(tokenizer=BPE(), length=128)
    batch = next(iter(data.train_dataloader()))
    assert batch.input.value.shape == (64, 128) and batch.input.value.dtype == torch.int64 and batch.label is None
    train, val = (sum(map(len, data.source.splits[split].input.values)) for split in ("train", "val"))
    assert 0.099 < val / (train + val) < 0.101


def test_cut_keeps_every_character_in_its_place():
    documents = ["abcde", "fgh", "ijklmnopq", "rst"]
    for share in (0.01, 0.1, 0.15, 0.5, 0.9):
        before, after = cut(documents, share)
        assert "".join(before + after) == "".join(documents) and len("".join(after)) == 20 - int((1 - share) * 20)
        assert all(before) and all(after)


def test_one_file_is_split_at_its_end(tmp_path):
    text = "".join(chr(97 + i % 26) for i in range(200))
    (tmp_path / "a.txt").write_text(text)
    data = module(tmp_path / "a.txt", val=0.5)
    assert decoded(data.val_dataloader()) == text[100:196] and decoded(data.test_dataloader()) == text[100:196]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert module(tmp_path / "a.txt.gz", val=0.5).source.splits["val"].input.values == [text[100:]]


def test_names_tell_the_splits(tmp_path):
    for name, text in {"train_1.txt": "one " * 9, "train_2.txt": "two " * 9, "valid.txt": "val " * 9}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.txt").write_text("tst " * 9)
    (tmp_path / "README.txt").write_text("not data")
    splits = module(tmp_path).source.splits
    assert splits["train"].input.values == ["one " * 9, "two " * 9]
    assert splits["val"].input.values == ["val " * 9] and splits["test"].input.values == ["tst " * 9]


def test_jsonl_is_documents_or_labelled_records(tmp_path):
    rows = [{"body": f"document {i}", "kind": ["good", "bad"][i % 2]} for i in range(20)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(module(path, key="body").train_dataloader().dataset) > 20
    data = module(path, key="body", label="kind", batch_size=4)
    assert data.classes == ["bad", "good"]
    batch = next(iter(data.train_dataloader()))
    for row, label, real in zip(batch.input.value, batch.label, batch.input.real):
        number = int(BPE().decode(row[real]).split()[1])
        assert int(label) == 1 - number % 2
    assert len(data.train_dataloader().dataset) == 18 and len(data.val_dataloader().dataset) == 2


def test_hugging_face_rows(monkeypatch):
    class Rows(list):
        def to_list(self):
            return list(self)

    fake = types.SimpleNamespace(load_dataset=lambda *name: {"train": Rows([{"text": "/".join(name) * 9}])})
    monkeypatch.setitem(sys.modules, "datasets", fake)
    assert module("hf:wiki:v1", val=0).source.splits["train"].input.values == ["wiki/v1" * 9]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="hf:wiki: needs the datasets package: pip install"):
        _ = module("hf:wiki").source


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.txt", b"caf\xe9 au lait", "bad.txt: not UTF-8 text at byte 3"),
        ("empty.txt", b"", "empty.txt: is empty"),
        ("torn.txt.gz", gzip.compress(b"text " * 99)[:-20], "torn.txt.gz: not a whole gzip file"),
        ("short.txt", b"abc", "shorter than one block of length=8"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": ', "bad.jsonl, line 2: not JSON"),
        ("list.jsonl", b"[1]", r"list.jsonl, line 1: '\[1\]' is not an object"),
        ("key.jsonl", b'{"body": "a"}', "line 1: no key 'text'; it has 'body'"),
        ("type.jsonl", b'{"text": 5}', "line 1: 'text' is 5, not a str"),
        ("none.jsonl", b"\n", "none.jsonl: has no records"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        module(tmp_path / name).train_dataloader()
    assert "\n" not in str(caught.value)


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder; expected a .txt file"):
        module(tmp_path / "nowhere").train_dataloader()
    (tmp_path / "test.txt").write_text("test alone")
    with pytest.raises(ValueError, match="there is test data, but nothing named train"):
        module(tmp_path).train_dataloader()
    with pytest.raises(ValueError, match="label='kind': the embedded text has no records"):
        _ = Text(label="kind").classes


@pytest.mark.parametrize("documents", ["joined", "apart"])
def test_the_places_of_a_batch_are_found_by_its_keys(documents):
    """Among blocks or pieces, of which there are more than documents."""
    data = Text(length=32, batch_size=8, tokenizer=BPE("docs-2048"), documents=documents)
    loader = data.train_dataloader()
    batch = next(iter(loader))
    index = next(loader.sampler.parts(8))[1]
    assert data.places(batch.key, 0) == index.sort().values.tolist()
    assert int(index.max()) > len(data.source.splits["train"].input)
