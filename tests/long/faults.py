"""A callback by which one process of several fails in training, once; copied to where the run is."""

import ctypes
import os
import signal
import time
from pathlib import Path

from lightning.pytorch import Callback

KINDS = {
    "raise": lambda: 1 / 0,
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit(0)": lambda: os._exit(0),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(3600),
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


class Fault(Callback):
    """Before batch ``step`` of training, what the file "fault" in the working directory names: KIND RANK.  It is
    renamed to "failed" then, so that the run that goes on does not fail again."""

    def __init__(self, step: int):
        self.step = step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        file = Path("fault")
        if trainer.global_step != self.step or not file.exists():
            return
        kind, rank = file.read_text(encoding="utf-8").split()
        if trainer.global_rank == int(rank):
            file.rename("failed")
            os.utime("failed")
            KINDS[kind]()
