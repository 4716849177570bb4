"""Text, as blocks of ids for language models or as labelled records: Python's help, files, manifests, Hugging Face."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from zoo.data.apart import SHORTEST, Apart, shard_pieces
from zoo.data.bad import BadItems, OnBad
from zoo.data.corpus import hugging_face
from zoo.data.embedded import topics
from zoo.data.field import Documents, Samples, Source, Texts
from zoo.data.files import by_split, existing, manifests, read_text
from zoo.data.module import DataModule
from zoo.data.records import Rows, checked, label_ids, no_label, no_text, records
from zoo.data.sharded import ShardBlocks
from zoo.data.shards import Index, is_sharded, read_index
from zoo.tokenizers import Tokenizer

SUFFIXES = (".txt", ".txt.gz")
Meeting = Literal["joined", "apart"]


class Text(DataModule):
    """Text in samples of ``length`` ids; or, with ``label``, one sample a record and its class.

    ``documents``, without ``label``: "joined" puts them one behind the other and cuts blocks of ``length`` ids from
    that, so a token may see the document before its own; "apart" cuts each by itself into pieces of at most ``length``
    ids, whose positions begin at 0.  Batches are padded then, and a backbone packs them (see ``zoo.nn.packing``).
    Pieces of a single id are left out.

    ``root``: None for Python's help topics; a .txt file (or .txt.gz), or a folder of them, which are one split each
    where they (or folders of them) are named train*, val* and test*; JSONL with the text at ``key``; "hf:NAME" or
    "hf:NAME:CONFIG" for a data set of the ``datasets`` package; a folder of token shards, which ``python -m zoo
    tokenize`` makes of a corpus of any size, and which the task's tokenizer must have made.  Without a validation split
    the last ``val`` of the text is held out; of labelled records, a random share.

    ``bucket``, of records and of documents apart: see ``DataModule``.
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
        on_bad: OnBad = "raise",
        bucket: int = 0,
        documents: Meeting = "joined",
    ):
        super().__init__(tokenizer, None, batch_size, workers, seed, None, val, on_bad, bucket)
        if length < 1:
            raise ValueError(f"length={length}: a block has at least 1 id")
        if documents not in get_args(Meeting):
            raise ValueError(f"documents={documents!r} is none of {', '.join(get_args(Meeting))}")
        self.apart = documents == "apart"
        if self.apart and length < SHORTEST:
            raise ValueError(f"length={length}: a piece of a document has at least {SHORTEST} ids")
        self.root, self.length, self.key, self.label = root, length, key, label

    def read(self) -> Source:
        if self.root and self.root.startswith("hf:"):
            splits = hugging_face(self.root[3:])
            rows = {split: {self.root: dict(enumerate(found.to_list(), 1))} for split, found in splits.items()}
            return self._from_rows(rows)
        path = self.root and existing(self.root, "a .txt file, a folder of .txt files or of token shards, or JSONL")
        if path and is_sharded(path) and not self.label:
            return self._from_shards(read_index(path))
        if path and (found := manifests(path)):
            return self._from_rows(
                {split: {str(file): records(file, self.bad) for file in files} for split, files in found.items()}
            )
        if self.label:
            raise ValueError(f"label={self.label!r}: {self.root or 'the embedded text'} has no records; give JSONL")
        return self._blocks(text_files(path, self.bad) if path else {"train": topics()})

    def _from_rows(self, sources: dict[str, dict[str, Rows]]) -> Source:
        """``sources``: split -> the name of a file -> its records."""
        wanted = {self.key: no_text} | ({self.label: no_label} if self.label else {})
        splits = {
            split: [row for name, rows in found.items() for row in checked(name, rows, wanted, self.bad)]
            for split, found in sources.items()
        }
        texts = {split: [row[self.key] for row in rows] for split, rows in splits.items()}
        if not self.label:
            return self._blocks(texts)
        labels = {split: [row[self.label] for row in rows] for split, rows in splits.items()}
        classes, ids = label_ids(str(self.root), labels)
        return Source({split: Samples(Texts(texts[split]), None, ids[split]) for split in texts}, classes)

    def _from_shards(self, index: Index) -> Source:
        make = shard_pieces if self.apart else ShardBlocks
        found = {split: make(index, split, self.length) for split in index.splits if index.tokens(split)}
        if "val" not in found and self.val:
            found["train"], found["val"] = found["train"].parted(self.val)
        return Source({split: Samples(field) for split, field in found.items()}, [])

    def _blocks(self, texts: dict[str, list[str]]) -> Source:
        if "val" not in texts and self.val:
            texts["train"], texts["val"] = cut(texts["train"], self.val)
        make = Apart if self.apart else Documents
        return Source({split: Samples(make(found, self.length)) for split, found in texts.items()}, [])


def cut(documents: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Documents before and after the point where the last ``share`` of all characters begins."""
    left = int((1 - share) * sum(map(len, documents)))
    before, after = [], []
    for text in documents:
        before += [text[:left]] if left else []
        after += [text[left:]] if left < len(text) else []
        left = max(0, left - len(text))
    return before, after


def text_files(path: Path, bad: BadItems) -> dict[str, list[str]]:
    """The documents of a file or folder by split.  ValueError where there is no text."""
    if path.is_file():
        return {"train": [_read(path)]}
    entries = [entry for entry in sorted(path.iterdir()) if entry.is_dir() or entry.name.endswith(SUFFIXES)]
    splits = {}
    for split, found in by_split(entries).items():
        files = [file for entry in found for file in ([entry] if entry.is_file() else sorted(entry.rglob("*.txt*")))]
        splits[split] = []
        for file in files:
            if file.name.endswith(SUFFIXES):
                with bad.item():
                    splits[split].append(_read(file))
        if not splits[split]:
            raise ValueError(f"{path}: no {' or '.join(SUFFIXES)} files for {split} that can be read")
    return splits


def _read(file: Path) -> str:
    text = read_text(file)
    if not text:
        raise ValueError(f"{file}: is empty")
    return text
