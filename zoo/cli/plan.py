"""``plan``: what training a config would cost, before a weight is allocated: parameters, FLOPs, memory and days."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

import torch
from jsonargparse import Namespace
from torch import nn

from zoo.cli import configs, limits, plan_report
from zoo.cli.arguments import Arguments
from zoo.cli.errors import USAGE, UserError, guarded, quiet
from zoo.cli.train import ZooCLI
from zoo.planning import HERE, Subject, device, shapes

EPILOG = """\
python -m zoo plan --config gpt2 --devices 64 --device h100 --tokens 300e9
python -m zoo plan --config gpt2 --model.backbone.depth=48 --batch_size 4 --precision bf16-mixed --device a100-80
python -m zoo plan runs/NAME --device cpu                        (this machine)

All other words are those of 'fit': configs, and values of theirs.  No weight is allocated, and data are read only where
neither the config nor --length says how long samples are."""


def main(argv: list[str]) -> int:
    options, words = arguments().parse_known_args(argv[1:])
    quiet()
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)  # trainers that never train
    return guarded(lambda: show(options, words))


def arguments() -> Arguments:
    parser = Arguments("plan", "What training would cost.", EPILOG)
    parser.add_argument("--devices", type=count, default=1, help="how many there are (%(default)s)")
    parser.add_argument("--device", default="h100", help="what they are: a100-80, h200, ..., cpu (%(default)s)")
    parser.add_argument("--tokens", type=amount, help="to train on, such as 300e9: says how long that takes")
    parser.add_argument(
        "--utilisation", type=share, default=0.4, help="share of the peak that is reached (%(default)s)"
    )
    parser.add_argument(
        "--flops", type=amount, help="the peak of one device, FLOPs a second, instead of its data sheet's"
    )
    parser.add_argument("--memory", type=amount, help="that of one device in bytes, likewise")
    parser.add_argument("--precision", help="32-true, bf16-mixed, ...: instead of the config's")
    parser.add_argument("--batch_size", type=count, help="samples of one device's batch, instead of the data's")
    parser.add_argument("--length", type=count, help="tokens of a sample, where the tokenizer does not fix them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def count(text: str) -> int:
    value = amount(text)
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(value)


def amount(text: str) -> float:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value


def share(text: str) -> float:
    value = amount(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: give 0 < utilisation <= 1, such as 0.4")
    return value


class Planned(ZooCLI):
    """Builds the task of a command line of ``fit`` on the meta device, and its data module; nothing else."""

    def before_instantiate_classes(self) -> None:
        """No run begins."""
        self.parser.add_instantiator(on_meta, nn.Module, subclasses=True, prepend=True)

    def instantiate_classes(self) -> None:
        with limits.located(sys.argv[1:]):
            made = self.parser.instantiate_classes(self.config)
        self.model, self.datamodule = self._get(made, "model"), self._get(made, "data")
        self.asked: Namespace = self._get(self.config, "trainer")

    def _run_subcommand(self, subcommand: str) -> None:
        """Nor is one run."""


def on_meta(kind: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
    kwargs.pop("applied_instantiation_links", None)
    with torch.device("meta"):
        return kind(*args, **kwargs)


def show(options: argparse.Namespace, words: list[str]) -> None:
    chip = device(options.device)
    peak = options.flops
    subject = read(options, configs.spell_nulls(configs.expand_run(["fit", *words])))
    found = plan_report.plan(
        subject,
        chip.name,
        options.devices,
        memory=options.memory or chip.memory,
        peak=peak or chip.peak(subject.precision),
        tokens=options.tokens,
        utilisation=options.utilisation,
    )
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        plan_report.show(found)


def read(options: argparse.Namespace, argv: list[str]) -> Subject:
    """What is to be planned."""
    if len(argv) == 1:
        raise UserError("plan needs a config, such as --config gpt2, or the directory of a run", USAGE)
    sys.argv = [sys.argv[0], *argv]  # where messages look for the place of a value
    limits.begin(argv)
    made = Planned()
    asked = made.asked
    precision = str(options.precision or asked.precision or "32-true")
    return Subject(
        made.model,
        shapes(made.model, made.datamodule, options.batch_size, options.length),
        precision,
        asked.gradient_clip_val,
        asked.accumulate_grad_batches,
        gpu=options.device != HERE,
    )
