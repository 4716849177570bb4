"""Touch tones, every form of labelled sound, and what is wrong with some."""

import json
import sys
import wave

import numpy as np
import pytest
import torch

from zoo.data import Audio, goertzel
from zoo.data.recording import read_audio
from zoo.data.tones import KEYS, tones
from zoo.tokenizers import Frames


def record(path, seconds=0.1, rate=8000, channels=1, width=2, value=0.5):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels), file.setsampwidth(width), file.setframerate(rate)
        one = (
            int(128 + 127 * value).to_bytes(1)
            if width == 1
            else int(value * 2 ** (8 * width - 1)).to_bytes(width, "little")
        )
        file.writeframes(one * int(seconds * rate) * channels)
    return path


def test_tones_carry_what_they_say():
    for clips in (tones()["test"], tones(fewest=1, most=1)["val"]):
        read = [goertzel(*clips.raw([i])[0]) == clips.keys(i) for i in range(25)]
        assert sum(read) >= 24
    assert goertzel(torch.zeros(10), 8000) == goertzel(torch.rand(4000) - 0.5, 8000) == ""


def test_tones_are_a_pure_function():
    clips = tones()["train"]
    assert torch.equal(clips.raw([5])[0].samples, tones()["train"].take([3, 5]).raw([1])[0].samples)
    assert clips.keys(5) != tones()["test"].keys(5) and clips.keys(5) != tones(1)["train"].keys(5)
    lengths = {len(clips.keys(i)) for i in range(60)}
    assert lengths == {3, 4, 5, 6, 7}


def test_embedded_keys():
    data = Audio(tokenizer=Frames(), batch_size=4)
    assert data.classes == list(KEYS) and [len(data.source.splits[s].input) for s in ("train", "val", "test")] == [
        2000,
        200,
        200,
    ]
    split = data.source.splits["test"]
    assert [KEYS[label] for label in split.label[:9]] == [split.input.keys(i) for i in range(9)]
    batch = next(iter(data.val_dataloader()))
    assert batch.input.value.shape[::2] == (4, 80) and batch.label.shape == (4,)
    assert Audio("tones").classes == []


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_pcm_needs_no_package(tmp_path, monkeypatch, width):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    sound = read_audio(record(tmp_path / "a.wav", channels=2, width=width))
    assert (
        sound.rate == 8000
        and sound.samples.shape == (800,)
        and torch.allclose(sound.samples, torch.tensor(0.5), atol=0.01)
    )
    assert torch.allclose(
        read_audio(record(tmp_path / "b.wav", width=max(width, 2), value=0.25)).samples, torch.tensor(0.25)
    )


def test_flac_through_soundfile(tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", np.full((500, 2), [0.25, 0.75]), 16000)
    sound = read_audio(tmp_path / "a.flac")
    assert sound.rate == 16000 and torch.allclose(sound.samples, torch.full((500,), 0.5), atol=1e-3)
    (tmp_path / "b.flac").write_bytes((tmp_path / "a.flac").read_bytes()[:-30])
    with pytest.raises(ValueError, match="b.flac: "):
        read_audio(tmp_path / "b.flac")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ValueError, match=r"a.flac: only PCM in .wav is read without soundfile: pip install"):
        read_audio(tmp_path / "a.flac")


def test_bad_recordings_are_named(tmp_path):
    torn = record(tmp_path / "torn.wav")
    torn.write_bytes(torn.read_bytes()[:500])
    with pytest.raises(ValueError, match="torn.wav: holds 228 of the 800 samples"):
        read_audio(torn)
    (tmp_path / "text.wav").write_text("not sound")
    with pytest.raises(ValueError, match="text.wav: not a whole recording"):
        read_audio(tmp_path / "text.wav")
    with pytest.raises(ValueError, match="long.wav: .* more than an hour"):
        read_audio(record(tmp_path / "long.wav", seconds=3700, rate=10, width=1))
    huge = record(tmp_path / "huge.wav")
    data = bytearray(huge.read_bytes())
    data[40:44] = (2**32 - 2).to_bytes(4, "little")
    huge.write_bytes(data)
    with pytest.raises(ValueError, match="huge.wav: "):
        read_audio(huge)
    with pytest.raises(ValueError, match="empty.wav: holds 0 of the 0"):
        read_audio(record(tmp_path / "empty.wav", seconds=0))
    with pytest.raises(FileNotFoundError, match="gone.wav: no such recording"):
        read_audio(tmp_path / "gone.wav")


def test_folders_and_manifests(tmp_path):
    for split, count in {"train": 4, "test": 1}.items():
        for kind in ("no", "yes"):
            for i in range(count):
                record(tmp_path / "x" / split / kind / f"{i}.wav", value=0.1 * i)
    data = Audio(str(tmp_path / "x"), tokenizer=Frames(), val=0.25, batch_size=3)
    assert data.classes == ["no", "yes"]
    assert [len(data.source.splits[split].input) for split in ("train", "val", "test")] == [6, 2, 2]
    assert next(iter(data.train_dataloader())).input.value.shape[0] == 3
    rows = [{"audio": "train/no/1.wav", "text": "zero"}]
    (tmp_path / "x" / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match="manifest.jsonl, line 1: no key 'label'; it has 'audio', 'text'"):
        _ = Audio(str(tmp_path / "x")).classes
    assert next(
        iter(Audio(str(tmp_path / "x"), label="text", tokenizer=Frames()).train_dataloader())
    ).label.tolist() == [0]


def test_missing():
    with pytest.raises(FileNotFoundError, match="no/where: no such file or folder; expected a folder of class folders"):
        _ = Audio("no/where").classes


def test_speech_commands_through_torchaudio(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    folder = tmp_path / "SPEECHCOMMANDS" / "SpeechCommands" / "speech_commands_v0.02"
    for kind in ("no", "yes"):
        for i in range(3):
            record(folder / kind / f"a{i}_nohash_0.wav", rate=16000)
    (folder / "validation_list.txt").write_text("no/a1_nohash_0.wav\n")
    (folder / "testing_list.txt").write_text("yes/a2_nohash_0.wav\n")
    data = Audio("SPEECHCOMMANDS", tokenizer=Frames(), batch_size=9)
    assert data.classes == ["no", "yes"]
    assert [len(data.source.splits[split].input) for split in ("train", "val", "test")] == [4, 1, 1]
    assert sorted(next(iter(data.train_dataloader())).label.tolist()) == [0, 0, 1, 1]
