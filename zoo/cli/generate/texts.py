"""Texts that are written: one as it is decided, many to the screen or as lines of JSON, and scores of given ones."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from zoo.cli.errors import UserError
from zoo.cli.generate.batches import Row, Tally, batches, told, written
from zoo.cli.generate.prompts import Prompt
from zoo.tasks.writing import WritingTask

OURS = {"prompt", "file", "text", "tokens", "reason", "sample", "score", "continuation", "log_probability"}
BETWEEN = "---"  # texts that go on from prompts


def stream(task: WritingTask, row: Row) -> str:
    """One text, as it is decided; after its prompt where it goes on from that."""
    tally, begun = Tally(), False
    try:
        with tally.timed(), told(row.prompt):
            for so_far in task.steps([row.prompt.raw(task.tokenizer)], first=row.number):
                if not begun and goes_on(task):
                    say(str(row.prompt.value))
                begun = True
                say(so_far.news(0))
    finally:
        if begun:
            say("\n")
    tally.add(so_far)
    return tally.said()


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def goes_on(task: WritingTask) -> bool:
    """Is a prompt the beginning of what is written?"""
    return task.target_tokenizer is None


def texts(task: WritingTask, rows: Sequence[Row], options: argparse.Namespace) -> str:
    """Many texts, each written down when its batch is done."""
    tally, several = Tally(), len({row.sample for row in rows}) > 1
    if options.out is not None:
        require_free([row.prompt for row in rows])
    with opened(options.out) as file:
        watched = options.out == "-" or (file is None and sys.stdout.isatty())
        for batch in batches(rows, options.batch_size, watched):
            with tally.timed():
                done = written(task, batch)
            tally.add(done)
            for place, (row, text) in enumerate(zip(batch, done.outputs, strict=True)):
                if file is None:
                    show(task, row, text)
                    continue
                found = {"text": text, "tokens": len(done.tokens[place]), "reason": done.reasons[place]}
                if several:
                    found["sample"] = row.sample
                likely = done.scores[place]
                if likely is not None:
                    found["score"] = round(likely, 6)
                note(file, row.prompt, found)
            (file or sys.stdout).flush()
    return tally.said()


def show(task: WritingTask, row: Row, text: str) -> None:
    if goes_on(task):
        print(*([BETWEEN] if row.number else []), f"{row.prompt.value}{text}", sep="\n")
    else:
        print(f"{row.prompt.value} -> {text}")


@contextmanager
def opened(out: str | None) -> Iterator[TextIO | None]:
    """Where lines of JSON go, if that is what is wanted."""
    if out in (None, "-"):
        yield sys.stdout if out else None
        return
    with open(str(out), "w", encoding="utf-8") as file:
        yield file


def require_free(prompts: Sequence[Prompt]) -> None:
    """Raise UserError where what stands beside a prompt would be overwritten."""
    for prompt in prompts:
        if taken := sorted(prompt.fields.keys() & OURS):
            raise UserError(f"{prompt.place}: '{taken[0]}' is a name that the output itself uses; rename the key")


def note(file: TextIO, prompt: Prompt, found: dict[str, Any]) -> None:
    name = "prompt" if isinstance(prompt.value, str) else "file"
    file.write(json.dumps({name: str(prompt.value), **prompt.fields, **found}, ensure_ascii=False) + "\n")


def scored(task: WritingTask, prompts: Sequence[Prompt], options: argparse.Namespace) -> str:
    """How likely each continuation of each prompt is."""
    given, count = options.continuation, 0
    if options.out is not None:
        require_free(prompts)
    with opened(options.out) as file:
        for prompt in prompts:
            with told(prompt):
                found = task.log_probabilities([prompt.raw(task.tokenizer)] * len(given), given)
            if file is None and len(prompts) > 1:
                print(f"{prompt.value}")
            for text, chances in zip(given, found, strict=True):
                total, size = float(chances.sum()), len(chances)
                count += size
                if file is None:
                    print(f"{total:9.3f}  {size:5} token{'s' if size != 1 else ' '}  {text}")
                else:
                    note(file, prompt, {"continuation": text, "log_probability": round(total, 6), "tokens": size})
            (file or sys.stdout).flush()
    return f"log-probabilities (natural) of {count:,} tokens"
