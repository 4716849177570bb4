"""A small checkpoint as Lightning would save it, without training one."""

from collections import OrderedDict

import lightning
import torch


def example(step: int = 3) -> dict:
    """Two weights, AdamW's state of them, a schedule, counters and hyper-parameters."""
    weights = OrderedDict(a=torch.arange(6.0).reshape(2, 3), b=torch.tensor(step, dtype=torch.bfloat16))
    count = {"ready": step, "completed": step}
    progress = {"optimizer": {"step": {"total": count, "current": count}}}
    return {
        "epoch": 1,
        "global_step": step,
        "pytorch-lightning_version": lightning.__version__,
        "state_dict": weights,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_loop.automatic_optimization.optim_progress": progress}},
        "callbacks": {"ModelCheckpoint": {"best": torch.tensor(0.5), "path": "best.ckpt"}},
        "optimizer_states": [
            {"state": {0: {"exp_avg": torch.ones(2, 3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
        ],
        "lr_schedulers": [{"last_epoch": step, "base_lrs": [0.1]}],
        "hyper_parameters": {"depth": 2, "name": "é", "rates": [0.1, None], "parts": {"mask": True}},
    }
