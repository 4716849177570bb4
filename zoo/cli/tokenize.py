"""``tokenize``: text of any size as token shards, which are mapped into memory and never encoded again."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.arguments import Arguments

if TYPE_CHECKING:
    from zoo.data.corpus import Corpus
    from zoo.data.shards import Index
    from zoo.tokenizers import Tokenizer

REMOTE = "hf:"
EPILOG = """\
python -m zoo tokenize pages --tokenizer tokenizer.json --output shards
python -m zoo tokenize a.jsonl.gz b.jsonl.gz --key body --tokenizer gpt_docs --output shards    a config's tokenizer
python -m zoo tokenize hf:NAME:CONFIG --tokenizer published-checkpoint --output shards --val 0.001
python -m zoo tokenize --verify shards                                           reads all, and compares checksums
python -m zoo fit --config gpt_docs --data.root=shards --model.tokenizer.file=shards/tokenizer.json"""


def main(argv: list[str]) -> int:
    options = arguments().parse_args(argv[1:])
    from zoo.cli.errors import guarded, quiet

    quiet()
    return guarded(lambda: verified(options.verify) if options.verify else tokenized(options))


def arguments() -> Arguments:
    parser = Arguments("tokenize", "Encode text once, in parallel, into token shards that training reads.", EPILOG)
    parser.usage = "%(prog)s SOURCE... --tokenizer WHICH --output DIR [how]\n       %(prog)s --verify DIR"
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help=f".txt, .jsonl (both also .gz) or .parquet files, folders of them, or {REMOTE}NAME[:CONFIG]",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="WHICH",
        help="a tokenizer.json, a shipped one, a config that has one, or a checkpoint as published",
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="a new folder")
    parser.add_argument("--key", default="text", help="where the text stands in a record (%(default)s)")
    parser.add_argument(
        "--val", type=float, default=0.01, help="share that is held out where no part is named val (%(default)s)"
    )
    parser.add_argument("--processes", type=int, default=cores(), help="that encode (one a core: %(default)s)")
    parser.add_argument("--shard_tokens", type=int, default=100_000_000, help="tokens of a shard (%(default)s)")
    parser.add_argument("--verify", metavar="DIR", type=Path, help="compare a folder of shards with its checksums")
    return parser


def cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def tokenized(options: argparse.Namespace) -> None:
    """Raises UserError, or ValueError for what is wrong with a document."""
    from zoo.cli.errors import USAGE, UserError
    from zoo.cli.waiting import waiting

    missing = [name for name in ("sources", "tokenizer", "output") if not getattr(options, name)]
    if missing:
        what = {"sources": "a SOURCE", "tokenizer": "--tokenizer", "output": "--output"}[missing[0]]
        raise UserError(f"{what} must be given ('python -m zoo tokenize --help' says more)", USAGE)
    if not 0 <= options.val < 1:
        raise UserError(f"--val={options.val} is not a share: give 0 <= val < 1", USAGE)
    for name in ("processes", "shard_tokens"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name}={getattr(options, name)}: give at least 1", USAGE)
    if options.output.exists():
        raise UserError(f"--output={options.output}: is there already; remove it, or name another folder")
    with waiting("loading torch"):
        from zoo.data.tokenize import tokenize

        tokenizer, corpus = chosen(options.tokenizer), opened(options)
    with shown("encoding", corpus.size) as tell:
        index = tokenize(corpus, tokenizer, options.output, options.processes, options.shard_tokens, tell)
    print(summary(index))


def verified(folder: Path) -> None:
    from zoo.data.shards import verify

    with shown("verifying", sum(path.stat().st_size for path in folder.glob("*-*.*"))) as tell:
        index = verify(folder, tell)
    print(f"{summary(index)}; every checksum is right")


@contextlib.contextmanager
def shown(what: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, for as long as the ``with`` lasts, of so many bytes; it is told of those that are done."""
    from rich import progress
    from rich.console import Console

    parts = (
        *(progress.TextColumn("{task.description}"), progress.BarColumn(), progress.DownloadColumn()),
        *(progress.TransferSpeedColumn(), progress.TimeRemainingColumn()),
    )
    console = Console(stderr=True)
    with progress.Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=size)
        yield lambda count: bar.advance(task, count)


def summary(index: Index) -> str:
    parts = [
        f"{split} {index.tokens(split):,} tokens of {index.documents(split):,} documents" for split in index.splits
    ]
    size = sum(shard.tokens for shards in index.splits.values() for shard in shards) * index.dtype.itemsize
    return f"{index.folder}: {', '.join(parts)}; {size / 1e6:,.1f} MB"


def opened(options: argparse.Namespace) -> Corpus:
    """What the sources hold.  Raises ValueError or FileNotFoundError."""
    from zoo.data.corpus import Corpus, found, hugging_face

    remote = [source.removeprefix(REMOTE) for source in options.sources if source.startswith(REMOTE)]
    rows: dict[str, Any] = {}
    for name in remote:
        for split, some in hugging_face(name, streaming=True).items():
            rows[split] = itertools.chain(rows.get(split, ()), some)
    files = found([source for source in options.sources if not source.startswith(REMOTE)])
    return Corpus(files, rows, options.key, options.val)


def chosen(which: str) -> Tokenizer:
    """The tokenizer that a word names.  Raises ValueError where it names none."""
    from zoo.hub import load_tokenizer
    from zoo.tokenizers import BPE, Subword
    from zoo.tokenizers.bpe import SHIPPED, read

    path = Path(which)
    if path.is_dir():
        return load_tokenizer(which)
    if path.suffix == ".json" or (SHIPPED / f"{which}.json").is_file():
        try:
            tokenizer = BPE(content=read(which))
        except ValueError:
            return Subword(which)
        return tokenizer if tokenizer.find("eos") is not None else Subword(which)
    return of_config(which)


def of_config(name: str) -> Tokenizer:
    """The tokenizer of a config's model.  Raises UserError."""
    from jsonargparse import ArgumentParser

    from zoo import documents
    from zoo.cli import limits
    from zoo.cli.errors import UserError
    from zoo.tokenizers import Tokenizer

    limits.begin([])
    model = documents.read(limits.config(name)).get("model") or {}
    made = {**model, **model.get("init_args", {})}.get("tokenizer")
    if made is None:
        raise UserError(f"{name}: its model has no tokenizer; name another config, or a tokenizer.json")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--tokenizer", type=Tokenizer)
    return parser.instantiate_classes(parser.parse_object({"tokenizer": made})).tokenizer
