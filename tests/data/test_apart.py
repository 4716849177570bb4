"""Documents apart: pieces are of one document each, the same from shards, and are learned as if each were alone."""

import json
import pickle

import numpy as np
import pytest
import torch

from tests.data.test_tokenize import document
from tests.tasks.conftest import backbone
from zoo.data import Text
from zoo.data.apart import Apart, shard_pieces
from zoo.data.corpus import Corpus, found
from zoo.data.shards import OFFSET
from zoo.data.tokenize import tokenize
from zoo.nn import Causal, packing
from zoo.nn.packing import Layout
from zoo.tasks import CausalLM, MaskedLM
from zoo.tokenizers import BPE, Batch, Characters, Tokens

TEXTS = [*(document(i) for i in range(40)), "", "x", "a longer one " * 12]


def by_hand(texts, length):
    """The pieces, with a loop over everything."""
    every = []
    for text in texts:
        ids = BPE().encode(text).tolist()
        every += [ids[place : place + length] for place in range(0, len(ids), length)]
    return [piece for piece in every if len(piece) > 1]


def rows(field, index=None):
    tokens = field.raw(list(range(len(field))) if index is None else index)
    return [row[real].tolist() for row, real in zip(tokens.value, tokens.real, strict=True)]


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.mark.parametrize("length", [2, 7, 12, 1000])
def test_each_piece_is_of_one_document(length):
    field = Apart(TEXTS, length).ready(BPE())
    pieces = by_hand(TEXTS, length)
    assert rows(field) == pieces and field.lengths.tolist() == [len(piece) for piece in pieces]
    assert rows(field, [5, 0, 5]) == [pieces[5], pieces[0], pieces[5]] == rows(field.take([5, 0]), [0, 1, 0])
    assert field.size == sum(map(len, pieces)) and field.raw([0]).value.dtype == torch.int64
    assert rows(Apart(TEXTS, length).take([3]).ready(BPE())) == by_hand(TEXTS[3:4], length)
    if length == 1000:  # whole documents come back
        assert [BPE().decode(torch.tensor(piece)) for piece in pieces] == [text for text in TEXTS if text]


@pytest.mark.parametrize("shard", [5, 12, 30, 10**6])
@pytest.mark.parametrize("length", [2, 7, 1000])
def test_shards_give_the_same_pieces(jsonl, tmp_path, shard, length):
    index = tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "out", shard=shard)
    source = shard_pieces(index, "train", length)
    pieces = by_hand(TEXTS, length)
    field = source.ready(BPE())
    size = len(pickle.dumps(field))
    assert len(source) == len(pieces) and rows(field) == pieces == rows(pickle.loads(pickle.dumps(field)))
    assert rows(field.take([2, 1])) == rows(source.take([2, 1]).ready(BPE())) == [pieces[2], pieces[1]]
    assert len(pickle.dumps(field)) == size  # a worker maps the files by itself
    train, val = (part.ready(BPE()) for part in source.parted(0.2))
    assert rows(train) + rows(val) == pieces and len(val) == round(0.2 * len(pieces))
    with pytest.raises(ValueError, match="made by BPE of 260 tokens, and the tokenizer of the task is BPE of 2,048"):
        source.ready(BPE("docs-2048"))


def test_training_reads_the_same_batches_from_both(tmp_path):
    for split, count in {"train": 30, "val": 9}.items():
        records = "".join(json.dumps({"text": document(i)}) + "\n" for i in range(count))
        (tmp_path / "text").mkdir(exist_ok=True)
        (tmp_path / "text" / f"{split}.jsonl").write_text(records, encoding="utf-8")
    tokenize(Corpus(found([str(tmp_path / "text")])), BPE(), tmp_path / "shards", shard=50)
    padding = []
    for bucket in (0, 2):
        plain, sharded = (
            Text(str(tmp_path / name), 12, tokenizer=BPE(), batch_size=4, documents="apart", bucket=bucket)
            for name in ("text", "shards")
        )
        for loader in ("train_dataloader", "val_dataloader"):
            batches = list(zip(getattr(plain, loader)(), getattr(sharded, loader)(), strict=True))
            for a, b in batches:
                assert torch.equal(a.input.value, b.input.value) and torch.equal(a.input.real, b.input.real)
                assert torch.equal(a.key, b.key)
            padding.append(sum(int((~a.input.real).sum()) for a, _ in batches))
    (train, val), (sorted_train, same) = padding[:2], padding[2:]
    assert 0 < sorted_train < train and val == same  # batches of similar length have less


