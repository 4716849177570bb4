"""``fit``, ``validate``, ``test`` and ``predict``: LightningCLI with our defaults, names and error messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from jsonargparse import ActionConfigFile, Namespace
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from zoo.callbacks.signals import ended_by_signals
from zoo.checkpoints.errors import naming
from zoo.checkpoints.read import glance
from zoo.cli import allow, configs, devices, explain, facts, last, limits, predictions, ranks, run, weights_and_biases
from zoo.cli.errors import USAGE, UserError, guarded, quiet
from zoo.cli.parsing import Remembering
from zoo.cli.record import Record, curves
from zoo.data.share import first_reader
from zoo.memory import keep_freed_memory
from zoo.tasks import Task

DEFAULTS = {"use_distributed_sampler": False, "gradient_clip_val": 1.0, "log_every_n_steps": 10}
EPOCHS = 10  # where a config sets no end


class ConfigFile(ActionConfigFile):
    """``--config``: a path or the name of a shipped config."""

    @staticmethod
    def apply_config(parser: Any, cfg: Any, dest: str, value: str) -> None:
        ActionConfigFile.apply_config(parser, cfg, dest, limits.config(value))


class Parser(Remembering):
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
        allow.add_to(parser)
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

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """No config decides whether a checkpoint may hold code: none may."""
        return {verb: {*left_out, "weights_only"} for verb, left_out in LightningCLI.subcommands().items()}

    def before_instantiate_classes(self) -> None:
        trainer = self._get(self.config, "trainer")
        limits.places(trainer, self._get(self.config, "ckpt_path", None), sys.argv[1:])
        devices.check(trainer, sys.argv[1:])
        self.choose_checkpoint()
        with limits.located(sys.argv[1:]), limits.made():
            self.share(trainer)
        if trainer.max_epochs is None and trainer.max_steps == -1 and trainer.max_time is None:
            trainer.max_epochs = EPOCHS
        if torch.cuda.is_available():
            torch.set_float32_matmul_precision("high")
        self.keyless = weights_and_biases.prepare(trainer.logger)
        if self.keyless and run.first():
            print(f"zoo: {weights_and_biases.ADVICE}", file=sys.stderr)

    def choose_checkpoint(self) -> None:
        """``--ckpt_path last`` as the path that it stands for; a given one is looked at before anything is built."""
        config = self.config[self.subcommand]
        checkpoint = config.get("ckpt_path")
        if checkpoint == last.WORD:
            found = last.find(self.title(), self.root(config.trainer), self.subcommand)
            config.ckpt_path = found and str(found)
        elif checkpoint and Path(checkpoint).is_file():
            glance(checkpoint)

    def title(self) -> str:
        """What the run is called: as its config, else as its task."""
        return configs.title(sys.argv[1:], self._get(self.config, "model").class_path.split(".")[-1].lower())

    @staticmethod
    def root(trainer: Namespace) -> Path:
        return Path(trainer.default_root_dir or run.ROOT)

    def instantiate_classes(self) -> None:
        with limits.located(sys.argv[1:]):
            super().instantiate_classes()

    def _run_subcommand(self, subcommand: str) -> None:
        if self.trainer.strategy.root_device.type == "cpu":
            keep_freed_memory()
            devices.ask_quickly()
        with limits.located(sys.argv[1:], kinds=(MisconfigurationException,)), naming(self.trainer):
            super()._run_subcommand(subcommand)

    def _set_seed(self) -> None:
        with limits.located(sys.argv[1:], "seed_everything"):
            super()._set_seed()

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        given = self._get(self.config_init, "trainer")
        if given.barebones:
            return super().instantiate_trainer(**kwargs)
        if given.fast_dev_run:
            return super().instantiate_trainer(**{"logger": False, **kwargs})
        self.model._log_hyperparams = self.datamodule._log_hyperparams = False  # Record gives W&B the whole config
        earlier = facts.read(Path(os.environ[run.SHARED])).get("wandb_id") if run.SHARED in os.environ else None
        path = self.directory(given)
        monitor = getattr(self.model, "monitor", ("val/loss", "min"))
        ours = run.trainer_arguments(given, path, monitor, training=self.subcommand == "fit")
        weights_and_biases.complete(ours["logger"], self.subcommand, earlier, self.keyless)
        with limits.made():
            return super().instantiate_trainer(**{**ours, **kwargs})

    def directory(self, trainer: Namespace) -> Path:
        """Where this run is kept."""
        verb = "" if self.subcommand == "fit" else f"-{self.subcommand}"
        return run.directory(self.title() + verb, self.root(trainer))

    def share(self, trainer: Namespace) -> None:
        """Where several processes are asked for, they are started before anything is built, each to do the whole, and
        this one watches over them."""
        count = ranks.processes(trainer)
        if count > 1:
            path = None if trainer.barebones or trainer.fast_dev_run else self.directory(trainer)
            checkpoint = self.config[self.subcommand].get("ckpt_path")
            words = [*sys.argv[1:], f"--ckpt_path={checkpoint or 'null'}"]  # the same in all of them
            raise SystemExit(ranks.supervise(words, count, trainer.num_nodes, path))

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
        own = self.trainer.predict(**arguments) or []
        found = predictions.everywhere(own if first_reader(self.trainer) else [])
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


def parsed() -> None:
    limits.begin(sys.argv[1:])
    with ranks.told():
        ZooCLI()


def main(argv: list[str]) -> int:
    ranks.join()
    quiet()
    os.environ.setdefault("WANDB_PROJECT", "zoo")
    began = run.SHARED not in os.environ
    if began and argv[0] == "fit" and configs.is_run(argv[1:]):
        os.environ[run.SHARED] = argv[1]  # a run that is gone on with keeps its directory
    # the processes of a distributed run are started with it
    sys.argv = [sys.argv[0], *configs.spell_nulls(configs.expand_run(argv))]
    with ended_by_signals():
        try:
            return guarded(parsed)
        finally:
            if "wandb" in sys.modules:
                sys.modules["wandb"].finish()
            if began:
                run.leave()
