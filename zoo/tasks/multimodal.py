"""One set of weights on several modalities: tasks that share a backbone, each with its own tokenizer and head."""

from collections.abc import Callable

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import nn

from zoo.nn import Backbone
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.task import Task
from zoo.tokenizers import Batch, Scores


class Multimodal(Task):
    """Train several tasks around one ``backbone`` at once; the loss is the mean of theirs.

    A batch is a dictionary with a ``Batch`` for each task that has one left, as ``zoo.data.Combined`` yields it.
    A task's scores carry its name: "val/text/perplexity".
    """

    def __init__(
        self,
        backbone: Backbone,
        tasks: dict[str, Callable[[Backbone], Task]],
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        if not tasks:
            raise ValueError("Multimodal needs at least one task")
        self.backbone = backbone
        self.tasks = nn.ModuleDict({name: task(backbone) for name, task in tasks.items()})

    def forward(self, batch: dict[str, Batch | None]) -> dict[str, torch.Tensor]:
        """The states (B, T, D) of each task's batch."""
        return {name: self.tasks[name](part.input) for name, part in batch.items() if part is not None}

    def predict_step(self, batch: dict[str, Batch | None], batch_idx: int) -> dict:
        """What each task predicts for its batch."""
        return {
            name: self.tasks[name].predict_step(part, batch_idx) for name, part in batch.items() if part is not None
        }

    def step(self, batch: dict[str, Batch | None], training: bool) -> Scores:
        scores, losses = {}, []
        for name, part in batch.items():
            if part is not None:
                own = self.tasks[name].step(part, training)
                scores |= {f"{name}/{key}": value for key, value in own.items()}
                losses.append(own["loss"][0] / own["loss"][1])
        total = torch.stack(losses).sum()
        return {**scores, "loss": (total, torch.tensor(len(losses), device=total.device))}

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        derived = {}
        for name, task in self.tasks.items():
            own = {key.split("/", 1)[1]: value for key, value in means.items() if key.startswith(f"{name}/")}
            derived |= {f"{name}/{key}": value for key, value in task.derive(own).items()}
        return derived
