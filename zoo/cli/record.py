"""What a run leaves behind for whoever compares it: config.yaml, summary.json, learning curves; W&B gets the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback

from zoo.atomic import sweep, write_text
from zoo.callbacks import Stopped
from zoo.cli import facts, weights_and_biases
from zoo.cli.metrics_file import MetricsFile
from zoo.runs import draw, read
from zoo.secrets import without_secrets

SECTIONS = ("seed_everything", "trainer", "model", "data")  # the rest are arguments of one verb


class Record(SaveConfigCallback):
    """Writes down a run: its whole config and what it is made with when it begins, and how it ended."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{**kwargs, "save_to_log_dir": False})
        self.found: dict[str, Any] = {}
        self.rows: int | None = None  # of metrics.csv, that a checkpoint knows of

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lightning would write the config here."""

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        rows = [logger.count for logger in trainer.loggers if isinstance(logger, MetricsFile)]
        checkpoint["callbacks"][self.state_key] = {"rows": max(rows, default=0)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = state_dict["rows"]

    # ---- the beginning: once it is clear that a checkpoint fits, so that a mistake leaves no trace in an older run

    def begin(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.found and trainer.is_global_zero:
            self.save_config(trainer, pl_module, str(trainer.state.stage))

    def save_config(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        config = self.plain_config()
        path = Path(trainer.default_root_dir)
        path.mkdir(parents=True, exist_ok=True)
        for folder in (path, *filter(Path.is_dir, path.iterdir())):
            sweep(folder)  # what an earlier process of this run was writing when it was killed
        write_text(path / "config.yaml", yaml.safe_dump(config, sort_keys=False))
        before = facts.read(path)  # of a run that is gone on with
        self.found = {**before, **facts.facts(trainer, pl_module)}
        for logger in weights_and_biases.own(trainer.loggers):
            self.found["wandb_id"] = weights_and_biases.begin(logger, path, config, self.found)
        facts.write(path, self.found)

    def plain_config(self) -> dict[str, Any]:
        """The config as plain data: without what the data say by themselves, and without secrets."""
        config = yaml.safe_load(self.parser.dump(self.config, skip_none=False, skip_link_targets=False))
        config = {key: config[key] for key in SECTIONS if key in config}
        if config["model"]["init_args"].get("classes", 0) is None:  # not given: the data says it
            del config["model"]["init_args"]["classes"]
        return without_secrets(config)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.begin(trainer, pl_module)
        for logger in trainer.loggers:
            if isinstance(logger, MetricsFile):
                logger.rewind(trainer.global_step, self.rows)
        self.update(trainer, facts.price(trainer))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.begin(trainer, pl_module)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.begin(trainer, pl_module)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.begin(trainer, pl_module)

    # ---- the end

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.update(trainer, {"state": "finished"})

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        told = isinstance(exception, (KeyboardInterrupt, Stopped))
        self.update(trainer, {"state": "interrupted" if told else "failed"})

    def update(self, trainer: Trainer, more: dict[str, Any]) -> None:
        if not trainer.is_global_zero or not self.found:
            return
        self.found |= more
        facts.write(Path(trainer.default_root_dir), self.found)
        for logger in weights_and_biases.own(trainer.loggers):
            weights_and_biases.summarise(logger, more)


def curves(trainer: Trainer) -> Path | None:
    """The learning curves of a run that has ended, as a picture in its directory, and to W&B; None without metrics."""
    run = Path(trainer.default_root_dir)
    if not any(isinstance(logger, MetricsFile) for logger in trainer.loggers) or not (run / "metrics.csv").is_file():
        return None
    path = run / "pictures" / "curves.png"
    path.parent.mkdir(exist_ok=True)
    draw(read(run), path)
    for logger in weights_and_biases.own(trainer.loggers):
        logger.log_image("pictures/curves", [str(path)])
    return path
