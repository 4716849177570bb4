"""One label for a whole sequence, whatever it is made of."""

# Shapes: B batch, T tokens, D model width, C classes.

from collections.abc import Callable

import torch
import torch.nn.functional as F
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from zoo.nn import Backbone, HeadFactory, Init, Mean, Pool, Project
from zoo.pictures import Column, Confusion, Picture, Sheet
from zoo.tasks.metrics import every
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import decoded
from zoo.tasks.task import Task, extended
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
        settle(classes, labels)
        self.tokenizer, self.classes, self.labels = tokenizer, classes, labels
        self.label_smoothing = label_smoothing
        self.embed = tokenizer.embed(backbone.dim)
        self.pool = pool(backbone.dim)
        self.backbone = backbone
        self.make_head = head
        self.drop, self.head = nn.Dropout(dropout), head(backbone.dim, classes, None)
        self.begin(backbone, "embed", "pool", "head")
        self.kept: list[Tensor] = []  # (2, B) true and predicted classes of the samples that were evaluated
        self.confusion: Tensor | None = None  # (C, C) counts of them in the last evaluation, a row a true class

    def setup(self, stage: str) -> None:
        super().setup(stage)
        names = getattr(self.trainer.datamodule, "classes", None) or []
        if self.labels is None and len(names) == self.classes:  # a saved model tells its classes' names
            self.labels = self.hparams["labels"] = [str(name) for name in names]

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens -> (B, C) logits."""
        states, padding = self.states(tokens)
        return self.forward_head(states, padding=padding)

    def states(self, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        return extended(tokens, self.embed, self.pool, self.backbone)

    def forward_head(self, states: Tensor, pre_logits: bool = False, padding: Tensor | None = None) -> Tensor:
        x = self.pool(states, padding)
        return x if pre_logits else self.head(self.drop(x))

    def observe(self, batch: Batch) -> None:
        self(batch.input)

    @property
    def num_classes(self) -> int:
        """C (timm: the same)."""
        return self.classes

    def get_classifier(self) -> nn.Module:
        """The head (timm: the same)."""
        return self.head

    def reset_head(self, classes: int, labels: list[str] | None = None) -> None:
        """A new head for other classes, called ``labels``; all else stays.  Checkpoints of the task, and ``zoo.save``,
        tell of it as if it had been there from the start.  Raises ValueError as the class does."""
        settle(classes, labels)
        old = next(self.parameters())
        self.head = self.make_head(self.backbone.dim, classes, None)
        Init(self.backbone.init.std)(self.head, name="head")  # the backbone's own may be a checkpoint, with a head
        self.head.to(old.device, old.dtype)
        self.classes, self.labels = classes, labels
        self.kept, self.confusion = [], None
        for arguments in (self._arguments or {}, self.hparams):
            arguments.update(classes=classes, labels=labels)

    def reset_classifier(self, num_classes: int) -> None:
        """``reset_head`` by the name that it has in timm."""
        self.reset_head(num_classes)

    def step(self, batch: Batch, training: bool) -> Scores:
        logits, label = self(batch.input).float(), batch.label
        if label is None:
            raise ValueError("Classify needs labels, and this data has none; give it a label key or class folders")
        if label.dim() == 1 and int(label.max()) >= self.classes:
            raise ValueError(f"label {int(label.max())} is out of range for {self.classes} classes")
        smoothing = self.label_smoothing if training else 0.0
        loss = F.cross_entropy(logits, label, label_smoothing=smoothing, reduction="sum")
        truth = label if label.dim() == 1 else label.argmax(-1)
        if not training:
            self.kept.append(torch.stack((truth, logits.detach().argmax(-1))))
        count = torch.tensor(len(label), device=loss.device)
        return {"loss": (loss, count), "accuracy": ((logits.argmax(-1) == truth).sum(), count)}

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """(B, C) class probabilities."""
        return self(batch.input).float().softmax(-1)

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self.kept = []

    def measure(self, texts: list[tuple[str, str]]) -> dict[str, float]:
        """Which classes were taken for which, over the whole split; kept for the pictures."""
        kept, self.kept = every([pairs.cpu() for pairs in self.kept]), []
        if kept:
            truth, guess = torch.cat(kept, 1)
            counts = torch.bincount(truth * self.classes + guess, minlength=self.classes**2)
            self.confusion = counts.view(self.classes, self.classes)
        return {}

    def sheets(self, batch: Batch) -> list[Picture]:
        names = self.labels or [str(i) for i in range(self.classes)]
        found: list[Picture] = []
        if self.confusion is not None:
            found.append(Confusion("confusion", "Which classes are taken for which", self.confusion, names))
        if batch.label is not None:
            truth = (batch.label if batch.label.dim() == 1 else batch.label.argmax(-1)).tolist()
            shares, guess = (part.tolist() for part in self.predict_step(batch, 0).max(-1))
            verdicts = [
                [(names[g], "right" if g == t else "wrong"), (f" {share:.0%}", "")]
                for g, t, share in zip(guess, truth, shares, strict=True)
            ]
            parts = [
                decoded("sample", self.tokenizer, batch.input),
                Column("class", "text", [names[t] for t in truth]),
                Column("predicted", "text", verdicts),
            ]
            found.append(Sheet("samples", "Predicted classes and their probabilities", parts))
        return found


def settle(classes: int, labels: list[str] | None) -> None:
    """Raise ValueError where there are too few classes, or not as many as names."""
    if classes < 2:
        raise ValueError(f"classes={classes}: there is nothing to tell apart; the data needs labels of two kinds")
    if labels is not None and len(labels) != classes:
        raise ValueError(f"labels={labels} names {len(labels)} classes and there are {classes}")
