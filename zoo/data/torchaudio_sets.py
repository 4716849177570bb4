"""Data sets that torchaudio downloads: their lists and transcripts are used, the recordings are read by ours."""

from __future__ import annotations

from pathlib import Path

import torchaudio.datasets
from torch.utils.data import Dataset

from zoo.data.archives import unpacked_safely
from zoo.data.bad import sentence
from zoo.data.files import cache, lines

TRANSCRIBED = ("LIBRISPEECH", "LJSPEECH", "YESNO")
LISTED = {  # name: the folder in its archive, the parameter that tells a split, what it is for each
    "LIBRISPEECH": ("LibriSpeech", "url", {"train": "train-clean-100", "val": "dev-clean", "test": "test-clean"}),
    "SPEECHCOMMANDS": ("SpeechCommands", "subset", {"train": "training", "val": "validation", "test": "testing"}),
}


def torchaudio_set(name: str) -> dict[str, tuple[list[Path], list[str]]]:
    """Split -> (files, what is said in each), of SPEECHCOMMANDS or one of ``TRANSCRIBED``, downloaded into the cache.

    The transcripts are those of the data set: LibriSpeech's in capitals, LJ Speech's with numbers and abbreviations
    written out.  Raises ValueError where it is not there and cannot be downloaded.
    """
    folder, splits = cache() / name, {}
    if name not in LISTED:
        _download(name, folder)
        return {"train": {"LJSPEECH": _lj_speech, "YESNO": _yes_no}[name](folder)}
    inside, parameter, choices = LISTED[name]
    for split, choice in choices.items():
        data = _download(name, folder, {parameter: choice})
        rows = [data.get_metadata(i) for i in range(len(data))]  # (path, rate, what is said, ...)
        splits[split] = [folder / inside / row[0] for row in rows], [row[2] for row in rows]
    return splits


def _download(name: str, folder: Path, choice: dict[str, str] | None = None) -> Dataset:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unpacked_safely(folder):
            return getattr(torchaudio.datasets, name)(str(folder), download=True, **(choice or {}))
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{name}: cannot be downloaded to {folder} ({sentence(error)})") from None


def _lj_speech(folder: Path) -> tuple[list[Path], list[str]]:
    """One woman reads seven books, 24 hours; a line of metadata.csv is name|text|text as it is spoken."""
    folder = folder / "LJSpeech-1.1"
    rows = [line.split("|") for line in lines(folder / "metadata.csv")]
    return [folder / "wavs" / f"{row[0]}.wav" for row in rows], [row[2] for row in rows]


def _yes_no(folder: Path) -> tuple[list[Path], list[str]]:
    """One person says yes or no eight times, in Hebrew, 60 times over; 1_0_0_0_1_1_0_0.wav tells which."""
    files = sorted((folder / "waves_yesno").glob("[01]_*.wav"))
    return files, [" ".join({"0": "no", "1": "yes"}[word] for word in file.stem.split("_")) for file in files]
