"""The size of a model and the price of training it, before training starts."""

from __future__ import annotations

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelSummary
from rich.console import Console
from rich.table import Table

from zoo.callbacks.cost import gradient_bytes, optimizer_bytes, weight_bytes
from zoo.callbacks.throughput import flops
from zoo.parallel.shards import own_class
from zoo.runs.units import scaled


class Summary(ModelSummary):
    """Prints the parameters of each part, the FLOPs of training on one sample, and the memory of weights, gradients and
    optimizer, each over all devices; activations come on top."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Nothing yet: the optimizer is not there."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            console = Console(highlight=False)
            console.print(parts(pl_module))
            console.print(", ".join(costs(trainer, pl_module)), soft_wrap=True)


def parts(module: LightningModule) -> Table:
    table = Table("part", "class", "parameters", "trained", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for name, part in [*module.named_children(), ("all", module)]:
        counts = [(weight.numel(), weight.requires_grad) for weight in part.parameters()]
        if counts:
            trained = sum(count for count, wanted in counts if wanted)
            table.add_row(name, own_class(part).__name__, f"{sum(count for count, _ in counts):,}", f"{trained:,}")
    return table


def costs(trainer: Trainer, module: LightningModule) -> list[str]:
    """What a sample and the memory cost, a phrase each."""
    counted = flops(trainer)
    found = [] if counted is None else [f"{scaled(counted, 'FLOP')} a sample in training"]
    found += [f"weights {scaled(weight_bytes(module), 'B')}", f"gradients {scaled(gradient_bytes(module), 'B')}"]
    for optimizer in trainer.optimizers:
        kept = optimizer_bytes(optimizer)
        found += [] if kept is None else [f"{type(optimizer).__name__} {scaled(kept, 'B')}"]
    return found
