"""How a task's parameters are moved: its optimizer, the learning rate of each layer at each step, whole gradients."""

from __future__ import annotations

import math
import re
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.optim import Optimizer

from zoo.nn import Backbone
from zoo.tasks.optimizer import decay_groups, make_optimizer
from zoo.tasks.remembered import Settings
from zoo.tasks.schedule import Schedule
from zoo.tasks.window import Window, multiply


class Optimized(pl.LightningModule):
    """Base of ``Task``; the words are timm's (Wightman 2019) where timm has one."""

    optimizer: OptimizerCallable
    schedule: Schedule
    layer_decay: float | None = None
    _settings: Settings | None = None
    _window: Window

    def configure_optimizers(self) -> dict:
        layers = None if self.layer_decay is None else self.layers()
        optimizer = make_optimizer(self, self.optimizer, layers, self.layer_decay or 1.0)
        self._settings = Settings(optimizer)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_start(self) -> None:
        """What is asked for wins over what a checkpoint remembers, whose optimizer and schedule have just been read."""
        if self._settings is None or self.trainer.global_step == 0:
            return
        optimizer, scheduler = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        scheduler.base_lrs = self._settings.restore(optimizer, self._factor(scheduler.last_epoch))

    def _factor(self, step: int) -> float:
        """Lightning knows the number of batches only once training has begun, after the schedule was made."""
        trainer = self.trainer
        if trainer.max_steps > 0:
            return self.schedule.factor(step, trainer.max_steps)
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else math.inf
        batches = trainer.num_training_batches
        total = epochs * math.ceil(batches / trainer.accumulate_grad_batches) if math.isfinite(batches) else math.inf
        return self.schedule.factor(step, total)

    # ---- gradients

    def per_weight(self, total: Tensor, weight: Tensor, index: int) -> Tensor:
        """The loss of a training batch, ``index`` of the epoch, whose gradient weighs as much as the batch does among
        those of all processes and, where ``accumulate_grad_batches`` says so, of all batches of the optimizer step."""
        trainer = self._trainer
        if trainer is None or (trainer.world_size == 1 and trainer.accumulate_grad_batches == 1):
            return total / weight
        return total / self._window.add(weight.to(total.device), index, trainer.accumulate_grad_batches)

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Gradients are whole and unscaled here, and not clipped yet."""
        batches = self.trainer.accumulate_grad_batches
        if batches > 1 and self._window.begun:  # a training step of the user's own weighs as it will
            weights = (weight for group in optimizer.param_groups for weight in group["params"])
            multiply(weights, self._window.factor(batches))

    # ---- parameters by kind and depth

    def set_layer_decay(self, decay: float | None) -> None:
        """Let the learning rate fall with depth, as fine-tuning wants it (ELECTRA, Clark et al. 2020; BEiT, Bao et al.
        2021): that of the optimizer for all that is behind the blocks, times ``decay`` for the last block, and once
        more for each one below it and for the embeddings.  None: one rate for all.

        Call it before training begins.  Raises ValueError unless ``decay`` is above 0 and at most 1.
        """
        if decay is not None and not 0 < decay <= 1:
            raise ValueError(f"layer decay {decay}: give a share of the learning rate, above 0 and at most 1")
        self.layer_decay = decay

    def layers(self) -> dict[nn.Parameter, int]:
        """Which layer each parameter is of, by ``group_matcher``: 0 is the stem, then come the blocks, the last of
        which has the last norm too, and the highest number is all behind them."""
        rules = self.group_matcher()
        (block, _), (norm, _) = rules["blocks"]
        depth = max(len(part.blocks) for part in self.modules() if isinstance(part, Backbone))

        def layer(name: str) -> int:
            if re.match(rules["stem"], name):
                return 0
            found = re.match(block, name)
            return int(found[1]) + 1 if found else depth if re.match(norm, name) else depth + 1

        return {weight: layer(name) for name, weight in self.named_parameters()}

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that the task's own optimizer does not shrink (timm: the same)."""
        decayed = {id(w) for group in decay_groups(self) if group["name"] == "decay" for w in group["params"]}
        return {name for name, weight in self.named_parameters() if weight.requires_grad and id(weight) not in decayed}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Which layer a parameter is of, for rates that fall with depth (timm: the same); the layers of two backbones
        count alike, and ``coarse`` or not they are blocks."""
        start = r"^(?:tasks\.[^.]+\.)?(?:target_)?"
        backbone = rf"{start}backbone\.(?:encoder\.|decoder\.)?"
        stem = rf"{start}(?:embed\.|pool\.weight)|{backbone}(?:position|first_norm)\."
        blocks = [(rf"{backbone}blocks\.(\d+)", None), (rf"{backbone}last_norm", (99999,))]
        return {"stem": stem, "blocks": blocks}
