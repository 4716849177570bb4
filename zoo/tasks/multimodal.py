"""One set of weights on several modalities: tasks that share a backbone, each with its own tokenizer and head."""

from collections.abc import Callable
from dataclasses import replace

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from zoo.nn import Backbone
from zoo.pictures import Picture
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.task import Task
from zoo.tokenizers import Batch, Scores, Tokens


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

    def tokens(self, x: object, target: bool = False) -> Tokens:
        raise ValueError(f"Multimodal has several tasks; ask one of .tasks: {', '.join(map(repr, self.tasks))}")

    def attention(self, x: dict[str, Batch | None], target: None = None) -> dict[str, Tensor]:
        """Those of each task's batch, with its name in front: "text/backbone.blocks.0.mixer"."""
        parts = {name: self.tasks[name].attention(part) for name, part in x.items() if part is not None}
        return {f"{name}/{path}": value for name, maps in parts.items() for path, value in maps.items()}

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

    def measure(self, texts: list[tuple[str, str]]) -> dict[str, float]:
        """What the tasks measure over a whole split."""
        return {f"{name}/{key}": score for name, task in self.tasks.items() for key, score in task.measure([]).items()}

    def sheets(self, batch: dict[str, Batch]) -> list[Picture]:
        """Those of each task, its name before theirs."""
        return [
            replace(sheet, name=f"{name}-{sheet.name}")
            for name, part in batch.items()
            for sheet in self.tasks[name].sheets(part)
        ]

    def looks(self, batch: dict[str, Batch]) -> list[Picture]:
        return [
            replace(sheet, name=f"{name}-{sheet.name}")
            for name, part in batch.items()
            for sheet in self.tasks[name].looks(part)
        ]
