"""Memory that a process has freed and will ask for again: kept, where the C library would give it back each time."""

from __future__ import annotations

import ctypes
import os
import platform

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of mallopt, <malloc.h>
NEVER = 2**31 - 1
OF_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_")

__all__ = ["keep_freed_memory"]


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, for training on a CPU; ``python -m zoo fit`` does so there.

    glibc asks the system for each large block, and gives it back once it is free, so the system clears the same pages
    for every step again.  After this call freed blocks stay in the process, which so keeps the most that it has needed.
    The answer: was anything changed?  Nothing is but on Linux with glibc, nor where the user has set one of malloc's
    variables for this (``MALLOC_MMAP_THRESHOLD_`` and its kin, or ``GLIBC_TUNABLES``).  Processes that are forked later
    inherit it, others do not.
    """
    tuned = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(name in os.environ for name in OF_USER)
    if tuned or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, NEVER))
