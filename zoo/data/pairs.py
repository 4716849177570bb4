"""Pairs of a source and a target, each text, image or sound: translation, captions, transcripts, and the way back."""

import re
from collections.abc import Sequence
from pathlib import Path

from zoo.data.augment import Augment
from zoo.data.bad import BadItems, OnBad
from zoo.data.embedded import DIGITS, digits, docstrings
from zoo.data.field import Field, Samples, Source, Texts
from zoo.data.files import byte_lines, decoded, existing, manifests
from zoo.data.module import DataModule
from zoo.data.picture import Pictures
from zoo.data.recording import Recordings
from zoo.data.records import Rows, checked, no_text, records
from zoo.data.tones import tones, transcript
from zoo.data.torchaudio_sets import TRANSCRIBED, torchaudio_set
from zoo.tokenizers import Tokenizer

Table = dict[str, dict[str, Field]]  # split -> name of a field -> its values


class Pairs(DataModule):
    """Two fields of a data set, ``source`` and ``target``; those it names first where they are not given.

    ``root``: None or "docstrings" (fields source, target: a Python signature, the first sentence of its docstring);
    "digits" (image, text: an image of a digit, its English word); "tones" (audio, text: a telephone dials, the keys);
    a folder of parallel text files, train.en and train.de with source="en" and target="de", beside val* and test* (the
    first by name of several); a JSONL manifest, where a field is text, or a path beside the manifest if its tokenizer
    reads images or sound; or a data set that torchaudio downloads into the cache (audio, text): "LIBRISPEECH" (100
    hours of books read by 251 voices, with dev-clean and test-clean), "LJSPEECH" (24 hours, one voice) or "YESNO" (6
    minutes); the last two have no splits but those that ``val`` makes.
    """

    def __init__(
        self,
        root: str | None = None,
        source: str | None = None,
        target: str | None = None,
        val: float = 0.1,
        tokenizer: Tokenizer | None = None,
        target_tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
        augment: list[Augment] | Augment | None = None,
        on_bad: OnBad = "raise",
        bucket: int = 0,
    ):
        super().__init__(tokenizer, target_tokenizer, batch_size, workers, seed, augment, val, on_bad, bucket)
        self.root, self.source_field, self.target_field = root, source, target

    def read(self) -> Source:
        table, origin = self._table(), self.root or "docstrings"
        source, target = self._names(origin, list(table["train"]))
        return Source({split: Samples(fields[source], fields[target]) for split, fields in table.items()}, [])

    def _table(self) -> Table:
        if self.root in EMBEDDED:
            return EMBEDDED[self.root]()
        if self.root in TRANSCRIBED:
            found = torchaudio_set(self.root)
            return {split: {"audio": Recordings(files), "text": Texts(said)} for split, (files, said) in found.items()}
        known = ", ".join(["docstrings", "digits", "tones", *TRANSCRIBED])
        path = existing(self.root, f"a folder of parallel files, a JSONL manifest, or one of {known}")
        if found := manifests(path):
            rows = {file: records(file, self.bad) for files in found.values() for file in files}
            names = self._names(str(path), list(next(iter(rows[found["train"][0]].values()))))
            return {
                split: strings({file: rows[file] for file in files}, names, self.bad) for split, files in found.items()
            }
        if path.is_file():
            raise ValueError(f"{path}: is neither a JSONL manifest nor a folder of parallel files")
        if not (self.source_field and self.target_field):
            raise ValueError(f"{path}: give source and target, the endings of parallel files such as en and de")
        return parallel(path, self.source_field, self.target_field, self.bad)

    def _names(self, origin: str, names: list[str]) -> tuple[str, str]:
        """The fields that are read, of those there are."""
        for name in (self.source_field, self.target_field):
            if name and name not in names:
                raise ValueError(f"{origin}: no field {name!r}; it has {', '.join(names)}")
        source = self.source_field or next((name for name in names if name != self.target_field), None)
        target = self.target_field or next((name for name in names if name != source), None)
        if not (source and target):
            raise ValueError(f"{origin}: a pair needs two fields; it has only {', '.join(names)}")
        return source, target


class Strings(Field):
    """Text, or paths of images or recordings: the tokenizer's modality tells."""

    def __init__(self, values: list[str], folder: Path):
        self.values, self.folder = values, folder

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: list[int]) -> Field:
        return Strings([self.values[i] for i in index], self.folder)

    def ready(self, tokenizer: Tokenizer) -> Field:
        if tokenizer.modality == "text":
            return Texts(self.values).ready(tokenizer)
        kind = {"image": Pictures, "audio": Recordings}[tokenizer.modality]
        return kind([self.folder / value for value in self.values]).ready(tokenizer)

    @property
    def size(self) -> int:
        return sum(map(len, self.values))


def strings(manifests: dict[Path, Rows], names: Sequence[str], bad: BadItems) -> dict[str, Field]:
    """What the records of manifests in one folder have at the keys ``names``."""
    wanted, (first, *_) = dict.fromkeys(names, no_text), manifests
    found = [row for file, rows in manifests.items() for row in checked(file, rows, wanted, bad)]
    return {name: Strings([row[name] for row in found], first.parent) for name in names}


def parallel(folder: Path, source: str, target: str, bad: BadItems) -> Table:
    """Files <split>*.<source> and <split>*.<target>, also compressed (.gz), with a sample a line."""
    table: Table = {}
    for split, prefixes in {"train": ("train",), "val": ("val", "dev"), "test": ("test",)}.items():
        pattern = re.compile(rf"({'|'.join(prefixes)})[^.]*\.{re.escape(source)}(\.gz)?")
        file = next((path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name)), None)
        if file is None:
            continue
        stem = file.name[: file.name.index(".")]
        other = [folder / f"{stem}.{target}{ending}" for ending in ("", ".gz")]
        other = [path for path in other if path.exists()]
        if not other:
            raise FileNotFoundError(f"{folder / f'{stem}.{target}'}: no such file; expected beside {file.name}")
        left, right = list(byte_lines(file)), list(byte_lines(other[0]))
        if len(left) != len(right):
            raise ValueError(f"{file}: has {len(left)} lines, but {other[0].name} has {len(right)}")
        texts: list[tuple[str, str]] = []
        for number, (one, two) in enumerate(zip(left, right), 1):
            with bad.item():
                texts.append((decoded(file, number, one), decoded(other[0], number, two)))
        table[split] = {source: Texts([one for one, _ in texts]), target: Texts([two for _, two in texts])}
    if "train" not in table:
        raise FileNotFoundError(f"{folder / f'train.{source}'}: no such file; expected with train.{target} beside it")
    return table


def _docstrings() -> Table:
    return {
        split: {"source": Texts([s for s, _ in found]), "target": Texts([t for _, t in found])}
        for split, found in docstrings().items()
    }


def _digits() -> Table:
    return {
        split: {"image": Pictures(images), "text": Texts([DIGITS[label] for label in labels])}
        for split, (images, labels) in digits().items()
    }


def _tones() -> Table:
    return {
        split: {"audio": clips, "text": Texts([transcript(clips.keys(i)) for i in range(len(clips))])}
        for split, clips in tones().items()
    }


EMBEDDED = {None: _docstrings, "docstrings": _docstrings, "digits": _digits, "tones": _tones}
