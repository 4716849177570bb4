"""What ``plan`` foretells beside what training needs: ``python -m tests.long.plan`` trains each case for some steps in
a process of its own, and compares the most memory that it had, and the FLOPs of a step."""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

import zoo
from tests.long.report import Report
from zoo.callbacks.cost import ATTENTION, ATTENTION_BACKWARD, attention_backward_flops, attention_flops
from zoo.memory import keep_freed_memory
from zoo.planning import Subject
from zoo.planning.batch import Shape

STEPS = 3
MMAP_THRESHOLD, PAGE = -3, 4096  # of mallopt, <malloc.h>
MARGIN = 0.10  # of the measured figure
PRECISIONS = ("32-true", "bf16-mixed")


def causal(small: bool) -> Shape:
    width, depth, words = (32, 1, 512) if small else (384, 6, 50_257)
    task = zoo.CausalLM(zoo.GPT2(width, depth, 4 if small else 6, length=256), zoo.Ids(words, eos=0))
    return Shape(task, 2 if small else 4, 16 if small else 256, None)


def masked(small: bool) -> Shape:
    width, depth, words = (32, 1, 512) if small else (384, 6, 30_522)
    task = zoo.MaskedLM(zoo.BERT(width, depth, 4 if small else 6, length=256), zoo.Ids(words, mask=1))
    return Shape(task, 2 if small else 8, 16 if small else 256, None)


def images(small: bool) -> Shape:
    width, depth, heads = (32, 1, 4) if small else (192, 12, 3)
    task = zoo.Classify(zoo.ViT(width, depth, heads, grid=14, prefix=0), zoo.Patches(224, 16), classes=1000)
    return Shape(task, 2 if small else 16, 196, None)


def pairs(small: bool) -> Shape:
    width, depth, words = (32, 1, 512) if small else (384, 4, 32_128)
    trunk = zoo.T5(width, depth, 4 if small else 6, head_dim=width // (4 if small else 6), dropout=0.0)
    task = zoo.Seq2Seq(trunk, zoo.Ids(words, bos=0, eos=1))
    return Shape(task, 2 if small else 8, 16 if small else 128, 16 if small else 128)


CASES = {"causal": causal, "masked": masked, "images": images, "pairs": pairs}


def status(key: str) -> int:
    """A figure of this process in bytes: "VmRSS", what it has, or "VmHWM", the most that it had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {key}")


def train(shape: Shape, precision: str, checkpointing: bool, steps: int) -> None:
    """As Lightning does, with real weights."""
    task, batch = shape.task, shape.make()
    for part in task.modules():
        if isinstance(part, zoo.nn.Backbone):
            part.set_grad_checkpointing(checkpointing)
    task.trainer = zoo_trainer()
    optimizer = task.configure_optimizers()["optimizer"]
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            total, weight = task.step(batch, training=True)["loss"]
            loss = total / weight
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(task.parameters(), 1.0)
        optimizer.step()


def zoo_trainer():
    from lightning.pytorch import Trainer

    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)
    return Trainer(accelerator="cpu", max_steps=10, **silent)


def measured(name: str, precision: str, checkpointing: bool, heap: bool) -> None:
    """In a process of its own: prints the bytes that came on top of what it had before the model was built.

    The C library gives the pages of a tensor back as soon as it is freed; or, with its ``heap``, keeps them as ``fit``
    lets it do on a CPU, and fills the gaps less than perfectly."""
    if heap:
        keep_freed_memory()
    else:
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, PAGE)
    train(CASES[name](small=True), precision, checkpointing, 2)  # what is imported, compiled and kept for good
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    train(CASES[name](small=False), precision, checkpointing, STEPS)
    print(json.dumps(status("VmHWM") - before))


def foretold(name: str, precision: str, checkpointing: bool) -> float:
    with torch.device("meta"):
        shape = CASES[name](small=False)
    return Subject(shape.task, {"": shape}, precision).rehearse(checkpointing).peak().total


def counted(name: str) -> tuple[int, int]:
    """FLOPs of a step: foretold, and counted by torch while the real one runs."""
    with torch.device("meta"):
        shape = CASES[name](small=False)
    expected = sum(Subject(shape.task, {"": shape}).rehearse().flops.values())
    shape = CASES[name](small=False)
    formulas = dict.fromkeys(ATTENTION, attention_flops) | dict.fromkeys(ATTENTION_BACKWARD, attention_backward_flops)
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        total, weight = shape.task.step(shape.make(), training=True)["loss"]
        (total / weight).backward()
    return expected, counter.get_total_flops()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.plan", description=__doc__)
    parser.add_argument("--case", choices=CASES, help="one of them")
    parser.add_argument("--heap", action="store_true", help="with what the C library keeps, as 'fit' lets it")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        name, precision, checkpointing = options.inside
        measured(name, precision, checkpointing == "True", options.heap)
        return 0
    report, wrong = Report("plans beside what training needs"), 0
    for name in [options.case] if options.case else CASES:
        expected, found = counted(name)
        print(f"{name:8} FLOPs of a step: plan {expected:.5g}, counted {found:.5g}, {expected / found - 1:+.2%}")
        wrong += abs(expected / found - 1) > 0.01
        for precision in PRECISIONS:
            for checkpointing in (False, True):
                words = [sys.executable, "-m", "tests.long.plan", "--inside", name, precision, str(checkpointing)]
                words += ["--heap"] if options.heap else []
                answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
                plan, real = foretold(name, precision, checkpointing), int(answer)
                how = f"{precision}, {'computed again' if checkpointing else 'kept'}"
                sizes = f"plan {plan / 1e6:7.0f} MB, measured {real / 1e6:7.0f} MB"
                print(f"{name:8} {how:26} {sizes}, {plan / real - 1:+.1%}", flush=True)
                wrong += abs(plan / real - 1) > MARGIN
    report.row("figures of plans that are off by more than the margin", wrong, 0)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
