"""How fast a decoder writes, beside other libraries on the same machine.

python benchmarks/generate.py [--shape small gpt2 llama] [--batch 1 8] [--precision fp32 bf16 int8 int4] [--rounds 5]
                              [--context 128 1024 4096] [--peers static litgpt x-transformers] [--json FILE]

Needs transformers (``pip install '.[bench]'``, which has x-transformers too).  litgpt asks for an older jsonargparse
than ours, so it comes by ``pip install --no-deps litgpt==0.5.13``.  What is not installed is left out.

First, new tokens a second after a prompt of 16 tokens: 128 of them, always the likeliest and without an end, the time
of reading the prompt included.  Ours as ``zoo.load`` gives it and after ``for_inference``; transformers' ``generate``
with its dynamic cache, which all are compared with, and with a static one under ``torch.compile``; litgpt and
x-transformers with their caches.  Weights are random; transformers and ours have the same, and their tokens in fp32 are
compared before.  litgpt has rotary positions in every shape, and x-transformers no biases in its attention.

All take turns in one process, another one first in each round; two rounds are not counted, in which ``torch.compile``
compiles.  "times transformers" is the median over rounds of transformers' seconds by the peer's in the same round,
least and largest in brackets; 8 and 4 bits are compared with transformers in fp32.  The bound is what the machine can
read in a second, measured by summing 1 GiB, by the bytes of weights that a token needs; small weights that fit into the
processor's own cache may pass it.

Then, with ``--context``, the time between two tokens after prompts of that length (batch 1, 32 tokens), how much longer
than after the first it is, and how long reading the keys and values in between would take at that bandwidth.

Not measured: quality (``benchmarks/precision.py``), sampling, beams, prompts of different length, memory, and GPUs.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from machine import about
from peers import DTYPES, REFERENCE, SHAPES, VOCABULARY, Family, Peer, missing
from rich.console import Console
from rich.table import Table
from torch import Tensor

from zoo.precision import Precision

WARM = 2  # rounds that are not counted
OTHERS = {"static": Family.static, "litgpt": Family.litgpt, "x-transformers": Family.x_transformers}
Record = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["small", "gpt2"])
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--precision", nargs="+", choices=get_args(Precision), default=["fp32", "bf16", "int8"])
    parser.add_argument("--context", nargs="*", type=int, default=[])
    parser.add_argument("--peers", nargs="*", choices=OTHERS, default=list(OTHERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=16, help="tokens")
    parser.add_argument("--length", type=int, default=128, help="new tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore", FutureWarning)  # of what the peers use
    console = Console(width=120)
    machine = about("torch", "transformers", "litgpt", "x-transformers")
    console.print("  ".join(f"{name} {value}" for name, value in machine.items()), highlight=False)
    for name in missing():
        console.print(f"{name} is not installed and is left out", style="yellow")
    found: dict[str, Any] = {"machine": machine, "writing": [], "context": []}
    bandwidth = machine["GB/s"] * 1e9
    others = [name for name in given.peers if name not in missing()]
    for shape in (SHAPES[name] for name in given.shape):
        console.print(f"\n{shape}", style="bold")
        if given.batch:
            family = Family(shape, given.prompt + given.length)
            console.print(agreement(family, ids(max(given.batch), given.prompt), given.length))
        for batch in given.batch:
            peers = chosen(family, given.precision, others)
            records = writing(peers, ids(batch, given.prompt), given.length, given.rounds, bandwidth)
            console.print(writing_table(records, f"batch {batch}, {given.length} new tokens"))
            found["writing"] += [{"shape": shape.name, "batch": batch, **record} for record in records]
            peers.clear()
            forget()
        if given.context:
            longest = Family(shape, max(given.context) + NEW)
            records = contexts(longest, given.precision, sorted(given.context), given.rounds, bandwidth)
            console.print(context_table(records))
            found["context"] += [{"shape": shape.name, **record} for record in records]
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


# ---- tokens a second


def chosen(family: Family, precisions: Sequence[Precision], others: Sequence[str]) -> list[Peer]:
    floats = dict.fromkeys(map(compared, precisions))
    makes = (Family.reference, Family.plain, *(OTHERS[name] for name in others))
    peers = [make(family, precision) for make in makes for precision in floats]
    return peers + [family.prepared(precision) for precision in precisions]


def compared(precision: str) -> str:
    """The precision of the reference that a peer in this one is compared with."""
    return precision if precision in DTYPES else "fp32"


def agreement(family: Family, prompt: Tensor, length: int) -> str:
    """Whether ours writes what transformers writes, in a sentence."""
    wanted = family.reference("fp32").write(prompt, length)
    said = []
    for peer in (family.plain("fp32"), family.prepared("fp32")):
        same = (peer.write(prompt, length) == wanted).long().cumprod(1).sum(1)  # (B,) tokens until they part
        rows = int((same == length).sum())
        said.append(
            f"{peer.way} {rows} of {len(prompt)} rows of {length} tokens"
            + f" (least {int(same.min())})" * (rows < len(prompt))
        )
    return f"The same ids as transformers in fp32: {', '.join(said)}"


def writing(peers: Sequence[Peer], prompt: Tensor, length: int, rounds: int, bandwidth: float) -> list[Record]:
    seconds = turns(peers, rounds, WARM, lambda peer: timed(peer, prompt, length))
    weights = {p.precision: p.weight_bytes for p in peers if p.weight_bytes}
    records = []
    for peer in peers:
        record = described(peer, seconds)
        record["tokens_per_second"] = prompt.size(0) * length / record["seconds"]
        record["bound"] = prompt.size(0) * bandwidth / weights[peer.precision]
        records.append(record)
    return records


def timed(peer: Peer, prompt: Tensor, length: int) -> float:
    begun = time.perf_counter()
    written = peer.write(prompt, length)
    seconds = time.perf_counter() - begun
    assert written.shape == (len(prompt), length), f"{peer.key} wrote {tuple(written.shape)}"
    return seconds


def turns(
    peers: Sequence[Peer], rounds: int, warm: int, measure: Callable[[Peer], float]
) -> dict[tuple[str, str, str], list[float]]:
    """The seconds of each peer in each round that counts."""
    seconds: dict[tuple[str, str, str], list[float]] = {peer.key: [] for peer in peers}
    for number in range(warm + rounds):
        start = number % len(peers)
        for peer in (*peers[start:], *peers[:start]):
            taken = measure(peer)
            if number >= warm:
                seconds[peer.key].append(taken)
    return seconds


def described(peer: Peer, seconds: dict[tuple[str, str, str], list[float]]) -> Record:
    own, reference = seconds[peer.key], seconds[REFERENCE, "dynamic cache", compared(peer.precision)]
    ratios = [theirs / ours for theirs, ours in zip(reference, own, strict=True)]
    return {
        "library": peer.library,
        "way": peer.way,
        "precision": peer.precision,
        "seconds": statistics.median(own),
        "times": statistics.median(ratios),
        "times_range": [min(ratios), max(ratios)],
    }


def writing_table(records: Sequence[Record], title: str) -> Table:
    table = Table("library", "way", "precision", title=title, title_justify="left")
    for heading in ("tokens/s", "times transformers", "of the bound"):
        table.add_column(heading, justify="right")
    for record in sorted(records, key=place):
        share = record["tokens_per_second"] / record["bound"]
        figures = (f"{record['tokens_per_second']:.1f}", ratio(record), f"{share:.0%} of {record['bound']:.0f}")
        table.add_row(record["library"], record["way"], record["precision"], *figures)
    return table


# ---- the time of a token after a long context

NEW = 33  # the first token's time is the prompt's


def contexts(
    family: Family, precisions: Sequence[Precision], lengths: Sequence[int], rounds: int, bandwidth: float
) -> list[Record]:
    peers, records = chosen(family, precisions, []), []
    for context in lengths:
        prompt = ids(1, context)
        seconds = turns(peers, rounds, 1, lambda peer, prompt=prompt: between(peer, prompt))
        for peer in peers:
            read = family.shape.cache_bytes(peer.precision) * (context + NEW / 2) / bandwidth
            records.append({"context": context, **described(peer, seconds), "seconds_of_reading": read})
    return records


def between(peer: Peer, prompt: Tensor) -> float:
    """The median of the seconds from one token's prediction to the next one's."""
    marks: list[float] = []
    hook = peer.head.register_forward_hook(lambda *_: marks.append(time.perf_counter()))
    peer.write(prompt, NEW)
    hook.remove()
    assert len(marks) == NEW, f"{peer.key} predicted {len(marks)} times"
    return statistics.median(after - before for before, after in itertools.pairwise(marks))


def context_table(records: Sequence[Record]) -> Table:
    table = Table("library", "way", "precision", title="a token after so many, batch 1", title_justify="left")
    for heading in ("context", "tokens/s", "ms", "ms more", "ms more to read", "times transformers"):
        table.add_column(heading, justify="right")
    for _, group in itertools.groupby(sorted(records, key=place), place):
        rows = list(group)  # of one peer, the shortest context first
        for row in rows:
            grown, read = (f"{1000 * (row[key] - rows[0][key]):.2f}" for key in ("seconds", "seconds_of_reading"))
            more = ("", "") if row is rows[0] else (grown, read)
            seconds = row["seconds"]
            figures = (f"{row['context']:,}", f"{1 / seconds:.1f}", f"{1000 * seconds:.2f}", *more, ratio(row))
            table.add_row(row["library"], row["way"], row["precision"], *figures)
    return table


# ---- all the rest


def place(record: Record) -> tuple[int, bool, str, str]:
    """In a table: by precision, and the reference first."""
    library = record["library"]
    return get_args(Precision).index(record["precision"]), library != REFERENCE, library, record["way"]


def ratio(record: Record) -> str:
    least, largest = record["times_range"]
    return f"{record['times']:.2f} ({least:.2f}-{largest:.2f})"


def ids(batch: int, length: int) -> Tensor:
    """(B, T), random, and the same in every run."""
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def forget() -> None:
    torch.compiler.reset()
    gc.collect()


if __name__ == "__main__":
    sys.exit(main())
