"""What accelerators have: memory, and the most that they compute."""

from __future__ import annotations

import difflib
import os
import time
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Device:
    """``memory`` in bytes; FLOPs a second of dense products of matrices by the type of their factors, 0 where a device
    has no unit for it.  On a GPU ``float32`` is TensorFloat-32 where there is such a thing, as ``fit`` uses it."""

    name: str
    memory: float
    bfloat16: float
    float16: float
    float32: float

    def peak(self, precision: str) -> float:
        """At one of Lightning's precisions.  Raises ValueError where the device has no unit for its type."""
        kind = next((kind for start, kind in KINDS.items() if precision.startswith(start)), "float32")
        found = float(getattr(self, kind))
        if not found:
            raise ValueError(f"{self.name} has no units for {kind}, so not for precision={precision}; use {USE[kind]}")
        return found


KINDS = {"bf16": "bfloat16", "16": "float16"}  # how Lightning's names of precisions begin
USE = {"bfloat16": "16-mixed", "float16": "32-true"}

# The makers' data sheets, without sparsity, of SXM modules where there are several forms.  A GB is 10^9 bytes, which is
# less than drivers report: the rest is for the context, the kernels and what lies unused between blocks.
# NVIDIA: data sheets of the A10, A100, H100, H200, L40S, T4 and V100; HGX B200 in that of Blackwell, an eighth; for the
# RTX 4090 the white paper of the Ada architecture (products in float16, summed in float32).  AMD: that of the MI300X.
DEVICES = {
    device.name: device
    for device in (
        Device("a10", 24e9, 125e12, 125e12, 62.5e12),
        Device("a100-40", 40e9, 312e12, 312e12, 156e12),
        Device("a100-80", 80e9, 312e12, 312e12, 156e12),
        Device("b200", 180e9, 2250e12, 2250e12, 1125e12),
        Device("h100", 80e9, 989.4e12, 989.4e12, 494.7e12),
        Device("h200", 141e9, 989.4e12, 989.4e12, 494.7e12),
        Device("l40s", 48e9, 362e12, 362e12, 183e12),
        Device("mi300x", 192e9, 1307.4e12, 1307.4e12, 653.7e12),
        Device("rtx-4090", 24e9, 165.2e12, 165.2e12, 82.6e12),
        Device("t4", 16e9, 0, 65e12, 8.1e12),
        Device("v100-16", 16e9, 0, 125e12, 15.7e12),
        Device("v100-32", 32e9, 0, 125e12, 15.7e12),
    )
}
HERE = "cpu"


def device(name: str) -> Device:
    """By its name; "cpu" is this machine.  Raises ValueError for one that is not known."""
    if name == HERE:
        return here()
    if name not in DEVICES:
        near = difflib.get_close_matches(name, [*DEVICES, HERE], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join([*DEVICES, HERE])}"
        raise ValueError(f"no device {name!r} is known; {hint}")
    return DEVICES[name]


def here() -> Device:
    """This machine's memory, and what products of matrices of 1,024 x 1,024 reach on torch's threads: measured, in
    about a second."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Device(HERE, float(memory), *(measured(kind) for kind in (torch.bfloat16, torch.float16, torch.float32)))


def measured(kind: torch.dtype, size: int = 1024, seconds: float = 0.2) -> float:
    """FLOPs a second, the best of several products."""
    a = torch.ones(size, size, dtype=kind)
    best, end = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        start = time.perf_counter()
        a @ a
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best
