"""How fast a step of training is, and how much memory it takes, beside other libraries on the same machine.

python benchmarks/train.py [--work masked full causal seq2seq image] [--precision fp32 bf16] [--rounds 5] [--steps 4]
                           [--nanogpt FOLDER] [--json FILE]

Needs transformers and timm (``pip install '.[bench]'``).  nanoGPT is no package: ``--nanogpt`` is a folder with its
model.py (github.com/karpathy/nanoGPT); without it it is left out.

A step is forward, backward and optimizer; equal widths, depths, vocabularies, batches, and no dropout.  Everybody does
what its users get by default: the others torch's AdamW, ours a task's own step, fused AdamW and ``keep_freed_memory``,
as ``python -m zoo fit`` has them.  bf16 is autocast, for all.  The loop around a step is none of these figures; see
``benchmarks/loop.py``.

masked   6 x 384, vocabulary 30,522, 8 texts of up to 256 tokens, 0.43 of the places real, 15 % hidden
full     the same, all places real
causal   6 x 384, vocabulary 50,257, tied, 4 blocks of 256
seq2seq  4 + 4 x 384, vocabulary 32,128, tied, 8 pairs of 128 and 128
image    ViT-Ti/16, 16 images of 224 x 224, 1,000 classes

Each learner is a process of its own, and only one works at a time; they take turns, another one first in each round,
after steps that do not count, in which ``torch.compile`` compiles.  "times" is the median over rounds of the first
library's seconds by the learner's in the same round, least and largest in brackets.  Memory is the most that was
resident since before the model was built (VmHWM), and that without what was resident then (the interpreter and the
imported libraries).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import learners
import torch
from learners import Learner
from machine import about
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

WARM = 4  # steps of each that are not counted


def chosen(work: str, nanogpt: Path | None) -> list[Learner]:
    """The learners of a kind of work; the first is compared with."""
    own = partial(Learner, "zoo")
    found = {
        "masked": [
            Learner("transformers", "BERT", learners.bert(False)),
            Learner("transformers", "ModernBERT, sparse prediction", learners.modernbert(False)),
            own("BERT", learners.our_bert(False)),
            own("BERT, compiled", learners.our_bert(False, compiled=True)),
        ],
        "full": [
            Learner("transformers", "BERT", learners.bert(True)),
            Learner("transformers", "ModernBERT, sparse prediction", learners.modernbert(True)),
            own("BERT", learners.our_bert(True)),
        ],
        "causal": [
            Learner("transformers", "GPT-2", learners.gpt2),
            own("GPT-2", learners.our_gpt2()),
            own("GPT-2, compiled", learners.our_gpt2(compiled=True)),
        ],
        "seq2seq": [
            Learner("transformers", "T5", learners.t5),
            own("T5", learners.our_t5()),
            own("T5, compiled", learners.our_t5(compiled=True)),
        ],
        "image": [
            Learner("timm", "ViT-Ti/16", learners.timm),
            own("ViT-Ti/16", learners.our_vit()),
            own("ViT-Ti/16, compiled", learners.our_vit(compiled=True)),
        ],
    }[work]
    if work == "causal" and nanogpt:
        found.insert(1, Learner("nanoGPT", "GPT-2", learners.nanogpt(nanogpt)))
    return [learner for learner in found if learner.library in ("zoo", "nanoGPT") or find_spec(learner.library)]


WORK = ("masked", "full", "causal", "seq2seq", "image")


class Turn:
    """A learner in a process of its own, which works only when it is told to."""

    def __init__(self, work: str, number: int, precision: str, threads: int, nanogpt: Path | None):
        context = multiprocessing.get_context("spawn")
        self.here, there = context.Pipe()
        self.process = context.Process(
            target=learn, args=(there, work, number, precision, threads, nanogpt), daemon=True
        )
        self.process.start()
        self.ask("built")

    def ask(self, what: Any) -> Any:
        self.here.send(what)
        try:
            return self.here.recv()
        except EOFError:
            raise SystemExit("a learner has died; what it said stands above") from None

    def end(self) -> None:
        self.here.send(None)
        self.process.join()


def learn(there: Any, work: str, number: int, precision: str, threads: int, nanogpt: Path | None) -> None:
    """What the process does: so many steps when it is given a number, its memory when it is asked."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    learner = chosen(work, nanogpt)[number]
    load(learner.library)
    torch.manual_seed(0)
    before = resident()
    forget_peak()
    step = learner.make(precision)
    while (what := heard(there)) is not None:
        if what == "built":
            there.send(True)
        elif what == "memory":
            there.send((peak(), peak() - before))
        else:
            begun = time.perf_counter()
            for _ in range(what):
                loss = step()
            seconds = (time.perf_counter() - begun) / what
            assert torch.isfinite(loss), f"{learner.key} lost itself"
            there.send(seconds)


