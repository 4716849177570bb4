"""A stream gives every document once a pass, to any number of readers, and goes on from any block."""

import json
import os
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
import torch

import zoo
from zoo.data import Stream
from zoo.data.corpus import Corpus, found
from zoo.data.reader import Place, Reader
from zoo.tokenizers import BPE

COUNT = 37
TEXTS = [f"document {i} " + "x" * (i * 5 % 23) for i in range(COUNT)]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, part in {"a": TEXTS[:20], "b": TEXTS[20:]}.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


def documents(rows) -> list[str]:
    """The whole documents in blocks that follow each other, without the last, which may go on."""
    ids = torch.cat([torch.zeros(0, dtype=torch.long), *(row.flatten() for row in rows)])
    ends = (ids == BPE().special("eos")).nonzero().flatten().tolist()
    return [BPE().decode(ids[start:end]) for start, end in zip([0, *(end + 1 for end in ends)], ends)]


def stream(root, **options):
    return Stream(str(root), **{"length": 16, "tokenizer": BPE(), "batch_size": 4, "steps": 5, "held": 0, **options})


@pytest.mark.parametrize("of", [1, 3])
@pytest.mark.parametrize("window", [1, 5, 1000])
def test_every_document_once_a_pass(root, of, window):
    seen = Counter()
    for which in range(of):
        reader = Reader(Corpus(found([str(root)])).pieces, BPE(), 16, 3, window, which, of)
        own = TEXTS[which::of]
        rows, taken = reader.batches(2, Place()), []
        while len(documents(taken)) < 3 * len(own):
            taken.append(next(rows)[0])
        read = documents(taken)
        for number in range(3):
            part = read[number * len(own) : (number + 1) * len(own)]
            assert sorted(part) == sorted(own)
            assert (part == own) == (window == 1)
            seen.update(part)
        assert window == 1 or read[: len(own)] != read[len(own) : 2 * len(own)]
    assert seen == dict.fromkeys(TEXTS, 3)


def test_a_reader_goes_on_from_every_place(root):
    reader = Reader(Corpus(found([str(root)])).pieces, BPE(), 7, 3, 10, 1, 2)
    batches = [batch for batch, _ in zip(reader.batches(3, Place()), range(40))]
    assert batches[-1][2].epoch == 1
    for number in range(0, 39, 3):
        again = reader.batches(3, batches[number][2])
        for ids, key, place in batches[number + 1 : number + 4]:
            other = next(again)
            assert torch.equal(other[0], ids) and torch.equal(other[1], key) and other[2] == place


