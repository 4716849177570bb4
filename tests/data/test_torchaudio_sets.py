"""Small folders laid out as torchaudio's data sets are, decoded by our own reader; and sets that are not there."""

import wave
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchaudio

from zoo.data import Audio, Pairs
from zoo.tokenizers import BPE, Frames

TEXT = BPE()
SPLITS = ("train", "val", "test")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The cache; there is no network, and torchaudio decodes nothing."""

    def refuse(*_):
        raise URLError("no network")

    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "urlopen", refuse)
    monkeypatch.setattr(torchaudio, "load", None)
    return tmp_path


def record(path, samples=1600):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
        file.writeframes(b"\1\1" * samples)


def libri_speech(folder):
    soundfile = pytest.importorskip("soundfile")
    for split, count in {"train-clean-100": 3, "dev-clean": 2, "test-clean": 1}.items():
        chapter = folder / "LIBRISPEECH" / "LibriSpeech" / split / "84" / "121"
        chapter.mkdir(parents=True)
        for i in range(count):
            soundfile.write(chapter / f"84-121-{i:04}.flac", np.full(1600 + 400 * i, 0.25), 16000)
        said = "".join(f"84-121-{i:04} {split.upper()} SAYS {i}\n" for i in range(count))
        (chapter / "84-121.trans.txt").write_text(said)


def test_libri_speech_has_three_splits(here):
    libri_speech(here)
    data = Pairs("LIBRISPEECH", tokenizer=Frames(), target_tokenizer=TEXT, batch_size=4)
    assert [data.source.splits[split].target.values for split in SPLITS] == [
        ["TRAIN-CLEAN-100 SAYS 0", "TRAIN-CLEAN-100 SAYS 1", "TRAIN-CLEAN-100 SAYS 2"],
        ["DEV-CLEAN SAYS 0", "DEV-CLEAN SAYS 1"],
        ["TEST-CLEAN SAYS 0"],
    ]
    sounds = data.source.splits["train"].input.raw([0, 2])
    assert [(sound.rate, len(sound.samples)) for sound in sounds] == [(16000, 1600), (16000, 2400)]
    batch = next(iter(data.val_dataloader()))
    assert batch.input.value.shape[::2] == (2, 80) and batch.label is None
    assert TEXT.decode(batch.target.value[1][batch.target.real[1]]) == "DEV-CLEAN SAYS 1"


def test_libri_speech_the_way_back(here):
    libri_speech(here)
    data = Pairs("LIBRISPEECH", "text", tokenizer=TEXT, target_tokenizer=Frames())
    assert next(iter(data.test_dataloader())).target.value.shape[::2] == (1, 80)
    with pytest.raises(ValueError, match="LIBRISPEECH: no field 'words'; it has audio, text"):
        _ = Pairs("LIBRISPEECH", target="words").source


def test_lj_speech_reads_what_is_spoken(here):
    folder = here / "LJSPEECH" / "LJSpeech-1.1"
    for i in range(4):
        record(folder / "wavs" / f"LJ001-{i}.wav")
    rows = [f'LJ001-{i}|In 18{i}0, "so|In eighteen-{i}, "sö\n' for i in range(4)]
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    splits = Pairs("LJSPEECH", val=0.25).source.splits
    assert [len(splits[split].input) for split in SPLITS] == [3, 1, 1]
    for split in ("train", "val"):
        for file, text in zip(splits[split].input.files, splits[split].target.values):
            assert text == f'In eighteen-{file.stem[-1]}, "sö' and file.exists()


def test_yes_no_is_told_by_the_names(here):
    for name in ("0_1_1", "1_0_0"):
        record(here / "YESNO" / "waves_yesno" / f"{name}.wav")
    data = Pairs("YESNO", val=0, tokenizer=Frames(), target_tokenizer=TEXT)
    assert data.source.splits["train"].target.values == ["no yes yes", "yes no no"]
    assert next(iter(data.train_dataloader())).input.value.shape[0] == 2


@pytest.mark.parametrize(
    "kind, name", [(Audio, "SPEECHCOMMANDS"), (Pairs, "LIBRISPEECH"), (Pairs, "LJSPEECH"), (Pairs, "YESNO")]
)
def test_not_there_and_no_network(here, kind, name):
    with pytest.raises(ValueError) as caught:
        kind(name).prepare_data()
    assert str(caught.value) == f"{name}: cannot be downloaded to {here / name} (<urlopen error no network>)"
