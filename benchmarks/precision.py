"""What fewer bits a weight cost: perplexity of a causal language model on a text, in each precision.

python benchmarks/precision.py CHECKPOINT TEXT [WINDOW]

CHECKPOINT is a published directory or a .ckpt of a CausalLM over text, TEXT a file in UTF-8.  Its first 20 windows of
512 tokens (or WINDOW) are read, none of which overlaps another; the first token of each is given.

measured on 10,220 tokens of WikiText-2's test split with SmolLM2-135M-Instruct (as of its Q4_1 file, whose weights lie
on a grid of 4 bits already, which flatters int4): perplexity 29.308, bf16 29.312, int8 30.407 (+3.7 %), int4 29.460
(+0.5 %); on 2,540 with the gpt_docs of configs/, trained in float32: bf16 -0.1 %, int8 -0.1 %, int4 +0.2 %
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

import zoo
from zoo.precision import Precision, for_inference, weight_bytes
from zoo.tasks import CausalLM
from zoo.tokenizers import Tokens

WINDOWS = 20


def read(path: Path) -> CausalLM:
    if path.is_dir():
        return zoo.load(path)
    return CausalLM.load_from_checkpoint(path, map_location="cpu").eval()


def windows(task: CausalLM, text: str, length: int) -> Iterator[Tensor]:
    """(length,) ids"""
    ids = task.tokenizer.encode(text[: WINDOWS * length * 10])  # tokens are shorter than 10 letters on average
    yield from ids[: min(WINDOWS, len(ids) // length) * length].view(-1, length)


@torch.inference_mode()
def measured(task: CausalLM, text: str, length: int) -> tuple[float, int, int]:
    """Nats of all predicted tokens, how many they are, and how many bytes."""
    nats, count, size = 0.0, 0, 0
    for ids in windows(task, text, length):
        logits = task.head(task(Tokens(ids[None, :-1])))[0].float()
        nats += F.cross_entropy(logits, ids[1:], reduction="sum").item()
        count += length - 1
        size += len(task.tokenizer.decode(ids[1:]).encode())
    return nats, count, size


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print(__doc__)
        return 2
    path, text = Path(arguments[0]), Path(arguments[1]).read_text(encoding="utf-8")
    length = int(arguments[2]) if len(arguments) == 3 else 512
    table, first = Table("precision", "perplexity", "change", "bits a byte", "weights, MB", "seconds"), 0.0
    for precision in get_args(Precision):
        task = for_inference(read(path), precision)
        begun = time.perf_counter()
        nats, count, size = measured(task, text, length)
        seconds = time.perf_counter() - begun
        perplexity = math.exp(nats / count)
        first = first or perplexity
        table.add_row(
            precision,
            f"{perplexity:.3f}",
            f"{perplexity / first - 1:+.2%}",
            f"{nats / size / math.log(2):.4f}",
            f"{weight_bytes(task) / 1e6:.1f}",
            f"{seconds:.1f}",
        )
    Console(width=120).print(f"{path.name}, {count:,} tokens of {arguments[1]}", table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
