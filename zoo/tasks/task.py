"""What all tasks share: embed -> backbone -> head -> score; a task says what is predicted from what."""

from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from typing_extensions import Self

from zoo.checkpoints.module import load_module
from zoo.described import Described, path
from zoo.nn import Attention, Backbone, Mean, Pool
from zoo.pictures import Picture
from zoo.secrets import without_secrets
from zoo.tasks.looking import last, within
from zoo.tasks.metrics import Meter, every
from zoo.tasks.optimized import Optimized
from zoo.tasks.remembered import refuse_conflicts
from zoo.tasks.row import watch, write
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.sharded import Sharded
from zoo.tasks.showing import still
from zoo.tasks.surface import Surface
from zoo.tasks.tuning import Tuning
from zoo.tasks.window import Window
from zoo.tokenizers import Batch, Embed, Scores, Tokenizer, Tokens


class Task(Described, Surface, Tuning, Optimized, Sharded):
    """Base of the LightningModules.  A subclass builds its parts and implements ``step``.

    Its whole composition is kept as plain data in ``hparams``: ``load_from_checkpoint(path)`` needs no arguments.
    """

    monitor = ("val/loss", "min")  # the score by which checkpoints are compared
    tokenizer: Tokenizer  # what the data module encodes its input with
    target_tokenizer: Tokenizer | None = None  # and the other half of a pair
    trained_steps = 0  # of the checkpoint that it was loaded from
    unread: dict[str, Tensor] = {}  # what its published checkpoint holds and the task does not use

    def __init__(self, optimizer: OptimizerCallable = torch.optim.AdamW, schedule: Schedule = WarmupCosine()):
        super().__init__()
        self.optimizer, self.schedule = optimizer, schedule
        self.meters = {stage: Meter() for stage in ("train", "val", "test")}
        self._logged, self._window = 0, Window()
        self.noted: dict[str, float] = {}  # what callbacks have to say in the next row of metrics
        if self._arguments is not None:
            loader = {"_class_path": path(type(self)), "_instantiator": "lightning.pytorch.cli.instantiate_module"}
            self.save_hyperparameters({**without_secrets(self._arguments), **loader}, logger=False)

    def begin(self, backbone: nn.Module, *parts: str) -> None:
        """Give the task's own parts their first values, by the rule of its backbone: random, or a checkpoint's."""
        for name in parts:
            backbone.init(getattr(self, name), name=name)

    def step(self, batch: Batch, training: bool) -> Scores:
        """The scores of a batch as sums and weights; the quotient of "loss" is what training makes small."""
        raise NotImplementedError

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        """Scores that follow from the means of others."""
        return {}

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: Any,
        map_location: Any = None,
        hparams_file: Any = None,
        strict: bool | None = None,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """As Lightning's, of a file that is whole: a damaged one is refused, and no code in it is run, whatever
        ``weights_only`` says.  Raises ValueError, in one sentence that names the file."""
        if hparams_file is not None:
            raise ValueError(f"hparams_file={str(hparams_file)!r}: the checkpoint has its hyper-parameters in itself")
        return load_module(cls, checkpoint_path, map_location, strict, kwargs)

    # ---- training

    def setup(self, stage: str) -> None:
        if stage == "fit" and not self.training:  # a loaded checkpoint is handed over in evaluation mode
            self.train()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.trained_steps = checkpoint.get("global_step", 0)
        if self._trainer is not None and self.trainer.state.fn == "fit":
            self._restore_interval(checkpoint.get("interval") or {"logged": 0, "sums": []})
            self._window = Window.restored(checkpoint.get("window") or [])
        remembered = checkpoint.get("hyper_parameters") or {}
        refuse_conflicts(self._arguments or {}, remembered, self.state_dict(), checkpoint.get("state_dict") or {})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps what each process has summed up since it was last logged, and what a step that has begun weighs."""
        checkpoint["interval"] = {"logged": self._logged, "sums": every([self.meters["train"].state()])}
        checkpoint["window"] = self._window.state()

    def _restore_interval(self, saved: dict[str, Any]) -> None:
        """Each process gets its own back; where there were more or fewer, the first gets all."""
        self._logged, sums, rank = saved["logged"], saved["sums"], self.trainer.global_rank
        own = sums[rank : rank + 1] if len(sums) == self.trainer.world_size else sums if rank == 0 else []
        self.meters["train"] = Meter.restored(*own)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        scores = self.step(batch, training=True)
        self.meters["train"].add(scores)
        return self.per_weight(*scores["loss"], batch_idx)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        if found := self.interval():
            write(self.trainer, {**self.noted, **found})
            self.noted = {}

    def note(self, scores: dict[str, float]) -> None:
        """Scores of a callback: seen at once by others, and logged with the interval that lasts, or ends, now."""
        watch(self.trainer, scores)
        self.noted |= scores

    def interval(self) -> dict[str, float]:
        """What is logged at the end of an interval, once: the means since the last one, over all processes, which all
        call this, and the learning rate; nothing in the midst of one."""
        step = self.trainer.global_step
        if step == self._logged or step % self.trainer.log_every_n_steps:
            return {}
        self._logged = step
        means = self.meters["train"].gather().means()
        self.meters["train"] = Meter()
        found = {f"train/{name}": value for name, value in {**means, **self.derive(means)}.items()}
        return {**found, "lr": self.trainer.optimizers[0].param_groups[0]["lr"]}

    # ---- evaluation

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.meters["val"].add(self.step(batch, training=False))

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self.meters["test"].add(self.step(batch, training=False))

    def on_validation_epoch_start(self) -> None:
        self.meters["val"] = Meter()

    def on_test_epoch_start(self) -> None:
        self.meters["test"] = Meter()

    def on_validation_epoch_end(self) -> None:
        self.report("val")

    def on_test_epoch_end(self) -> None:
        self.report("test")

    def report(self, stage: str) -> None:
        """Log the means over all batches of all processes."""
        self.accompany(stage)
        whole = self.meters[stage].gather()
        means = whole.means()
        means |= self.derive(means) | self.measure(whole.texts)
        self.log_dict({f"{stage}/{name}": value for name, value in means.items()}, prog_bar=True)

    def measure(self, texts: list[tuple[str, str]]) -> dict[str, float]:
        """Scores of generated texts against their references."""
        return {}

    # ---- pictures

    def show(self, batch: Batch) -> list[Picture]:
        """What the model does with a batch, to be looked at.  Deterministic; mode and random state stay as they are."""
        with still(self):
            return self.sheets(batch)

    def show_attention(self, batch: Batch) -> list[Picture]:
        """Who looks at whom in the last layer; else as ``show``."""
        with still(self):
            return self.looks(batch)

    def sheets(self, batch: Batch) -> list[Picture]:
        """The pictures of a task; called in evaluation mode, without gradients."""
        return []

    def looks(self, batch: Batch) -> list[Picture]:
        """Its pictures of attention, likewise."""
        maps = last(self.attention(batch))
        if maps is None:
            return []
        return within(self.tokenizer, batch.input, self.embed, maps, self.num_prefix_tokens)


class OneSequence(Task):
    """Base of the tasks whose head reads each token of the one sequence that there is."""

    head: nn.Module

    def states(self, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        return self(tokens), tokens.padding

    def forward_head(self, states: Tensor, pre_logits: bool = False, padding: Tensor | None = None) -> Tensor:
        return each(self.head, states, pre_logits, padding)

    def observe(self, batch: Batch) -> None:
        self(batch.input)


def extended(tokens: Tokens, embed: Embed, pool: Pool, backbone: Backbone) -> tuple[Tensor, Tensor | None]:
    """Tokens -> (B, T, D) states and their padding: embedded, the pool's own tokens in front, after the backbone."""
    x = embed(tokens.value, types=tokens.types, padding=tokens.padding)
    x, padding = pool.extend(x, embed.padding(tokens.padding))
    return backbone(x, padding=padding), padding


def each(head: nn.Module, states: Tensor, pre_logits: bool, padding: Tensor | None) -> Tensor:
    """``forward_head`` of the tasks whose head reads every token."""
    return Mean()(states, padding) if pre_logits else head(states)


def require_causal(backbone: nn.Module, task: str) -> None:
    """Raise ValueError where a layer lets a token see its future: the loss would fall to nothing and mean nothing."""
    q, k = torch.tensor(1_000_000, device="cpu"), torch.tensor(1_000_001, device="cpu")  # also where the rest is meta
    for name, part in backbone.named_modules():
        if isinstance(part, Attention) and not part.cross and bool(part.mask(q, k)):
            raise ValueError(
                f"{task} predicts the next token, but layer {name} sees the future through its mask {part.mask}; "
                "use a decoder such as GPT2 or LLaMA, or mask: Causal"
            )


def require_each_token(embed: Embed, task: str) -> None:
    """Raise ValueError where an embedding merges tokens that the task predicts one by one."""
    if embed.stride != 1:
        raise ValueError(
            f"{type(embed).__name__} merges {embed.stride} frames into one token, and {task} predicts each; "
            f"use Frames(stack={embed.stride})"
        )
