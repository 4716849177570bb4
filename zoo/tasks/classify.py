"""One label for a whole sequence, whatever it is made of."""

# Shapes: B batch, T tokens, D model width, C classes.

from collections.abc import Callable

import torch
import torch.nn.functional as F
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from zoo.nn import Backbone, HeadFactory, Mean, Pool, Project
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.task import Task, pooled
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens


class Classify(Task):
    """Tell classes apart: embed, backbone, pool, linear head, cross-entropy.

    From the command line ``classes`` follows from the data.  ``labels`` are their names, those of the data if not
    given.
    """

    monitor = ("val/accuracy", "max")

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        classes: int,
        labels: list[str] | None = None,
        pool: Callable[[int], Pool] = Mean,
        head: HeadFactory = Project,
        dropout: float = 0.0,
        label_smoothing: float = 0.0,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        if classes < 2:
            raise ValueError(f"classes={classes}: there is nothing to tell apart; the data needs labels of two kinds")
        if labels is not None and len(labels) != classes:
            raise ValueError(f"labels={labels} names {len(labels)} classes and there are {classes}")
        self.tokenizer, self.classes, self.labels = tokenizer, classes, labels
        self.label_smoothing = label_smoothing
        self.embed = tokenizer.embed(backbone.dim)
        self.pool = pool(backbone.dim)
        self.backbone = backbone
        self.drop, self.head = nn.Dropout(dropout), head(backbone.dim, classes, None)
        self.begin(backbone, "embed", "pool", "head")

    def setup(self, stage: str) -> None:
        super().setup(stage)
        names = getattr(self.trainer.datamodule, "classes", None) or []
        if self.labels is None and len(names) == self.classes:  # a saved model tells its classes' names
            self.labels = self.hparams["labels"] = [str(name) for name in names]

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens -> (B, C) logits."""
        return self.head(self.drop(self.features(tokens)))

    def features(self, tokens: Tokens) -> Tensor:
        """Tokens -> (B, D), what the head reads."""
        return pooled(tokens, self.embed, self.pool, self.backbone)

    def step(self, batch: Batch, training: bool) -> Scores:
        logits, label = self(batch.input).float(), batch.label
        if label is None:
            raise ValueError("Classify needs labels, and this data has none; give it a label key or class folders")
        if label.dim() == 1 and int(label.max()) >= self.classes:
            raise ValueError(f"label {int(label.max())} is out of range for {self.classes} classes")
        smoothing = self.label_smoothing if training else 0.0
        loss = F.cross_entropy(logits, label, label_smoothing=smoothing, reduction="sum")
        truth = label if label.dim() == 1 else label.argmax(-1)
        count = torch.tensor(len(label), device=loss.device)
        return {"loss": (loss, count), "accuracy": ((logits.argmax(-1) == truth).sum(), count)}

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """(B, C) class probabilities."""
        return self(batch.input).float().softmax(-1)
