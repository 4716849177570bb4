"""Muon for the matrices of hidden layers and AdamW for everything else, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

Group = dict[str, Any]


class MuonAdamW(Optimizer):
    """Matrices move by Muon (Jordan et al. 2024): momentum whose singular values are made equal by five Newton-Schulz
    steps, so that no direction of a matrix is left behind.  All else (embeddings, heads, norms, biases, positions)
    moves by AdamW (Loshchilov & Hutter 2019).

    Parameter groups with ``muon: True`` are matrices; a task makes them of the linear maps of its blocks (``take``).
    ``lr`` and ``momentum`` are Muon's, ``adamw_lr``, ``betas`` and ``eps`` AdamW's, ``weight_decay`` is both's.
    ``adjust_lr_fn`` is how Muon's rate goes with a matrix of A x B, in torch's words: "original" sqrt(max(1, A / B)),
    for which rates are near 0.02; "match_rms_adamw" 0.2 sqrt(max(A, B)) (Liu et al. 2025), for which they are those of
    AdamW; "spectral_unclamped" sqrt(A / B) (Bernstein 2025).  A schedule acts on both rates.

    Both rules are torch's own; groups and state are kept once, in the form that every optimizer has.  Raises ValueError
    for a group of matrices that has another tensor, and at the first step where there is no such group.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 0.02,
        adamw_lr: float = 0.003,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        adjust_lr_fn: Literal["original", "match_rms_adamw", "spectral_unclamped"] = "original",
    ):
        nothing = [torch.zeros(0, 0)]
        self._muon = Muon(nothing, lr, weight_decay, momentum, adjust_lr_fn=adjust_lr_fn)
        self._adamw = AdamW(nothing, adamw_lr, betas, eps, weight_decay)
        super().__init__(params, {})

    def add_param_group(self, param_group: Group) -> None:
        muon = param_group.get("muon", False)
        super().add_param_group({**(self._muon if muon else self._adamw).defaults, "muon": muon, **param_group})
        other = next((weight for weight in self.param_groups[-1]["params"] if muon and weight.ndim != 2), None)
        if other is not None:
            raise ValueError(
                f"Muon moves matrices, and here is a tensor of shape {tuple(other.shape)}: leave it to AdamW"
            )

    def take(self, matrices: Iterable[Tensor]) -> None:
        """Let Muon move ``matrices``, which have been AdamW's: out of each group into one in front of it, with the same
        weight decay and the same keys of the user's own.  To be called before the first step."""
        taken = {id(matrix) for matrix in matrices}
        groups = self.param_groups[:]
        self.param_groups.clear()
        for group in groups:
            ours = {key: value for key, value in group.items() if key not in self._adamw.defaults}
            ours |= {"weight_decay": group["weight_decay"], "muon": True}
            ours |= {"name": f"{group['name']}_muon"} if "name" in group else {}  # names stay different
            inside = [weight for weight in group["params"] if id(weight) in taken]
            outside = [weight for weight in group["params"] if id(weight) not in taken]
            for kept, weights in ((ours, inside), (group, outside)):
                if weights:
                    self.add_param_group({**kept, "params": weights})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not any(group["muon"] for group in self.param_groups):
            raise ValueError("no parameter group says muon: True, so there is nothing for Muon to move; take AdamW")
        for muon, rule in ((True, self._muon), (False, self._adamw)):
            rule.param_groups = [group for group in self.param_groups if group["muon"] == muon]
            rule.state = self.state
            rule.step()
        return loss
