"""Freed memory: kept where that was asked for, and given back as ever where the user decides or nobody asked."""

import os
import platform
import subprocess
import sys

import pytest

from zoo.cli import train
from zoo.memory import OF_USER, keep_freed_memory

BLOCK = 64 * 2**20
CODE = f"""
import ctypes, resource, zoo
asked = {{asked}} and zoo.keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(library.malloc(ctypes.c_size_t({BLOCK})))
    ctypes.memset(block, 1, {BLOCK})
    library.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(int(asked), min(faults() for _ in range(3)))
"""
needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")


def again(asked: bool, **variables: str) -> tuple[bool, int]:
    """(was anything changed, pages that the system had to clear for a block that was there before)."""
    clean = {name: value for name, value in os.environ.items() if name not in (*OF_USER, "GLIBC_TUNABLES")}
    command = [sys.executable, "-c", CODE.format(asked=asked)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env={**clean, **variables}).stdout
    changed, faults = out.split()
    return changed == "1", int(faults)


@needs_glibc
def test_a_block_that_was_freed_is_not_cleared_again():
    changed, faults = again(True)
    assert changed and faults < 20
    changed, faults = again(False)
    assert not changed and faults > 20


@needs_glibc
def test_the_variables_of_the_user_win():
    for variables in ({"MALLOC_MMAP_MAX_": "65536"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"}):
        changed, faults = again(True, **variables)
        assert not changed and faults > 20


def test_nothing_is_done_with_another_library(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr("ctypes.CDLL", None)
    assert not keep_freed_memory()


def test_the_command_line_asks_for_it_on_a_cpu(command, monkeypatch):
    calls = []
    monkeypatch.setattr(train, "keep_freed_memory", lambda: calls.append(1))
    assert command("fit", "--config", "digits", "--trainer.fast_dev_run=true").code == 0
    assert len(calls) == 1