def test_what_is_held_out(jsonl, tmp_path):
    data = Text(str(jsonl), 10, tokenizer=BPE(), val=0.25, documents="apart")
    joined = Text(str(jsonl), 10, tokenizer=BPE(), val=0.25)
    for split in ("train", "val"):
        texts = data.source.splits[split].input.values
        assert texts == joined.source.splits[split].input.values
        batches = getattr(data, f"{split}_dataloader")()
        seen = [row[real].tolist() for batch in batches for row, real in zip(batch.input.value, batch.input.real)]
        assert sorted(seen) == sorted(by_hand(texts, 10))
    index = tokenize(Corpus(found([str(jsonl)])), BPE(), tmp_path / "out")
    held = Text(str(index.folder), 10, tokenizer=BPE(), val=0.25, documents="apart").source.splits
    assert len(held["val"].input) == round(0.25 * len(by_hand(TEXTS, 10)))
    whole = Text(str(index.folder), 10, tokenizer=BPE(), val=0, documents="apart")
    assert whole.val_dataloader() == [] and len(whole.source.splits["train"].input) == len(by_hand(TEXTS, 10))


@pytest.mark.parametrize("name", ["causal", "masked"])
def test_a_batch_is_learned_as_its_pieces_alone(name, monkeypatch):
    torch.manual_seed(0)
    task = CausalLM(backbone(Causal()), BPE()) if name == "causal" else MaskedLM(backbone(), BPE())
    data = Text(length=64, batch_size=8, val=0, documents="apart", tokenizer=BPE())
    monkeypatch.setattr("zoo.data.text.topics", lambda: TEXTS)
    batch = next(iter(data.train_dataloader()))
    entered, enter = [], Layout.enter
    monkeypatch.setattr(Layout, "enter", lambda self, x, ctx: entered.append(self) or enter(self, x, ctx))
    monkeypatch.setattr(packing, "LEAST", 0.0)
    loss, count = task.step(batch, training=True)["loss"]
    assert len(entered) == 1
    hidden = task.hide(batch) if name == "masked" else None
    alone = []
    for i, (row, real) in enumerate(zip(batch.input.value, batch.input.real, strict=True)):
        one = Batch(Tokens(row[None, real]), key=batch.key[i : i + 1])
        if hidden is not None:  # the same tokens, which may depend on the width of the batch
            monkeypatch.setattr(MaskedLM, "hide", lambda self, batch, own=hidden[i, real]: own[None])
        alone.append(task.step(one, training=True)["loss"])
    assert int(count) == sum(int(own) for _, own in alone) and len(entered) == 1
    assert torch.allclose(loss, sum(own for own, _ in alone), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": "together"}, "documents='together' is none of joined, apart"),
        ({"documents": "apart", "length": 1}, "length=1: a piece of a document has at least 2 ids"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Text(**options)


def test_too_little_text_and_damaged_offsets_are_told(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a"}) + "\n" + json.dumps({"text": "b"}) + "\n")
    letters = Characters("ab")  # which end no text, so that each is one id
    data = Text(str(path), tokenizer=letters, val=0, documents="apart")
    with pytest.raises(ValueError, match="none of 2 documents has 2 ids: give more text, or another val"):
        data.train_dataloader()
    index = tokenize(Corpus(found([str(path)])), letters, tmp_path / "out")
    with pytest.raises(ValueError, match="out: train has too few pieces of 2 ids or more"):
        shard_pieces(index, "train", 8)
    for places in ([1, 0], [0, 3], [1, 1], [0, -1]):
        np.array(places, OFFSET).tofile(index.offsets("train", 0))
        with pytest.raises(ValueError, match="train-00000.idx: it or one that follows is damaged; copy it again"):
            shard_pieces(index, "train", 8)
