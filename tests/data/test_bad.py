"""Items that cannot be read: the run stops with their name, or goes on without them, as exactly as any other."""

import json
import warnings
import wave
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from PIL import Image

import zoo.data.picture
from zoo.callbacks import Skipped
from zoo.data import Audio, Images, Pairs, Text
from zoo.tokenizers import BPE, Frames, Patches

COUNT, BAD = 12, (1, 5, 6, 7)  # images, of which so many are damaged


@pytest.fixture
def folder(tmp_path):
    """Grey images, whose shade is their number, in two classes."""
    for i in range(COUNT):
        path = tmp_path / "images" / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), i).save(path)
        if i in BAD:
            path.write_bytes(path.read_bytes()[:-20])
    return tmp_path / "images"


def images(folder, **options):
    return Images(str(folder), **{"tokenizer": Patches(8, 4, 1), "val": 0.0, "batch_size": 3, "seed": 2, **options})


@pytest.fixture(params=["at once", "one by one"])
def way(request, monkeypatch):
    """Images are decoded all at once, or when they are needed."""
    if request.param == "one by one":
        monkeypatch.setattr(zoo.data.picture, "MEMORY", 0)
    return request.param


def shades(batch):
    return ((batch.input.value[:, 0, 0] / 2 + 0.5) * 255).round().int().tolist()


def test_a_damaged_image_stops_the_run_with_its_name(folder, way):
    with pytest.raises(ValueError, match=r"images/[ab]/\d\d.png: not a whole image that can be read") as caught:
        list(images(folder, on_bad="raise", batch_size=12).train_dataloader())
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="on_bad='ignore' is none of raise, skip"):
        images(folder, on_bad="ignore")


@pytest.mark.parametrize("workers", [0, 2])
def test_or_is_left_out_of_its_batch_and_listed(folder, way, workers):
    clean = folder.parent / "clean"
    for path in sorted(folder.rglob("*.png")):
        (clean / path.parent.name).mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), int(path.stem)).save(clean / path.parent.name / path.name)
    data = images(folder, on_bad="skip", workers=workers)
    whole = [(batch.key.tolist(), shades(batch)) for batch in images(clean).train_dataloader()]
    found = [(batch.key.tolist(), shades(batch)) for batch in data.train_dataloader()]
    for (keys, all_shades), (kept, own_shades) in zip(whole, found, strict=True):
        good = [(key, shade) for key, shade in zip(keys, all_shades) if shade not in BAD]
        assert good == list(zip(kept, own_shades))
    assert sorted(line.split(":")[0][-6:-4] for line in data.skipped) == ["01", "05", "06", "07"]
    assert all("\n" not in line for line in data.skipped)


def test_a_batch_with_nothing_left_is_refilled_in_training_and_passed_over_in_evaluation(folder, way):
    data = images(folder, on_bad="skip", batch_size=1)
    batches = [shades(batch) for batch in data.train_dataloader()]
    assert len(batches) == COUNT and not {shade for batch in batches for shade in batch} & set(BAD)
    split = folder.parent / "split"
    for name in ("train", "test"):
        (split / name).mkdir(parents=True)
        for kind in "ab":
            (split / name / kind).symlink_to(folder / kind)
    data = images(split, on_bad="skip", batch_size=1)
    tested = [shade for batch in data.test_dataloader() for shade in shades(batch)]
    assert sorted(tested) == [i for i in range(COUNT) if i not in BAD] and len(data.skipped) == len(BAD)
    assert len(data.sample("test", COUNT)) == COUNT - len(BAD) and len(data.sample("test", 1)) == 1


def test_nothing_that_can_be_read_is_an_error(folder, way):
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"no sample can be read; the first: .*png: "):
        list(images(folder, on_bad="skip").train_dataloader())


class Model(pl.LightningModule):
    """A mean, so that each sample counts."""

    def __init__(self):
        super().__init__()
        self.tokenizer, self.weight, self.losses = Patches(8, 4, 1), torch.nn.Parameter(torch.zeros(())), []

    def training_step(self, batch, step):
        loss = (batch.input.value.mean() - self.weight).square()
        self.losses.append(loss.item().hex())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class SaveAt(pl.Callback):
    def __init__(self, step, path):
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, task, outputs, batch, step):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def fit(model, data, folder, *callbacks, ckpt=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.Trainer(
            default_root_dir=folder, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, callbacks=list(callbacks), **options,
        ).fit(model, data, ckpt_path=ckpt, weights_only=True if ckpt else None)  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_with_damaged_images_has_the_same_losses(folder, way, tmp_path, capsys, workers):
    def data():
        return images(folder, tokenizer=None, on_bad="skip", workers=workers)

    path, whole = tmp_path / "part.ckpt", Model()
    fit(whole, data(), tmp_path / "whole", Skipped(), max_epochs=3)
    assert len(whole.losses) == COUNT and "left out, since they cannot be read: 4 items" in capsys.readouterr().out
    listed = sorted((tmp_path / "whole" / "skipped.txt").read_text().splitlines())
    assert [line.split(":")[0][-6:-4] for line in listed] == ["06", "01", "05", "07"]
    for step in (2, 4, 5) if workers == 0 else (5,):
        part, resumed, again = Model(), Model(), data()
        fit(part, data(), tmp_path, SaveAt(step, path), max_steps=step)
        fit(resumed, again, tmp_path, Skipped(), ckpt=str(path), max_epochs=3)
        assert part.losses + resumed.losses == whole.losses, step
        assert sorted(again.skipped) == listed


def record(path: Path, data: bytes, **header) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, header.get("rate", 8000), 0, "NONE", ""))
        file.writeframes(data)
    return path


