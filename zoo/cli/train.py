"""``fit``, ``validate``, ``test`` and ``predict``: LightningCLI with our defaults, names and error messages."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from jsonargparse import ActionConfigFile
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from zoo import EXPORTS
from zoo.cli import configs, devices, explain, facts, predictions, run, weights_and_biases
from zoo.cli.errors import USAGE, UserError, guarded, quiet
from zoo.cli.record import Record, curves
from zoo.tasks import Task

DEFAULTS = {"use_distributed_sampler": False, "gradient_clip_val": 1.0, "log_every_n_steps": 10}
EPOCHS = 10  # where a config sets no end


class ConfigFile(ActionConfigFile):
    """``--config``: a path or the name of a shipped config."""

    @staticmethod
    def apply_config(parser: Any, cfg: Any, dest: str, value: str) -> None:
        try:
            path = configs.resolve(value)
            explain.check_file(path)
        except ValueError as error:
            raise UserError(str(error), USAGE) from None
        ActionConfigFile.apply_config(parser, cfg, dest, path)


class Parser(LightningArgumentParser):
    """Accepts no abbreviations, and says what is wrong in one line instead of printing its usage."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def add_argument(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("action") is ActionConfigFile:
            kwargs["action"] = ConfigFile
        return super().add_argument(*args, **kwargs)

    def add_function_arguments(self, *args: Any, linked_targets: Any = None, **kwargs: Any) -> Any:
        """For a function in a class's place, such as ``zoo.load_backbone``: jsonargparse 4.53 hands it what its own
        method does not take."""
        return super().add_function_arguments(*args, **kwargs)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:
            super().error(message, ex)
        raise UserError(explain.explain(sys.argv[1:], message), USAGE) from ex


class ZooCLI(LightningCLI):
    """Any task with any data; ``data.classes`` tells a task how many classes there are."""

    def __init__(self) -> None:
        super().__init__(
            Task,
            LightningDataModule,
            save_config_callback=Record,
            trainer_defaults=DEFAULTS,
            seed_everything_default=0,
            parser_kwargs={"prog": "python -m zoo"},
            parser_class=Parser,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.link_arguments("data", "model.init_args.classes", compute_fn=self.count_classes, apply_on="instantiate")

    def count_classes(self, data: LightningDataModule) -> int | None:
        """For tasks with ``classes``: what the user gave, else the number that the data has."""
        model = self._get(self.config, "model")
        if "classes" not in model.init_args:  # jsonargparse drops the link of a task that takes none
            return None
        if model.init_args.classes is not None:
            return model.init_args.classes
        names = getattr(data, "classes", None)
        if not names:
            task = model.class_path.split(".")[-1]
            raise UserError(
                f"{task} needs the number of classes, and {type(data).__name__} has none: give it --model.classes"
            )
        return len(names)

    def _parse_ckpt_path(self) -> None:
        """Lightning would let the checkpoint's hyper-parameters win over the command line; the config says them all."""

    def before_instantiate_classes(self) -> None:
        trainer = self._get(self.config, "trainer")
        devices.check(trainer, sys.argv[1:])
        checkpoint = self._get(self.config, "ckpt_path", None)
        if checkpoint and Path(checkpoint).is_file() and not zipfile.is_zipfile(checkpoint):
            raise UserError(f"{checkpoint} is no checkpoint, or was cut off: give another one with --ckpt_path")
        if trainer.max_epochs is None and trainer.max_steps == -1 and trainer.max_time is None:
            trainer.max_epochs = EPOCHS
        if torch.cuda.is_available():
            torch.set_float32_matmul_precision("high")
        self.keyless = weights_and_biases.prepare(trainer.logger)
        if self.keyless and first():
            print(f"zoo: {weights_and_biases.ADVICE}", file=sys.stderr)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        given = self._get(self.config_init, "trainer")
        if given.barebones:
            return super().instantiate_trainer(**kwargs)
        if given.fast_dev_run:
            return super().instantiate_trainer(**{"logger": False, **kwargs})
        self.model._log_hyperparams = self.datamodule._log_hyperparams = False  # Record gives W&B the whole config
        name = configs.title(sys.argv[1:], type(self.model).__name__.lower())
        earlier = facts.read(Path(os.environ[run.SHARED])).get("wandb_id") if run.SHARED in os.environ else None
        root = Path(given.default_root_dir or run.ROOT)
        path = run.directory(name if self.subcommand == "fit" else f"{name}-{self.subcommand}", root)
        monitor = getattr(self.model, "monitor", ("val/loss", "min"))
        ours = run.trainer_arguments(given, path, monitor, training=self.subcommand == "fit")
        weights_and_biases.complete(ours["logger"], self.subcommand, earlier, self.keyless)
        return super().instantiate_trainer(**{**ours, **kwargs})

    def test(self, **arguments: Any) -> None:
        """What LightningCLI calls for the verb; Lightning would print sixteen digits of each score."""
        self.scores(self.trainer.test(**{**arguments, "verbose": False}))

    def validate(self, **arguments: Any) -> None:
        """Likewise."""
        self.scores(self.trainer.validate(**{**arguments, "verbose": False}))

    def scores(self, found: list[Mapping[str, float]]) -> None:
        if self.trainer.is_global_zero:
            for name, value in sorted((name, value) for scores in found for name, value in scores.items()):
                print(f"{name:<20} {value:.4g}")

    def predict(self, **arguments: Any) -> None:
        """What LightningCLI calls for the verb; it would throw the predictions away."""
        found = predictions.everywhere(self.trainer.predict(**arguments) or [])
        if self.trainer.is_global_zero:
            files = predictions.save(found, Path(self.trainer.default_root_dir))
            print(f"predictions of {len(found)} batches: {', '.join(map(str, files))}")

    def after_fit(self) -> None:
        if not self.trainer.is_global_zero or self.trainer.fast_dev_run:
            return
        record = next((part for part in self.trainer.callbacks if isinstance(part, Record)), None)
        if record and not record.found:
            print(
                f"nothing to do: step {self.trainer.global_step} is the end; --trainer.max_epochs=... sets a later one"
            )
        saver = self.trainer.checkpoint_callback
        if isinstance(saver, ModelCheckpoint) and saver.best_model_score is not None:
            print(f"best {saver.monitor} {float(saver.best_model_score):.4g}: {os.path.relpath(saver.best_model_path)}")
        elif isinstance(saver, ModelCheckpoint):
            kept = configs.checkpoint(Path(self.trainer.default_root_dir), "last")
            print(f"{saver.monitor} was never measured" + (f"; last: {os.path.relpath(kept)}" if kept else ""))
        drawn = curves(self.trainer)
        if drawn:
            print(f"learning curves: {os.path.relpath(drawn)}")


def first() -> bool:
    """Is this the process that the user started?"""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))) == 0


def main(argv: list[str]) -> int:
    if "" not in sys.path:
        sys.path.insert(0, "")  # a user's own parts are found beside the config, as with ``python -m``
    for module in EXPORTS:  # so that short class names are found
        importlib.import_module(module)
    quiet()
    os.environ.setdefault("WANDB_PROJECT", "zoo")
    began = run.SHARED not in os.environ
    if began and argv[0] == "fit" and configs.is_run(argv[1:]):
        os.environ[run.SHARED] = argv[1]  # a run that is gone on with keeps its directory
    # the processes of a distributed run are started with it
    sys.argv = [sys.argv[0], *configs.spell_nulls(configs.expand_run(argv))]
    try:
        return guarded(ZooCLI)
    finally:
        if "wandb" in sys.modules:
            sys.modules["wandb"].finish()
        if began:
            run.leave()