def heard(there: Any) -> Any:
    """What the learner is told; None, which ends it, where nobody is left to tell."""
    try:
        return there.recv()
    except EOFError:
        return None


def load(library: str) -> None:
    """Import what the learner needs, so that it does not count as its memory."""
    if library == "zoo":
        import zoo

        _ = zoo.CausalLM, zoo.GPT2
    elif library == "transformers":
        from transformers import BertForMaskedLM, GPT2LMHeadModel, ModernBertForMaskedLM, T5ForConditionalGeneration

        _ = BertForMaskedLM, GPT2LMHeadModel, ModernBertForMaskedLM, T5ForConditionalGeneration
    elif library == "timm":
        import timm

        _ = timm.create_model


def resident() -> float:
    return status("VmRSS")


def peak() -> float:
    return status("VmHWM")


def status(name: str) -> float:
    """Megabytes, of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measured(work: str, precision: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    found = chosen(work, given.nanogpt)
    turns = [Turn(work, number, precision, given.threads, given.nanogpt) for number in range(len(found))]
    seconds: list[list[float]] = [[] for _ in turns]
    for turn in turns:
        turn.ask(WARM)
    for number in tqdm(range(given.rounds), f"{work}, {precision}"):
        start = number % len(turns)
        for i in [*range(start, len(turns)), *range(start)]:
            seconds[i].append(turns[i].ask(given.steps))
    records = []
    for learner, turn, own in zip(found, turns, seconds, strict=True):
        ratios = [theirs / ours for theirs, ours in zip(seconds[0], own, strict=True)]
        whole, net = turn.ask("memory")
        records.append(
            {
                "work": work,
                "precision": precision,
                "library": learner.library,
                "way": learner.way,
                "seconds": statistics.median(own),
                "rounds": own,
                "times": statistics.median(ratios),
                "range": [min(ratios), max(ratios)],
                "megabytes": whole,
                "net": net,
            }
        )
    for turn in turns:
        turn.end()
    return records


def table(records: Sequence[dict[str, Any]]) -> Table:
    first = records[0]
    shown = Table("library", "model", title=f"{first['work']}, {first['precision']}", title_justify="left")
    for heading in ("ms a step", f"times {first['library']}", "peak MB", "without imports", "by the first's"):
        shown.add_column(heading, justify="right")
    for record in records:
        low, high = record["range"]
        shown.add_row(
            record["library"],
            record["way"],
            f"{1000 * record['seconds']:.0f}",
            f"{record['times']:.2f} ({low:.2f}-{high:.2f})",
            f"{record['megabytes']:.0f}",
            f"{record['net']:.0f}",
            f"{record['net'] / first['net']:.2f}",
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nanogpt", type=Path, help="a folder with nanoGPT's model.py")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    given = parser.parse_args()
    if given.nanogpt and not (given.nanogpt / "model.py").is_file():
        parser.error(f"--nanogpt {given.nanogpt}: there is no model.py")
    console = Console(width=130)
    machine = about("torch", "transformers", "timm")
    console.print("  ".join(f"{name} {value}" for name, value in machine.items()), highlight=False)
    records = []
    for work in given.work:
        for precision in given.precision:
            found = measured(work, precision, given)
            console.print(table(found))
            records += found
            if given.json:
                given.json.write_text(json.dumps({"machine": machine, "training": records}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
