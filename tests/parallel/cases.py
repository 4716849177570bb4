"""Tiny tasks that several processes train together, and the one way in which all of them are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from tests.tasks.conftest import TOKENIZERS, backbone, batch
from zoo.checkpoints import AtomicCheckpointIO
from zoo.data.share import share
from zoo.generation import Generation
from zoo.models import BERT, GPT2, T5, DeBERTa, LLaMA, ViT
from zoo.nn import GLU, ALiBi, Attention, Backbone, Block, Causal, RMSNorm
from zoo.tasks import CausalLM, ChrF, Classify, Constant, Contrastive, MaskedLM, Multimodal, Seq2Seq, Task
from zoo.tokenizers import Batch, Tokens

STEPS, LENGTH = 3, 64
WRITING = {"metrics": [ChrF()], "generation": Generation(5)}
TEXT, IMAGE = TOKENIZERS["text"], TOKENIZERS["image"]


def normed() -> Backbone:
    """Queries and keys with a norm, whose weights all heads share; positions with a slope a head."""
    mixer = partial(Attention, heads=4, kv_heads=2, qk_norm=RMSNorm, mask=Causal(), bias=False)
    return Backbone(32, 2, partial(Block, mixer=mixer, ffn=GLU), position=ALiBi, last_norm=RMSNorm)


def several(**how: Any) -> Multimodal:
    tasks = {name: partial(CausalLM, tokenizer=IMAGE) for name in ("these", "those")}
    return Multimodal(backbone(Causal()), tasks, **how)


TASKS: dict[str, tuple[Callable[..., Task], Any]] = {
    "masked": (lambda **how: MaskedLM(BERT(32, 2, 4, length=LENGTH), TEXT, **how), batch("text")),
    "causal": (lambda **how: CausalLM(GPT2(32, 2, 4, length=LENGTH), TEXT, **how), batch("text")),
    "untied": (lambda **how: CausalLM(LLaMA(32, 2, 4, 2, 64), TEXT, tie=False, **how), batch("text")),
    "normed": (lambda **how: CausalLM(normed(), TEXT, **how), batch("text")),
    "seq2seq": (lambda **how: Seq2Seq(T5(32, 2, 4, 8, 64), TEXT, **how), batch("text", "text")),
    "disentangled": (lambda **how: MaskedLM(DeBERTa(32, 2, 4, furthest=16), TEXT, **how), batch("text")),
    "classify": (lambda **how: Classify(ViT(32, 2, 4, grid=4, prefix=0), IMAGE, 3, **how), batch("image")),
    "contrastive": (lambda **how: Contrastive(backbone(), TEXT, **how), batch("text", "text")),
    "multimodal": (several, {name: batch("image") for name in ("these", "those")}),
}
OPTIMIZERS = {
    "AdamW": partial(torch.optim.AdamW, lr=3e-3),
    "SGD": partial(torch.optim.SGD, lr=0.3, momentum=0.5),
}


def rows(data: Any, rank: int, world: int) -> Any:
    """Every so-manieth sample of a batch."""
    if isinstance(data, dict):
        return {name: rows(part, rank, world) for name, part in data.items()}
    if isinstance(data, Batch):
        parts = {name: getattr(data, name) for name in ("input", "target", "label", "key")}
        return replace(data, **{name: rows(part, rank, world) for name, part in parts.items()})
    if isinstance(data, Tokens):
        return Tokens(data.value[rank::world], None if data.padding is None else data.padding[rank::world])
    return None if data is None else data[rank::world]


class Shared(pl.LightningDataModule):
    """The same batch again and again, of which each process reads its share."""

    def __init__(self, data: Any, count: int = STEPS):
        super().__init__()
        self.data, self.count = data, count

    def train_dataloader(self) -> DataLoader:
        return DataLoader([rows(self.data, *share(self.trainer))] * self.count, batch_size=None)

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


class Uneven(Shared):
    """In validation, a batch more for the first process."""

    def val_dataloader(self) -> DataLoader:
        rank, world = share(self.trainer)
        parts = [rows(self.data, i, 4) for i in range(3)]  # three batches of a sample each
        return DataLoader(parts[rank::world], batch_size=None)


class Watch(pl.Callback):
    """Writes down the loss of each step over all processes."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *rest: Any) -> None:
        loss = rest[1]["loss"].detach().clone()
        if trainer.world_size > 1:
            dist.all_reduce(loss)
        self.losses.append(float(loss) / trainer.world_size)


def trainer(folder: Any, *callbacks: pl.Callback, **arguments: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "barebones": False}
    quiet |= {"enable_model_summary": False, "accelerator": "cpu", "log_every_n_steps": 100, "max_epochs": -1}
    quiet |= {"num_sanity_val_steps": 0, "limit_val_batches": 0, "gradient_clip_val": 0.1}
    return pl.Trainer(
        default_root_dir=folder, callbacks=list(callbacks), use_distributed_sampler=False, **{**quiet, **arguments}
    )


def train(
    case: str,
    folder: Any,
    optimizer: str = "AdamW",
    path: Any = None,
    steps: int = STEPS,
    callbacks: Sequence[pl.Callback] = (),
    again: bool = False,
    **arguments: Any,
) -> tuple[list[float], Task, pl.Trainer]:
    """The losses of some steps, of those that were not made before a checkpoint was written, the trained task, and what
    trained it.  Blocks are computed ``again`` in the backward pass."""
    make, data = TASKS[case]
    torch.manual_seed(0)
    watch = Watch()
    task = make(optimizer=OPTIMIZERS[optimizer], schedule=Constant())
    task.set_grad_checkpointing(again)
    fitting = trainer(folder, watch, *callbacks, max_steps=steps, plugins=[AtomicCheckpointIO()], **arguments)
    fitting.fit(task, Shared(data, 2 * STEPS), ckpt_path=path, weights_only=True)
    return watch.losses, task, fitting


def validate(case: str, folder: Any, **arguments: Any) -> dict[str, float]:
    """The scores of a new task on batches that do not come out even, and the texts that it writes."""
    make, data = TASKS[case]
    torch.manual_seed(0)
    fitting = trainer(folder, limit_val_batches=1.0, **arguments)
    (scores,) = fitting.validate(make(**WRITING if case == "seq2seq" else {}), Uneven(data), verbose=False)
    return scores