def values(batches):
    return [(batch.input.value.tolist(), batch.key.tolist()) for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_go_on_and_are_resumed(root, workers):
    def loader():
        return stream(root, workers=workers).train_dataloader()

    whole = loader()
    epochs = []
    for epoch in range(3):
        whole.sampler.set_epoch(epoch)
        epochs.append(values(whole))
    assert [len(epoch) for epoch in epochs] == [5, 5, 5] and len(whole) == 5
    assert len({key for epoch in epochs for _, keys in epoch for key in keys}) == 60
    part = loader()
    assert values(part) == epochs[0]
    part.sampler.set_epoch(1)
    taken = [batch for _, batch in zip(range(3), part)]
    assert values(taken) == epochs[1][:3]
    state = json.loads(json.dumps(part.state_dict()))
    resumed = loader()
    resumed.load_state_dict(state)
    iterator = iter(resumed)
    resumed.sampler.set_epoch(1)
    assert values(iterator) == epochs[1][3:]
    resumed.sampler.set_epoch(2)
    assert values(resumed) == epochs[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_was_broken_off_loses_nothing(root, workers):
    loader = stream(root, workers=workers, steps=20).train_dataloader()
    taken = {0: [], 1: []}
    for epoch, count in enumerate((3, 5, 2, 20, 20)):
        loader.sampler.set_epoch(epoch)
        for _, batch in zip(range(count), loader):
            taken[batch.reader].append(batch.input.value)
    for reader in range(max(1, workers)):
        own = TEXTS[reader :: max(1, workers)]
        read = documents(taken[reader])
        assert sorted(read[: len(own)]) == sorted(own) == sorted(read[len(own) : 2 * len(own)])


def test_readers_are_counted_and_documents_held_out(root):
    module = stream(root, held=5)
    assert len(module.val_dataloader().dataset) > 0
    held = documents([batch.input.value for batch in module.val_dataloader()])
    assert held == TEXTS[: len(held)] and held
    train = documents([batch.input.value for batch in stream(root, held=5, steps=30).train_dataloader()])
    assert set(train) == set(TEXTS[5:])
    assert module.sample("train", 3).input.value.shape == (3, 16)
    state = stream(root).train_dataloader().state_dict()
    with pytest.raises(
        ValueError, match="was read by 1 processes and workers, and now there are 2: go on with as many"
    ):
        stream(root, workers=2).train_dataloader().load_state_dict(state)
    with pytest.raises(ValueError, match=r"fewer documents to train on than processes and workers that read \(1\)"):
        stream(root, held=COUNT).train_dataloader()
    with pytest.raises(ValueError, match="steps=0"):
        stream(root, steps=0)
    assert stream(root, held=0).val_dataloader() == []


def test_hugging_face_streams(monkeypatch):
    class Rows:
        """What ``datasets`` gives: it can be read again."""

        def __init__(self, texts):
            self.texts = texts

        def __iter__(self):
            return iter({"text": text} for text in self.texts)

    asked = []
    rows = {"train": Rows(TEXTS), "validation": Rows(TEXTS[:9])}
    fake = types.SimpleNamespace(load_dataset=lambda *name, **options: asked.append((name, options)) or rows)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    module = stream("hf:wiki:de", steps=60)
    seen = documents([batch.input.value for batch in module.train_dataloader()])
    assert sorted(seen[:COUNT]) == sorted(TEXTS) == sorted(seen[COUNT : 2 * COUNT])
    assert documents([batch.input.value for batch in module.val_dataloader()]) == TEXTS[:8]
    assert asked == [(("wiki", "de"), {"streaming": True})]


SCRIPT = """
import sys
import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from zoo.data import Stream
from zoo.tokenizers import BPE

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.tokenizer, self.weight, self.seen = BPE(), torch.nn.Parameter(torch.zeros(())), []
    def training_step(self, batch, index):
        self.seen.append((self.current_epoch, batch.reader, batch.input.value, batch.key))
        return self.weight * batch.input.value.float().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)
    def on_train_end(self):
        torch.save(self.seen, f"{name}-{self.global_rank}.pt")

if __name__ == "__main__":
    root, name, steps, checkpoint = sys.argv[1:]
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_steps=int(steps), logger=False, barebones=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
        callbacks=[ModelCheckpoint(dirpath="kept", filename="{step}", every_n_train_steps=7, save_top_k=-1)],
    )
    data = Stream(root, length=16, batch_size=2, steps=9, held=0, window=8, workers=2, seed=3)
    trainer.fit(Module(), data, ckpt_path=checkpoint or None, weights_only=True)
"""


def test_two_processes_with_two_workers_each_read_all_and_end_together(root, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(Path(zoo.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    for words in (("whole", "27", ""), ("again", "27", "kept/step=14.ckpt")):
        command = [sys.executable, "script.py", str(root), *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    whole, again = ([torch.load(tmp_path / f"{name}-{rank}.pt") for rank in (0, 1)] for name in ("whole", "again"))
    assert [len(rank) for rank in whole] == [27, 27] and [len(rank) for rank in again] == [13, 13]
    for one, two in zip(whole, again):
        for a, b in zip(one[14:], two):
            assert a[:2] == b[:2] and torch.equal(a[2], b[2]) and torch.equal(a[3], b[3])
    for rank in (0, 1):
        for reader in (0, 1):
            own = TEXTS[rank * 2 + reader :: 4]
            read = documents([rows for _, number, rows, _ in whole[rank] if number == reader])
            assert len(read) > len(own)
            for start in range(0, len(read), len(own)):
                part = read[start : start + len(own)]
                assert sorted(part) == sorted(own) or (start + len(own) > len(read) and len(set(part)) == len(part))
