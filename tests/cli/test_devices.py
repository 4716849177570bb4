"""How torch is told to find out whether there is a GPU."""

import ctypes
import os

import pytest
import torch

from zoo.cli.devices import ask_quickly

VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_library_is_not_looked_for_at_each_step(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    ask_quickly()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    weight.sum().backward()
    optimizer.step()
    assert not torch.cuda.is_available()


def refuse(name):
    raise AssertionError(f"{name} was looked for")


def test_with_a_gpu_it_is_asked_as_lightning_wants(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ask_quickly()
    assert os.environ[VARIABLE] == "1"
