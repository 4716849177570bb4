"""What a callback has to log at a training step."""

from lightning.pytorch import LightningModule

from zoo.tasks import Task


def note(module: LightningModule, scores: dict[str, float]) -> None:
    """In the row of metrics that a task writes at the end of an interval, else as Lightning does."""
    if isinstance(module, Task):
        module.note(scores)
    else:
        module.log_dict(scores, batch_size=1)
