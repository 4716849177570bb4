"""A masked language model and batches whose samples differ in length, also from batch to batch."""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

import zoo
from zoo.tokenizers import Batch


def task(depth: int = 3) -> zoo.MaskedLM:
    torch.manual_seed(0)
    return zoo.MaskedLM(zoo.BERT(dim=32, depth=depth, heads=2), zoo.BPE("docs-2048"))


def batches(count: int, samples: int = 8) -> list[Batch]:
    """Every third one has samples of one length, so without padding."""
    generator, tokenizer = torch.Generator().manual_seed(1), zoo.BPE("docs-2048")
    found = []
    for number in range(count):
        lengths = torch.randint(4, 120, (samples,), generator=generator).tolist()
        lengths = [20 + number] * samples if number % 3 == 2 else lengths
        rows = [torch.randint(300, 2000, (length,), generator=generator) for length in lengths]
        keys = torch.arange(samples) + number * samples
        found.append(Batch(tokenizer.collate(rows), key=keys))
    return found


class Losses(pl.Callback):
    """Of each training batch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        self.found.append(float(outputs["loss"]))


def trained(module: zoo.Task, data: list[Batch], *callbacks: pl.Callback, **options) -> list[float]:
    losses = Losses()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "accelerator": "cpu", "max_epochs": 1, **options}
    trainer = pl.Trainer(callbacks=[*callbacks, losses], **quiet)
    trainer.fit(module, DataLoader(data, batch_size=None))
    return losses.found
