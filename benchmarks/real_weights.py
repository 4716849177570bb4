"""Real published weights, against figures that the reference once gave for them.

python benchmarks/real_weights.py MINILM [SMOLLM2]

MINILM is the directory of all-MiniLM-L6-v2 as published, SMOLLM2 that of SmolLM2-135M-Instruct.Q4_1.gguf, which
transformers (with gguf and accelerate) turns into a published directory first.  Exits with 1 where a figure is off by
more than 0.001.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import zoo
from zoo.tokenizers import Tokens

Row = tuple[str, list[float], list[float]]  # what, recorded, ours
TOLERANCE = 1e-3
SENTENCES = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
CAPITAL = [504, 3575, 282, 4649, 314]  # "The capital of France is"


def minilm(folder: Path) -> Iterator[Row]:
    task = zoo.load(folder)
    tokens = task.tokenizer(SENTENCES)
    first = task.tokenizer([SENTENCES[0]])
    vectors = task(tokens)
    cosines = vectors @ vectors.mT
    yield "MiniLM ids", [101, 1037, 2158, 2003, 5983, 2833, 1012, 102], plain(first.value[0])
    yield "MiniLM hidden state", [-0.002550, 0.117697, 0.003738, 0.244708], plain(hidden(task, first)[0, 0, :4])
    yield (
        "MiniLM hidden state, padded",
        [-0.002550, 0.117697, 0.003738, 0.244708],
        plain(hidden(task, tokens)[0, 0, :4]),
    )
    yield "MiniLM embedding", [0.033242, 0.004406, -0.006277, 0.048379, -0.138702], plain(vectors[0, :5])
    yield "MiniLM cosines", [0.755337, -0.104958, -0.061017], plain(cosines[[0, 0, 1], [1, 2, 2]])


def hidden(task, tokens: Tokens) -> Tensor:
    return task.backbone(task.embed(tokens.value), padding=tokens.padding)


def smollm2(folder: Path) -> Iterator[Row]:
    from transformers import AutoModelForCausalLM

    (file,) = folder.glob("*.gguf")
    found = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    model = AutoModelForCausalLM.from_config(found.config)  # one that does not count as quantized, and can be saved
    model.load_state_dict(found.state_dict())
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        task = zoo.load(place)
    logits = task.head(task(Tokens(torch.tensor([CAPITAL]))))[0, -1]
    top = logits.topk(5)
    yield "SmolLM2 parameters", [134_515_008], [sum(weight.numel() for weight in task.parameters())]
    yield "SmolLM2 likeliest ids", [7042, 260, 4528, 2250, 1315], plain(top.indices)
    yield "SmolLM2 their logits", [17.3713, 14.8886, 13.2450, 13.0095, 12.9515], plain(top.values)
    yield "SmolLM2 mean logit", [-1.858299], [float(logits.mean())]


def plain(values: Tensor) -> list[float]:
    return values.tolist()


def shown(values: list[float]) -> str:
    return " ".join(f"{value:.6f}" if isinstance(value, float) else str(value) for value in values)


@torch.no_grad()
def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print(__doc__)
        return 2
    table, worst = Table("what", "recorded", "ours", "difference"), 0.0
    for check, folder in zip((minilm, smollm2), arguments):
        for what, recorded, ours in check(Path(folder)):
            same = len(recorded) == len(ours)
            off = max(abs(a - b) for a, b in zip(recorded, ours)) if same else float("inf")
            table.add_row(what, shown(recorded), shown(ours), f"{off:.1e}")
            worst = max(worst, off)
    Console(width=160).print(table)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
