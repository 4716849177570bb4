"""What ``generate`` does with a command line that makes sense: load, read the prompts, and write the right way."""

from __future__ import annotations

import argparse
import sys

from zoo.cli.generate.batches import rows_of
from zoo.cli.generate.media import media
from zoo.cli.generate.model import writer
from zoo.cli.generate.prompts import prompts
from zoo.cli.generate.texts import scored, stream, texts
from zoo.cli.waiting import waiting
from zoo.tokenizers import TextTokenizer


def job(options: argparse.Namespace) -> None:
    """Raises UserError, ValueError and OSError for what a user can mend."""
    with waiting(f"loading {options.run or options.ckpt_path or options.published}"):
        task = writer(options)
    found = prompts(options, task.tokenizer.modality)
    rows = rows_of(found, options.samples or 1)
    if not isinstance(task.pen, TextTokenizer):
        said = media(task, rows, options)
    elif options.continuation is not None:
        said = scored(task, found, options)
    elif len(rows) == 1 and options.out is None:
        said = stream(task, rows[0])
    else:
        said = texts(task, rows, options)
    print(said, file=sys.stderr)
