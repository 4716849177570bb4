"""What a run was made with, beside its config: sizes, data, revision, versions, device."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch import LightningModule, Trainer

import zoo
from zoo.atomic import replaced
from zoo.callbacks.throughput import flops

FILE = "summary.json"


def facts(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """What is known before a run begins."""
    weights = list(module.parameters())
    return {
        "run": Path(trainer.default_root_dir).name,
        "verb": str(getattr(trainer.state.fn, "value", trainer.state.fn)),
        "state": "running",
        "started": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "parameters": sum(weight.numel() for weight in weights),
        "trainable_parameters": sum(weight.numel() for weight in weights if weight.requires_grad),
        "data_fingerprint": getattr(trainer.datamodule, "fingerprint", None),
        "git": revision(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "lightning": lightning.__version__,
            "zoo": zoo.__version__,
        },
        "device": device(trainer),
        "processes": trainer.world_size,
        "precision": str(trainer.precision),
        "monitor": getattr(trainer.checkpoint_callback, "monitor", None),
    }


def price(trainer: Trainer) -> dict[str, Any]:
    """What is known once training has begun."""
    counted = flops(trainer)
    return {} if counted is None else {"flops_per_sample": counted}


def revision() -> str | None:
    """The commit that the working directory stands at, with "+changes" where files differ from it; None outside git."""
    try:
        head = git("rev-parse", "--short=10", "HEAD")
        return head + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def device(trainer: Trainer) -> str:
    root = trainer.strategy.root_device
    return torch.cuda.get_device_name(root) if root.type == "cuda" else f"{processor()}, {root.type}"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def read(run: Path) -> dict[str, Any]:
    """A run's summary.json; empty where there is none or it is damaged."""
    try:
        found = json.loads((run / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(run: Path, found: dict[str, Any]) -> None:
    with replaced(run / FILE) as file:
        file.write(json.dumps(found, indent=2) + "\n")