def test_sound_is_left_out_likewise(tmp_path):
    for i in range(4):
        (tmp_path / "a").mkdir(exist_ok=True)
        record(tmp_path / "a" / f"{i}.wav", np.full(800, i * 1000, "<i2").tobytes())
    torn = tmp_path / "a" / "2.wav"
    torn.write_bytes(torn.read_bytes()[:-100])
    options = {"tokenizer": Frames(), "val": 0.0, "batch_size": 4}
    with pytest.raises(ValueError, match="2.wav: holds 750 of the 800 samples"):
        list(Audio(str(tmp_path), **options).train_dataloader())
    data = Audio(str(tmp_path), **options, on_bad="skip")
    assert [len(batch) for batch in data.train_dataloader()] == [3] == [len(b) for b in data.train_dataloader()]
    assert len(data.skipped) == 1 and data.skipped[0].startswith(str(torn))


RECORDS = [
    b'{"text": "good", "label": "a"}', b"{no json", b'{"text": "caf\xe9", "label": "a"}', b"[]", b"",
    b'{"label": "a"}', b'{"text": 5, "label": "a"}', b'{"text": "x", "label": NaN}', b'{"text": "x", "label": []}',
    b'{"text": "x", "label": 1e99}', b'{"text": "x", "label": -1}', b'{"text": "x", "label": 1' + b"0" * 5000 + b"}",
    b'{"text": "\\ud800", "label": "a"}', b'{"text": "deep", "label": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    b'{"text": "also", "label": "b"}',
]  # fmt: skip


def test_lines_that_are_no_records_are_told_by_their_number(tmp_path):
    path = tmp_path / "rows.jsonl"
    for number, line in enumerate(RECORDS, 1):
        if number in (1, 5, len(RECORDS)):
            continue
        path.write_bytes(b"\n".join([RECORDS[0], line, RECORDS[-1]]))
        with pytest.raises(ValueError, match=r"rows.jsonl, line 2: ") as caught:
            _ = Text(str(path), label="label").source
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    path.write_bytes(b"\n".join(RECORDS))
    data = Text(str(path), label="label", tokenizer=BPE(), val=0.0, on_bad="skip", batch_size=9)
    assert [len(batch) for batch in data.train_dataloader()] == [2] and data.classes == ["a", "b"]
    numbers = [int(line.split(", line ")[1].split(":")[0]) for line in data.skipped]
    assert sorted(numbers) == [n for n in range(2, len(RECORDS)) if n != 5]


def test_files_and_pairs_are_left_out_too(tmp_path):
    (tmp_path / "good.txt").write_text("a text that can be read " * 20)
    (tmp_path / "bad.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").touch()
    text = Text(str(tmp_path), 8, on_bad="skip")
    assert text.source.splits["train"].input.size > 0 and len(text.skipped) == 2
    (tmp_path / "train.en").write_bytes(b"one\n\xff\nthree\n")
    (tmp_path / "train.de").write_bytes(b"eins\nzwei\ndrei\n")
    with pytest.raises(ValueError, match="train.en, line 2: not UTF-8 text at byte 0 of the line"):
        _ = Pairs(str(tmp_path), "en", "de").source
    pairs = Pairs(str(tmp_path), "en", "de", val=0.0, on_bad="skip").source.splits["train"]
    assert pairs.input.values == ["one", "three"] and pairs.target.values == ["eins", "drei"]


def test_a_file_that_a_manifest_names_and_is_not_there(tmp_path):
    Image.new("L", (8, 8), 3).save(tmp_path / "0.png")
    rows = [{"image": "0.png", "label": 0}, {"image": "gone.png", "label": 0}, {"image": ".", "label": 0}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"rows.jsonl, line 2: 'image' is 'gone.png', and there is no such file"):
        _ = images(tmp_path / "rows.jsonl").source
    data = images(tmp_path / "rows.jsonl", on_bad="skip")
    assert [len(batch) for batch in data.train_dataloader()] == [1] and len(data.skipped) == 2
    assert data.fingerprint
