"""Text, as blocks of ids for language models or as labelled records: Python's help, files, manifests, Hugging Face."""

from collections.abc import Sequence
from pathlib import Path

from zoo.data.embedded import topics
from zoo.data.field import Documents, Samples, Source, Texts
from zoo.data.files import by_split, column, existing, label_ids, manifests, read_text, records
from zoo.data.module import DataModule
from zoo.tokenizers import Tokenizer

SUFFIXES = (".txt", ".txt.gz")


class Text(DataModule):
    """Text in blocks of ``length`` ids; or, with ``label``, one sample a record and its class.

    ``root``: None for Python's help topics; a .txt file (or .txt.gz), or a folder of them, which are one split each
    where they (or folders of them) are named train*, val* and test*; JSONL with the text at ``key``; "hf:NAME" or
    "hf:NAME:CONFIG" for a data set of the ``datasets`` package.  Without a validation split the last ``val`` of the
    text is held out; of labelled records, a random share.
    """

    def __init__(
        self,
        root: str | None = None,
        length: int = 256,
        key: str = "text",
        label: str | None = None,
        val: float = 0.1,
        tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
    ):
        super().__init__(tokenizer, None, batch_size, workers, seed, None, val)
        if length < 1:
            raise ValueError(f"length={length}: a block has at least 1 id")
        self.root, self.length, self.key, self.label = root, length, key, label

    def read(self) -> Source:
        if self.root and self.root.startswith("hf:"):
            return self._from_rows(self.root, hugging_face(self.root[3:]))
        path = self.root and existing(self.root, "a .txt file, a folder of .txt files, or JSONL")
        if path and (found := manifests(path)):
            rows = {split: [row for file in files for row in records(file)] for split, files in found.items()}
            return self._from_rows(self.root, rows)
        if self.label:
            raise ValueError(f"label={self.label!r}: {self.root or 'the embedded text'} has no records; give JSONL")
        return self._blocks(text_files(path) if path else {"train": topics()})

    def _from_rows(self, origin: str, rows: dict[str, list[dict]]) -> Source:
        texts = {split: column(origin, found, self.key, str) for split, found in rows.items()}
        if not self.label:
            return self._blocks(texts)
        classes, ids = label_ids(origin, {split: column(origin, found, self.label) for split, found in rows.items()})
        return Source({split: Samples(Texts(texts[split]), None, ids[split]) for split in texts}, classes)

    def _blocks(self, texts: dict[str, list[str]]) -> Source:
        if "val" not in texts and self.val:
            texts["train"], texts["val"] = cut(texts["train"], self.val)
        return Source({split: Samples(Documents(found, self.length)) for split, found in texts.items()}, [])


def cut(documents: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Documents before and after the point where the last ``share`` of all characters begins."""
    left = int((1 - share) * sum(map(len, documents)))
    before, after = [], []
    for text in documents:
        before += [text[:left]] if left else []
        after += [text[left:]] if left < len(text) else []
        left = max(0, left - len(text))
    return before, after


def text_files(path: Path) -> dict[str, list[str]]:
    """The documents of a file or folder by split.  ValueError where there is no text."""
    if path.is_file():
        return {"train": [_read(path)]}
    entries = [entry for entry in sorted(path.iterdir()) if entry.is_dir() or entry.name.endswith(SUFFIXES)]
    splits = {}
    for split, found in by_split(entries).items():
        files = [file for entry in found for file in ([entry] if entry.is_file() else sorted(entry.rglob("*.txt*")))]
        splits[split] = [_read(file) for file in files if file.name.endswith(SUFFIXES)]
        if not splits[split]:
            raise ValueError(f"{path}: no {' or '.join(SUFFIXES)} files for {split}")
    return splits


def _read(file: Path) -> str:
    text = read_text(file)
    if not text:
        raise ValueError(f"{file}: is empty")
    return text


def hugging_face(name: str) -> dict[str, list[dict]]:
    """Records by split of a data set of the ``datasets`` package: ``name`` is NAME or NAME:CONFIG."""
    try:
        import datasets
    except ImportError:
        raise ValueError(f"hf:{name}: needs the datasets package: pip install datasets") from None
    try:
        found = datasets.load_dataset(*name.split(":", 1))
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"hf:{name}: cannot be loaded ({reason})") from None
    names = {"train": "train", "validation": "val", "test": "test"}
    return {names[split]: rows.to_list() for split, rows in found.items() if split in names}
