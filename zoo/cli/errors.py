"""Turns exceptions into one line and an exit code, and silences what libraries say that no user can act on."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

from zoo.heartbeat import heart
from zoo.secrets import told

USAGE, RUN, INTERRUPTED = 2, 1, 130  # exit codes

# A user can cause these and can mend them; anything else is ours to mend and keeps its traceback.
EXPECTED = ("ValueError", "OSError", "ImportError", "MisconfigurationException", "OutOfMemoryError")
EXPECTED_TEXT = re.compile(
    r"Error\(s\) in loading state_dict|PytorchStreamReader|Weights only load failed|out of memory"
    r"|should equal the world size"
)
WORKER = re.compile(r"^Caught \w+ in (DataLoader worker|pin memory|replica)")
MISSING = re.compile(r"(\w+)\.__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
WRAPPERS = ("Does not validate against any", "Call to compute_fn")  # jsonargparse, around what a constructor raised
KEY_ADVICE = "W&B refused the API key: run 'wandb login', or set WANDB_MODE=offline to record without an account."

ADVERTS = re.compile(
    r"💡|litlogger|GPU available|TPU available|already configured with model summary|`Trainer.fit` stopped: `max_"
    r"|Initializing distributed|distributed_backend=|Restor(ing|ed all) states from the checkpoint"
    r"|Loaded model weights from the checkpoint"
)
NOISE = (
    r".*The dirpath has changed from",
    r".*could not find the monitored key in the returned metrics",
    r".*is smaller than the logging interval",
    r".*wandb.api and wandb.ensure_configured",
    r".*tensorboardX. has been removed",
    r".*does not have many workers which may be a bottleneck",
    r".*LeafSpec.* is deprecated",
    r".*Total length of .* across ranks is zero",
    r".*Experiment logs directory .* exists and is not empty",
    r".*Checkpoint directory .* exists and is not empty",
    r".*It is recommended to use .self.log.*sync_dist=True",
    r".*There is a wandb run already in progress",
    r".*jsonargparse.*deprecat",
    r".*you defined a .validation_step. but have no .val_dataloader",
    r".*isinstance\(treespec, LeafSpec\)",
    r".*Trying to infer the .batch_size. from an ambiguous collection",
    r".*WeightAveraging callback with a model that overrides",
    r".*WeightAveraging callback, but loading a checkpoint outside",
)


class UserError(Exception):
    """One sentence for the user, with the exit code that goes with it."""

    def __init__(self, message: str, code: int = RUN):
        super().__init__(message)
        self.code = code


def guarded(run: Callable[[], Any]) -> int:
    """Runs, and answers with an exit code; what a user can mend is told in one line.  Of one process of several, only
    whoever watches over them all is told."""
    try:
        run()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):  # Lightning turns Ctrl-C into exit code 1
            return INTERRUPTED
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:
        line = one_line(error)
        code = error.code if isinstance(error, UserError) else RUN
        line = None if os.environ.get("ZOO_TRACEBACK") else line and told(line)
        if heart.watched:
            heart.failed(error, code, line)
            return code
        if line is None:
            raise
        print(f"zoo: error: {line}", file=sys.stderr)
        return code


def one_line(error: BaseException) -> str | None:
    """What to tell the user, or None for what is not the user's doing."""
    error = unwrapped(error)
    text = str(error).strip()
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, UserError):
        return text
    if "No API key configured" in text or "api_key not configured" in text:
        return KEY_ADVICE
    missing = MISSING.search(text)
    if isinstance(error, TypeError) and missing:
        return f"{missing[1]} also needs {missing[2]}"
    if not names & set(EXPECTED) and not EXPECTED_TEXT.search(text):
        return None
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if WORKER.match(text):  # "Caught ValueError in DataLoader worker process 0.", a traceback, "ValueError: text"
        return lines[-1].split(": ", 1)[-1]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def unwrapped(error: BaseException) -> BaseException:
    """What a constructor raised, without what the parser put around it."""
    while error.__cause__ and str(error).startswith(WRAPPERS):
        error = error.__cause__
    return error


def quiet() -> None:
    """Silences notices that are about libraries, not about the user's run."""
    for pattern in NOISE:
        warnings.filterwarnings("ignore", pattern)
    warnings.filterwarnings("ignore", module="PIL")  # about files that it goes on to refuse, or reads
    for name in ("pytorch.utilities.rank_zero", "fabric.utilities.rank_zero", "fabric.utilities.distributed"):
        logging.getLogger(f"lightning.{name}").addFilter(worth_reading)
    logging.getLogger("lightning.fabric.utilities.seed").setLevel(logging.WARNING)


def worth_reading(record: logging.LogRecord) -> bool:
    return not ADVERTS.search(record.getMessage())
