"""``train-tokenizer``: learns a byte-pair vocabulary from text files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from zoo.cli.arguments import Arguments


def main(argv: list[str]) -> int:
    parser = Arguments("train-tokenizer", __doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="UTF-8 text")
    parser.add_argument("--vocabulary", type=int, default=8000, help="number of tokens (default: %(default)s)")
    parser.add_argument("--out", default="tokenizer.json", help="where it is written (default: %(default)s)")
    options = parser.parse_args(argv[1:])
    missing = [file for file in options.files if not Path(file).is_file()]
    if missing:
        print(f"zoo: error: no file {missing[0]}", file=sys.stderr)
        return 1
    from zoo.cli.errors import guarded
    from zoo.tokenizers import BPE

    return guarded(lambda: learn(BPE, options))


def learn(tokenizer: type, options: argparse.Namespace) -> None:
    tokenizer.train_files(options.files, options.vocabulary, options.out)  # type: ignore[attr-defined]
    print(f"{options.out}: up to {options.vocabulary} tokens, learnt from {len(options.files)} files")
