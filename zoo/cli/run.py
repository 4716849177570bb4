"""One directory a run: config.yaml, metrics.csv and checkpoints/, the same in every process of the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from lightning.fabric.loggers import CSVLogger as PlainCSVLogger
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, ModelSummary
from lightning.pytorch.cli import SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger, Logger, WandbLogger
from rich.console import Console
from rich.table import Table

from zoo.callbacks import Throughput

SHARED = "ZOO_RUN_DIRECTORY"  # tells the processes that the first one starts where the run is kept
SECTIONS = ("seed_everything", "trainer", "model", "data")  # the rest are arguments of one verb


def directory(name: str, root: Path = Path("runs")) -> Path:
    """A new ``runs/NAME-DATE-TIME``, with ``-2`` and so on where that one is taken."""
    if SHARED in os.environ:
        return Path(os.environ[SHARED])
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = root / stem, 1
    while getattr(rank_zero_only, "rank", 0) in (0, None):
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
            path = root / f"{stem}-{number}"
    os.environ[SHARED] = str(path)
    return path


def leave() -> None:
    """Forget the run; a directory in which nothing was written goes too."""
    path = Path(os.environ.pop(SHARED, ""))
    if path.name and path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def trainer_arguments(given: dict[str, Any], path: Path, monitor: tuple[str, str]) -> dict[str, Any]:
    """What the run directory and our defaults change in the Trainer's arguments; what the user gave stays."""
    callbacks = given["callbacks"] or []
    callbacks = list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
    defaults: list[Callback] = [Throughput()]
    if given["enable_checkpointing"] is not False:
        defaults.append(best_and_last(monitor))
    if given["enable_model_summary"] is not False:
        defaults.append(Summary())
    kinds = (Throughput, ModelCheckpoint, ModelSummary)
    for default in defaults:
        kind = next(kind for kind in kinds if isinstance(default, kind))
        if not any(isinstance(callback, kind) for callback in callbacks):
            callbacks.append(default)
    for callback in callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(path / "checkpoints")
    return {"default_root_dir": str(path), "callbacks": callbacks, "logger": loggers(given["logger"], path)}


def loggers(given: Any, path: Path) -> list[Logger] | bool:
    """The user's loggers, with metrics.csv beside them."""
    if given is False:
        return False
    chosen = [] if given in (None, True) else list(given) if isinstance(given, Sequence) else [given]
    return chosen if any(isinstance(logger, CSVLogger) for logger in chosen) else [*chosen, MetricsFile(path)]


def best_and_last(monitor: tuple[str, str]) -> ModelCheckpoint:
    name, mode = monitor
    return ModelCheckpoint(
        filename="best", monitor=name, mode=mode, save_last=True, enable_version_counter=False, verbose=False
    )


class MetricsFile(CSVLogger):
    """metrics.csv in the run directory itself, and no second copy of the hyper-parameters beside config.yaml."""

    experiment = PlainCSVLogger.experiment  # type: ignore[assignment]

    def __init__(self, path: Path):
        super().__init__(str(path), name="", version="")

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def save(self) -> None:
        PlainCSVLogger.save(self)


class Summary(ModelSummary):
    """The size of each of the model's parts."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        table = Table("part", "class", "parameters", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        for name, part in [*pl_module.named_children(), ("all", pl_module)]:
            count = sum(parameter.numel() for parameter in part.parameters())
            if count:
                table.add_row(name, type(part).__name__, f"{count:,}")
        Console().print(table)


class RunConfig(SaveConfigCallback):
    """Writes the whole config to the run directory and to W&B."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{**kwargs, "save_to_log_dir": False})

    def save_config(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        config = yaml.safe_load(self.parser.dump(self.config, skip_none=False, skip_link_targets=False))
        config = {key: config[key] for key in SECTIONS if key in config}
        if config["model"]["init_args"].get("classes", 0) is None:  # not given: the data says it
            del config["model"]["init_args"]["classes"]
        path = Path(trainer.default_root_dir)
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                tell_wandb(logger, path, config, getattr(pl_module, "monitor", None))


def tell_wandb(logger: WandbLogger, path: Path, config: dict[str, Any], monitor: tuple[str, str] | None) -> None:
    run = logger.experiment
    run.config.update({**config, "run_directory": str(path)}, allow_val_change=True)
    given = config["trainer"]["logger"]
    named = [item.get("init_args", {}).get("name") for item in (given if isinstance(given, list) else [given]) if item]
    if not any(named):
        run.name = path.name
    if monitor:  # tables and sweeps sort by the best value rather than the last
        name, mode = monitor
        run.define_metric(name, step_metric="trainer/global_step", summary=f"{mode},last")
