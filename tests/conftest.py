"""What all tests share: no network, no leftovers in the working directory, and the command line as a function."""

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lightning.pytorch  # noqa: F401 -- here, so that its log does not go to the captured output of one test
import pytest
import torch

from zoo.__main__ import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs behind it ignore Ctrl-C
torch.set_num_threads(1)  # tiny tensors: a second thread only waits, and fights with other processes

DIGITS = """\
# A small model of the embedded digits
trainer: {accelerator: cpu, max_epochs: 1, limit_train_batches: 2, limit_val_batches: 2, limit_test_batches: 2,
          enable_progress_bar: false, num_sanity_val_steps: 0, log_every_n_steps: 1}
model:
  class_path: zoo.Classify
  init_args:
    tokenizer: {class_path: zoo.Patches, init_args: {size: 8, patch: 4, channels: 1}}
    backbone: {class_path: zoo.ViT, init_args: {dim: 16, depth: 1, heads: 2, grid: 2, prefix: 0}}
data: {class_path: zoo.Images, init_args: {batch_size: 16}}
"""


@dataclass
class Answer:
    """What the command line said."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def seed() -> None:
    """A test that fails must fail again."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not depend on what a network or an account says."""
    for name in ("WANDB_API_KEY", "ZOO_TRACEBACK", "ZOO_RUN_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """``command("fit", "--config", "digits")`` in an empty directory that has ``digits.yaml``, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["zoo"])
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "digits.yaml").write_text(DIGITS)

    def run(*words: str) -> Answer:
        capfd.readouterr()
        code = main(list(words))
        said = capfd.readouterr()
        return Answer(code, said.out, said.err)

    return run
