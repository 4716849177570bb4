"""What Weights & Biases is told of a run: everything that the run directory says, in the same words."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, WandbLogger

from zoo.cli.errors import USAGE, UserError
from zoo.runs import direction
from zoo.runs.units import AXES
from zoo.secrets import on_command_line, without_secrets

WITHOUT_ACCOUNT = ("offline", "disabled", "dryrun")  # values of WANDB_MODE
ADVICE = (
    "W&B has no API key, so this run is recorded offline: 'wandb login' and then 'wandb sync wandb/offline-run-*' send "
    "it; WANDB_MODE=offline says that you want it so."
)


def chosen(given: Any) -> list[Any]:
    """The parts of a config's ``trainer.logger`` that are W&B's."""
    items = [item for item in (given if isinstance(given, list) else [given]) if item]
    return [item for item in items if str(getattr(item, "class_path", "")).endswith("WandbLogger")]


def prepare(given: Any) -> bool:
    """Before the loggers are built: is W&B asked for without a key?  Then the run is recorded offline, where W&B itself
    would wait for one to be typed.  Raises UserError where it is not installed."""
    loggers = chosen(given)
    if not loggers:
        return False
    try:
        wandb = importlib.import_module("wandb")
    except ModuleNotFoundError:
        raise UserError("W&B is not installed: pip install 'lightning-zoo[wandb]'", USAGE) from None
    os.environ.setdefault("WANDB_SILENT", "true")  # it would print a table of every metric at the end
    offline = os.environ.get("WANDB_MODE") in WITHOUT_ACCOUNT or all(logger.init_args.offline for logger in loggers)
    return not offline and not wandb.login(prompt=False)


def own(loggers: Iterable[Logger]) -> list[WandbLogger]:
    """Those of loggers that are W&B's."""
    return [logger for logger in loggers if isinstance(logger, WandbLogger)]


def complete(loggers: Iterable[Logger], verb: str, earlier: str | None, keyless: bool) -> None:
    """What W&B gets besides what the user gave: the verb as the job's type, the id of the run that is gone on with."""
    for logger in own(loggers):
        given = logger._wandb_init
        given.update(without_secrets({key: value for key, value in given.items() if key != "settings"}))
        given.pop("anonymous", None)  # Lightning hands it on, and W&B no longer knows it
        given["job_type"] = given.get("job_type") or verb
        given["id"] = given.get("id") or earlier
        given["dir"] = os.path.abspath(given.get("dir") or ".")  # W&B's own process may stand somewhere else
        if keyless:
            given["mode"] = "offline"
        if on_command_line(sys.argv):  # W&B writes it down
            given["settings"] = {**dict(given.get("settings") or {}), "x_disable_meta": True}


def begin(logger: WandbLogger, path: Path, config: dict[str, Any], found: dict[str, Any]) -> str:
    """Tells the whole config, nested as it is in config.yaml, and what the run is made with; the answer is its id."""
    run = logger.experiment
    run.config.update(config, allow_val_change=True)
    if logger._name is None:
        run.name = path.name
    for axis in AXES:
        if axis != "step":  # to choose in a chart's settings; hidden from the charts themselves
            run.define_metric(axis, hidden=True)
    logger.log_metrics = summarising(run, logger.log_metrics)
    summarise(logger, found)
    print(f"W&B: {run.url}" if run.url else f"W&B, offline: wandb sync {os.path.relpath(Path(run.dir).parent)}")
    return str(run.id)


def summarising(run: Any, log_metrics: Callable[..., None]) -> Callable[..., None]:
    """``log_metrics`` that tells W&B of each score of validation, before its first value, to keep the best of all its
    values, by which tables and sweeps sort: "val/loss.min", "val/accuracy.max".  A pattern would not do: Lightning has
    told one for all names, and which of two patterns holds is a matter of chance."""
    known: set[str] = set()

    def log(metrics: dict[str, float], step: int | None = None) -> None:
        for name in metrics:
            if name.startswith("val/") and name not in known:
                known.add(name)
                run.define_metric(name, step_metric="trainer/global_step", summary=f"{direction(name)},last")
        log_metrics(metrics, step)

    return log


def summarise(logger: WandbLogger, found: dict[str, Any]) -> None:
    """Into the summary, the columns of W&B's table of runs."""
    logger.experiment.summary.update(found)
