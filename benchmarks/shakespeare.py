"""What 2,000 steps on Shakespeare's letters teach the same 0.80M parameters: nanoGPT's recipe, and ours with AdamW and
with Muon, in turns.

    python benchmarks/shakespeare.py input.txt [--nanogpt DIR] [--seeds 3] [--out shakespeare]

``input.txt`` is data/tinyshakespeare/input.txt of the repository karpathy/char-rnn, DIR has nanoGPT's model.py.  Scores
are nats a letter over the whole last tenth of the text, in blocks of 64; seconds are those of training without
validation.  Writes curves.png, scores.json and our runs into the folder ``out``.
"""

# Shapes: N blocks, B blocks at once, T letters.

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

BLOCK, BATCH, STEPS, EVERY = 64, 12, 2000, 500
CONFIGS = {"AdamW": ["gpt_shakespeare"], "Muon": ["gpt_shakespeare", "gpt_shakespeare_muon"]}
PEER = "nanoGPT"


@dataclass
class Training:
    """One of them: validation losses (nats a letter) at steps, and how long the steps took."""

    recipe: str
    seed: int
    steps: list[float]
    losses: list[float]
    seconds: float


def ours(recipe: str, text: Path, seed: int, out: Path) -> Training:
    """By the command line, in a process of its own."""
    from zoo.runs import read

    folder = out / f"{recipe}-{seed}"
    named = [word for config in CONFIGS[recipe] for word in ("--config", config)]
    words = [f"--seed_everything={seed}", f"--data.init_args.root={text}", f"--trainer.default_root_dir={folder}"]
    command = [sys.executable, "-m", "zoo", "fit", *named, *words, "--trainer.enable_progress_bar=false"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (run,) = read(folder)
    steps, losses = run.points("val/loss")
    return Training(recipe, seed, steps, losses, run.reached("seconds") or math.nan)


def nanogpt(folder: Path, text: Path, seed: int) -> Training:
    """Its model with the settings of its README for a CPU: its AdamW, 100 steps of warm-up, a cosine from 1e-3 down to
    1e-4, gradients clipped at 1, no dropout, blocks from anywhere in the text."""
    torch.manual_seed(seed)
    module = load(folder / "model.py")
    train, val = letters(text)
    sizes = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": BLOCK, "vocab_size": int(train.max()) + 1}
    model = module.GPT(module.GPTConfig(**sizes, dropout=0.0, bias=False))
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")
    done = Training(PEER, seed, [], [], 0.0)
    for step in range(STEPS):
        begun = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        places = torch.randint(len(train) - BLOCK, (BATCH, 1)) + torch.arange(BLOCK + 1)
        rows = train[places]
        _, loss = model(rows[:, :-1], rows[:, 1:].contiguous())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        done.seconds += time.perf_counter() - begun
        if (step + 1) % EVERY == 0:
            done.steps.append(step + 1)
            done.losses.append(validate(lambda rows: model(rows[:, :-1], rows[:, 1:].contiguous())[1], val))
    return done


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path}: no such file; give the folder of nanoGPT's model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def letters(text: Path) -> tuple[Tensor, Tensor]:
    """The ids of the first nine tenths and of the last."""
    content = text.read_text(encoding="utf8")
    places = {letter: i for i, letter in enumerate(sorted(set(content)))}
    ids = torch.tensor([places[letter] for letter in content])
    return ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]


@torch.no_grad()
def validate(loss: Callable[[Tensor], Tensor], ids: Tensor) -> float:
    """The mean over all blocks, each predicted from its own beginning, of (B, T + 1) rows of ids; as ours are."""
    blocks = ids[: len(ids) // (BLOCK + 1) * (BLOCK + 1)].view(-1, BLOCK + 1)
    return sum(float(loss(rows)) * len(rows) for rows in blocks.split(128)) / len(blocks)


def rate(step: int) -> float:
    if step < 100:
        return 1e-3 * (step + 1) / 101
    return 1e-4 + (1e-3 - 1e-4) * (1 + math.cos(math.pi * (step - 100) / (STEPS - 100))) / 2


def draw(trainings: list[Training], path: Path) -> None:
    """Losses by step, a thin line a seed, the mean of each recipe beside the end of its lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    recipes = list(dict.fromkeys(training.recipe for training in trainings))
    for colour, recipe in zip(("#888888", "#2a6fbb", "#c8553d"), recipes):
        own = [training for training in trainings if training.recipe == recipe]
        for training in own:
            ax.plot(training.steps, training.losses, color=colour, linewidth=1, marker="o", markersize=2.5)
        end = statistics.mean(training.losses[-1] for training in own)
        ax.annotate(f"{recipe} {end:.3f}", (STEPS, end), (6, 0), textcoords="offset points", va="center", color=colour)
    ax.set(xlabel="step", ylabel="validation loss, nats a letter", xlim=(0, STEPS * 1.25))
    ax.set_xticks(range(0, STEPS + 1, EVERY))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#ececec")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--nanogpt", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("shakespeare"))
    options = parser.parse_args()
    text, out = options.text.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    recipes = [*([PEER] if options.nanogpt else []), *CONFIGS]
    done: list[Training] = []
    for seed in range(options.seeds):
        for recipe in recipes:
            done.append(nanogpt(options.nanogpt, text, seed) if recipe == PEER else ours(recipe, text, seed, out))
            print(f"{recipe:8} seed {seed}  {done[-1].losses[-1]:.3f}  {done[-1].seconds:.0f} s", flush=True)
            (out / "scores.json").write_text(json.dumps([asdict(training) for training in done], indent=1))
    for recipe in recipes:
        own = [training for training in done if training.recipe == recipe]
        loss, seconds = (statistics.mean(x) for x in zip(*((t.losses[-1], t.seconds) for t in own), strict=True))
        print(f"{recipe:8} mean of {len(own)}  {loss:.3f}  {seconds:.0f} s, {1000 * seconds / STEPS:.1f} ms a step")
    draw(done, out / "curves.png")


if __name__ == "__main__":
    main()
