"""What figures were measured with, for the benchmarks: versions, processor, threads, and how fast it reads memory."""

from __future__ import annotations

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch


def about(*packages: str) -> dict[str, Any]:
    """By name; "GB/s" is measured with the threads that torch has now."""
    found: dict[str, Any] = {name: installed(name) for name in packages}
    return {**found, "processor": processor(), "threads": torch.get_num_threads(), "GB/s": bandwidth()}


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def bandwidth() -> float:
    """GB/s that are read by summing 1 GiB of floats, at best of 7 times."""
    values, taken = torch.ones(2**28), []
    for _ in range(7):
        begun = time.perf_counter()
        values.sum()
        taken.append(time.perf_counter() - begun)
    return round(values.nbytes / min(taken) / 1e9, 1)
