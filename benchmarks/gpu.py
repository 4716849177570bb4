"""What one GPU reaches, in at most ten minutes: training, attention, packing, images, decoding.

python benchmarks/gpu.py [--minutes 10] [--json FILE] [--parts train attention masked image decode] [--small]

Needs an NVIDIA GPU with bfloat16; says so and ends with code 1 where there is none.  ``--small`` runs the same code at
toy sizes on whatever there is, to see that it runs: its figures mean nothing.

train      GPT-2 124M and 350M, blocks of 1,024 random ids, bf16 autocast, fused AdamW; eager and compiled blocks:
           tokens a second, MFU (6 N + 12 layers width tokens FLOPs a token, Chowdhery et al. 2022, appendix B, by the
           device's dense bf16 peak) and memory; the goal is half of the peak
attention  forward and backward of causal attention at 1k to 16k tokens, 12 heads of 64: ``attend`` (SDPA), explicit
           softmax, and flex_attention with the same triangle as a block mask: milliseconds and memory
masked     BERT-base on texts of lognormal lengths up to 512: the padded batch as it is, and packed by the backbone
image      ViT-B/16 at 224, batch 128, against timm's, both compiled: images a second
decode     GPT-2 124M writes 128 tokens with a cache of fixed size, batch 1 and 32: tokens a second

What does not fit into the time is left out and said.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from machine import installed
from rich.console import Console
from torch import Tensor

import zoo
from zoo.callbacks.cost import peak_of
from zoo.nn import Block, Causal, packing
from zoo.nn.attend import attend, attention_weights
from zoo.tasks.optimizer import decay_groups, fuse
from zoo.tokenizers import Batch, Ids, Tokens

VOCABULARY = 50257
Figures = dict[str, Any]


class Device:
    """Where all happens, and the sizes that it can bear."""

    def __init__(self, small: bool):
        self.small = small
        self.kind = "cuda" if torch.cuda.is_available() else "cpu"
        self.peak = None if small else peak_of(torch.device(self.kind), torch.bfloat16)

    def seconds(self, act: Callable[[], Any], times: int = 10, warm: int = 3) -> float:
        """The median."""
        taken = []
        for number in range(1 if self.small else warm + times):
            self.wait()
            begun = time.perf_counter()
            act()
            self.wait()
            if self.small or number >= warm:
                taken.append(time.perf_counter() - begun)
        return statistics.median(taken)

    def wait(self) -> None:
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def memory(self, act: Callable[[], Any]) -> float:
        """Megabytes at most while ``act`` runs, without what was there before."""
        if self.kind != "cuda":
            act()
            return 0.0
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        act()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    def ids(self, *shape: int) -> Tensor:
        return torch.randint(1000, 30000, shape, device=self.kind)


def stepper(task: Any, batch: Batch) -> Callable[[], None]:
    """Forward, backward and optimizer, as training has them."""
    optimizer = fuse(torch.optim.AdamW(decay_groups(task.train()), lr=1e-4))
    kind = next(task.parameters()).device.type

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(kind, torch.bfloat16):
            total, weight = task.step(batch, training=True)["loss"]
        (total / weight).backward()
        optimizer.step()

    return step


def compile_blocks(task: Any) -> Any:
    for part in task.modules():
        if isinstance(part, Block):
            part.compile()
    return task


# ---- the parts


def train(device: Device) -> Iterator[Figures]:
    shapes = {"124M": (768, 12, 12, 16), "350M": (1024, 24, 16, 8)}
    if device.small:
        shapes = {"toy": (64, 2, 2, 2)}
    for name, (width, depth, heads, batch) in shapes.items():
        length = 64 if device.small else 1024
        for way in ("eager", "compiled"):
            with torch.device(device.kind):
                backbone = zoo.GPT2(dim=width, depth=depth, heads=heads, length=length)
                task = zoo.CausalLM(backbone, Ids(VOCABULARY))
            weights = sum(weight.numel() for weight in backbone.blocks.parameters()) + VOCABULARY * width
            flops = 6 * weights + 12 * depth * width * length
            step = stepper(
                compile_blocks(task) if way == "compiled" else task, Batch(Tokens(device.ids(batch, length)))
            )
            seconds, memory = device.seconds(step), device.memory(step)
            rate = batch * length / seconds
            mfu = rate * flops / device.peak if device.peak else None
            yield {"model": f"GPT-2 {name}", "way": way, "tokens/s": rate, "MFU": mfu, "MB in a step": memory}


def attention(device: Device) -> Iterator[Figures]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = Causal()
    flex = torch.compile(flex_attention)
    for length in (128,) if device.small else (1024, 2048, 4096, 8192, 16384):
        batch = max(1, 16384 // length)
        shape = (2, 2, length, 64) if device.small else (batch, 12, length, 64)
        kind = torch.float32 if device.small else torch.bfloat16
        q, k, v = (torch.randn(shape, device=device.kind, dtype=kind, requires_grad=True) for _ in range(3))
        blocks = create_block_mask(lambda b, h, i, j: mask(i, j), None, None, length, length, device=device.kind)

        def explicit(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> Tensor:
            return attention_weights(q, k, allowed=None, bias=None, causal=True, scale=None).to(v.dtype) @ v

        ways: dict[str, Callable[[], Tensor]] = {
            "attend": lambda q=q, k=k, v=v: attend(q, k, v, causal=True),
            "explicit": explicit,
        }
        if device.kind == "cuda":  # elsewhere it has no backward pass
            ways["flex"] = lambda q=q, k=k, v=v, blocks=blocks: flex(q, k, v, block_mask=blocks)
        for way, compute in ways.items():
            try:
                both = lambda compute=compute: compute().sum().backward()  # noqa: E731
                seconds, memory = device.seconds(both), device.memory(both)
            except torch.OutOfMemoryError:
                yield {"tokens": length, "batch": shape[0], "way": way, "ms": None, "MB": "does not fit"}
                continue
            yield {"tokens": length, "batch": shape[0], "way": way, "ms": 1000 * seconds, "MB": memory}


def masked(device: Device) -> Iterator[Figures]:
    count, longest = (4, 32) if device.small else (64, 512)
    chance = torch.Generator().manual_seed(0)
    lengths = (longest * 0.35 * torch.exp(0.6 * torch.randn(count, generator=chance))).long().clamp(8, longest)
    lengths[0] = longest
    real = (torch.arange(longest) < lengths[:, None]).to(device.kind)
    batch = Batch(Tokens(device.ids(count, longest), real), key=torch.arange(count, device=device.kind))
    with torch.device(device.kind):
        backbone = zoo.BERT(dim=64, depth=2, heads=2, length=longest) if device.small else zoo.BERT()
        task = zoo.MaskedLM(backbone, Ids(30522, pad=0, mask=103), head=zoo.TransformHead)
    step = stepper(task, batch)
    seconds = {"packed": device.seconds(step)}
    usual, packing.WORTH = packing.WORTH, 0.0  # moving tokens never pays
    try:
        seconds["padded"] = device.seconds(step)
    finally:
        packing.WORTH = usual
    for way, taken in seconds.items():
        yield {
            "model": "BERT-base",
            "way": way,
            "fill": int(lengths.sum()) / real.numel(),
            "texts/s": count / taken,
            "times padded": seconds["padded"] / taken,
        }


def image(device: Device) -> Iterator[Figures]:
    import timm

    count, size = (2, 32) if device.small else (128, 224)
    pictures = torch.rand(count, 3, size, size, device=device.kind)
    labels = torch.randint(10, (count,), device=device.kind)
    with torch.device(device.kind):
        patches = zoo.Patches(size, 16)
        sizes = {"dim": 64, "depth": 2, "heads": 2} if device.small else {}
        task = zoo.Classify(zoo.ViT(**sizes, grid=size // 16), patches, 1000, pool=zoo.ClassToken)
        other = timm.create_model("vit_tiny_patch16_224" if device.small else "vit_base_patch16_224", img_size=size)
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(other) if device.kind == "cuda" else other

    def theirs() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.kind, torch.bfloat16):
            loss = F.cross_entropy(forward(pictures).float(), labels)
        loss.backward()
        optimizer.step()

    ours = stepper(compile_blocks(task), Batch(Tokens(patches.patchify(pictures)), label=labels))
    for library, step in {"zoo": ours, "timm": theirs}.items():
        yield {"model": "ViT-B/16, compiled", "library": library, "images/s": count / device.seconds(step)}


def decode(device: Device) -> Iterator[Figures]:
    length, sizes = (8, {"dim": 64, "depth": 2, "heads": 2}) if device.small else (128, {})
    with torch.device(device.kind):
        task = zoo.CausalLM(zoo.GPT2(**sizes), Ids(VOCABULARY)).eval()
    task = task.to(torch.bfloat16)
    for way in ("eager", "compiled"):
        if way == "compiled":  # as a whole, for its cache has one shape at every token
            task.backbone.compile(mode=None if device.small else "reduce-overhead")
        for count in (1, 32):
            start = Tokens(device.ids(count, 16))
            write = lambda start=start: task.generate(start, length, cache=zoo.Cache(capacity=16 + length))  # noqa: E731
            yield {"way": way, "batch": count, "tokens/s": count * length / device.seconds(write, times=3, warm=1)}


PARTS: dict[str, Callable[[Device], Iterator[Figures]]] = {
    "train": train,
    "attention": attention,
    "masked": masked,
    "image": image,
    "decode": decode,
}


def shown(figures: Figures) -> str:
    def told(value: Any) -> str:
        return (
            f"{value:,.3g}"
            if isinstance(value, float) and value < 100
            else f"{value:,.0f}"
            if isinstance(value, float)
            else str(value)
        )

    return "  ".join(f"{name} {told(value)}" for name, value in figures.items() if value is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--small", action="store_true", help="toy sizes, on any device")
    given = parser.parse_args()
    console = Console(width=130)
    if not given.small and not (torch.cuda.is_available() and torch.cuda.is_bf16_supported()):
        console.print("there is no GPU with bfloat16 here: nothing was measured", style="yellow")
        return 1
    device, begun = Device(given.small), time.monotonic()
    name = torch.cuda.get_device_name() if device.kind == "cuda" else "CPU, toy sizes"
    console.print(f"{name}, torch {torch.__version__}, timm {installed('timm')}", highlight=False)
    torch.set_float32_matmul_precision("high")
    found: list[Figures] = []
    for part in given.parts:
        for figures in PARTS[part](device):
            found.append({"part": part, **figures})
            console.print(f"{time.monotonic() - begun:4.0f} s  {part:<9}  {shown(figures)}", highlight=False)
            if given.json:
                given.json.write_text(json.dumps({"device": name, "figures": found}, indent=1) + "\n", "utf-8")
            if time.monotonic() - begun > 60 * given.minutes:
                console.print(f"the time is over in the midst of {part}; what follows was left out", style="yellow")
                return 0
        if device.kind == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
