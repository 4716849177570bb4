"""Every form of pairs, and what is wrong with some."""

import gzip
import json
import wave

import pytest
from PIL import Image

from zoo.data import Pairs
from zoo.data.tones import tones, transcript
from zoo.tokenizers import BPE, Frames, Patches

TEXT = BPE()


def texts(loader, side):
    return [
        TEXT.decode(row[real])
        for batch in loader
        for row, real in zip(getattr(batch, side).value, getattr(batch, side).real)
    ]


def test_embedded_docstrings():
    splits = Pairs().source.splits
    assert sum(len(samples.input) for samples in splits.values()) > 3000
    assert 0.05 < len(splits["val"].input) / len(splits["train"].input) < 0.2
    sources = [text for samples in splits.values() for text in samples.input.values]
    assert len(set(sources)) == len(sources)
    assert all(4 <= len(text.split()) <= 30 for text in splits["test"].target.values)
    names = [{text.split("(")[0] for text in splits[split].input.values} for split in ("train", "val", "test")]
    assert not names[0] & names[1] and not names[0] & names[2] and not names[1] & names[2]


def test_embedded_digits_both_ways():
    image = Patches(8, 2, 1)
    there = Pairs("digits", tokenizer=image, target_tokenizer=TEXT, batch_size=500)
    back = Pairs("digits", "text", "image", tokenizer=TEXT, target_tokenizer=image, batch_size=500)
    assert texts(there.val_dataloader(), "target") == texts(back.val_dataloader(), "input")
    batch = next(iter(back.val_dataloader()))
    assert batch.target.value.shape == (90, 16, 4) and batch.label is None


def test_embedded_tones():
    data = Pairs("tones", tokenizer=Frames(), target_tokenizer=TEXT, batch_size=4)
    batch = next(iter(data.val_dataloader()))
    assert texts([batch], "target") == [transcript(tones()["val"].keys(i)) for i in range(4)]
    assert batch.input.value.dim() == 3


def parallel(folder, **files):
    for name, found in files.items():
        (folder / name.replace("__", ".")).write_text("".join(f"{line}\n" for line in found), encoding="utf-8")


def test_parallel_text(tmp_path):
    parallel(
        tmp_path,
        train__en=["a\u2028b", "c d"],
        train__de=["A", "C"],
        train__lc__en=["no"],
        val__en=["v"],
        val__de=["V"],
    )
    parallel(tmp_path, test_2__en=["no"], test_2__de=["NO"], test_1__en=["t"], test_1__de=["T"])
    data = Pairs(str(tmp_path), "en", "de", tokenizer=TEXT, target_tokenizer=TEXT)
    assert sorted(texts(data.train_dataloader(), "input")) == ["a\u2028b", "c d"]
    assert texts(data.val_dataloader(), "target") == ["V"] and texts(data.test_dataloader(), "input") == ["t"]
    (tmp_path / "train.fr.gz").write_bytes(gzip.compress(b"x\ny\n"))
    assert Pairs(str(tmp_path / "."), "de", "en").source.splits["train"].input.values == ["A", "C"]
    with pytest.raises(FileNotFoundError, match="val.fr: no such file; expected beside val.en"):
        _ = Pairs(str(tmp_path), "en", "fr").source
    with pytest.raises(ValueError, match="give source and target"):
        _ = Pairs(str(tmp_path)).source
    with pytest.raises(FileNotFoundError, match="train.xx: no such file"):
        _ = Pairs(str(tmp_path), "xx", "en").source
    parallel(tmp_path, train__de=["A"])
    with pytest.raises(ValueError, match="train.en: has 2 lines, but train.de has 1"):
        _ = Pairs(str(tmp_path), "en", "de").source


def test_manifest_fields_follow_the_tokenizers(tmp_path):
    Image.new("L", (8, 8), 255).save(tmp_path / "a.png")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
        file.writeframes(b"\1\1" * 800)
    rows = [{"audio": "a.wav", "image": "a.png", "text": f"row {i}", "number": i} for i in range(4)]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    image, root = Patches(8, 2, 1), str(tmp_path)
    data = Pairs(root, "image", "text", 0, tokenizer=image, target_tokenizer=TEXT)
    batch = next(iter(data.train_dataloader()))
    assert batch.input.value.eq(1).all() and sorted(texts([batch], "target")) == [f"row {i}" for i in range(4)]
    batch = next(iter(Pairs(root, target="text", val=0, tokenizer=Frames(), target_tokenizer=TEXT).train_dataloader()))
    assert batch.input.value.shape[0] == 4  # the first other field is the source
    with pytest.raises(ValueError, match="no field 'sound'; it has audio, image, text, number"):
        _ = Pairs(root, "sound", "text").source
    with pytest.raises(ValueError, match="line 1: 'number' is 0, not a str"):
        _ = Pairs(root, "number", "text").source
    with pytest.raises(ValueError, match="no target_tokenizer: give it one"):
        Pairs(root, "image", "text", tokenizer=image).train_dataloader()


def test_missing():
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder; expected a folder of parallel files"):
        _ = Pairs("nowhere").source
    with pytest.raises(ValueError, match="digits: no field 'sound'; it has image, text"):
        _ = Pairs("digits", "sound").source
