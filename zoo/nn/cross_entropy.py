"""Cross-entropy of a head's predictions, which are made, scored and forgotten some rows at a time."""

# Shapes: N tokens, n of them at a time, D model width, V vocabulary.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from zoo.nn.head import Head

FEW = 2**21  # logits, which are best made all at once
ON_CPU, ON_GPU = 2**25, 2**27  # logits at a time: 128 and 512 MiB in float32
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def cross_entropy(head: nn.Module, states: Tensor, target: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """States (N, D) that ``head`` reads and ``target`` (N,) ids -> the sum of their losses in nats, and how many of the
    largest logits stand at the target.  ``smoothing`` is label smoothing (Szegedy et al. 2016).

    Many logits (N, V) are never all in memory: their gradients are computed with them, in the forward pass (Hsu et al.
    2024, Liger Kernel), by one more product for the states and one for the weights, so ``backward`` can be called but
    once.  Products are made in the dtype of autocast, everything else in float32, or in float64 where the states are.

    That takes a head that says its form in ``Head.split`` and ends with a linear layer as torch has it.  Any other
    makes all predictions at once, as is done in float16, whose gradients are to be scaled before they are rounded, and
    in a model that is compiled as a whole.
    """
    plan = fused(head, states)
    if plan is None:
        return plain_cross_entropy(head(states), target, smoothing)
    wanted = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in plan[:3])
    if wanted:
        return Fused.apply(*plan, target, smoothing)
    loss, right, _ = sweep(plan, target, smoothing, (False, False, False))
    return loss, right


def plain_cross_entropy(prediction: Tensor, target: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The same of predictions (N, V)."""
    loss = F.cross_entropy(prediction.float(), target, label_smoothing=smoothing, reduction="sum")
    return loss, (largest(prediction) == target).sum()


def largest(prediction: Tensor) -> Tensor:
    """(..., V) -> (...) where the largest value stands, the first among equals."""
    if not quickly_read(prediction):
        return prediction.argmax(-1)
    return torch.as_tensor(prediction.detach().float().numpy().argmax(-1))  # numpy's is six times as fast


def quickly_read(values: Tensor) -> bool:
    """Are they in a CPU's memory?  Neither elsewhere nor, while something is compiled or planned, shapes alone."""
    return values.device.type == "cpu" and type(values) is Tensor and not torch.compiler.is_compiling()


class Plan(NamedTuple):
    """Logits as ``features @ weight.mT + bias``, multiplied in ``dtype``."""

    features: Tensor  # (N, D)
    weight: Tensor  # (V, D)
    bias: Tensor | None  # (V,)
    dtype: torch.dtype

    @property
    def exact(self) -> torch.dtype:
        """What everything but products of matrices is computed in."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32


def fused(head: nn.Module, states: Tensor) -> Plan | None:
    """How the predictions are made, where some at a time are better, and can be made without a call of ``head``."""
    if not isinstance(head, Head) or not says_its_form(head) or watched(head) or torch.compiler.is_compiling():
        return None
    layer, device, dtype = head.out, states.device.type, states.dtype
    if type(layer) is not nn.Linear or watched(layer) or is_traceable_wrapper_subclass(layer.weight):
        return None  # adapted, or its weights are quantised or spread over devices
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    elif dtype != layer.weight.dtype:
        return None
    if dtype == torch.float16 or len(states) * layer.out_features < FEW:
        return None
    features, bias = head.split(states)
    return Plan(features, layer.weight, bias, dtype)


def says_its_form(head: Head) -> bool:
    """Are ``split`` and ``forward`` of the same class?  One that replaces ``forward`` alone computes something else."""
    kinds = type(head).__mro__
    return len({next(kind for kind in kinds if name in vars(kind)) for name in ("forward", "split")}) == 1


def watched(module: nn.Module) -> bool:
    """Does anybody want to know when the module is called?"""
    return any(vars(module)[hooks] for hooks in HOOKS)


class Fused(torch.autograd.Function):
    """The sum of losses, whose gradients are there before anybody asks for them."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *plan, target, smoothing = arguments
        loss, right, ctx.gradients = sweep(Plan(*plan), target, smoothing, ctx.needs_input_grad[:3])
        ctx.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, rate: Tensor, _: Tensor) -> tuple:
        if ctx.gradients is None:
            raise RuntimeError("this cross-entropy has handed on its gradients: compute it again for another backward")
        gradients, ctx.gradients = ctx.gradients, None  # the only reference, so that they become ``grad`` uncopied
        return (*(None if gradient is None else gradient.mul_(rate) for gradient in gradients), None, None, None)


def sweep(plan: Plan, target: Tensor, smoothing: float, wanted: Sequence[bool]) -> tuple[Tensor, Tensor, list]:
    """The sum of losses, how many are right, and the sum's gradients to features, weight and bias as ``wanted``.

    A row's loss is log sum exp z - (1 - s) z_target - s mean z, with gradient softmax z - (1 - s) [target] - s / V.
    """
    x, w, bias = plan.features.to(plan.dtype), plan.weight.to(plan.dtype), plan.bias
    size = rows(len(x), len(w), x.device)
    logits = x.new_empty(size, len(w), dtype=plan.exact)
    rounded = logits if plan.dtype == plan.exact else x.new_empty(size, len(w))
    gradients = Gradients(plan, w, wanted)
    loss, right = x.new_zeros((), dtype=plan.exact), target.new_zeros(())
    for start in range(0, max(1, len(x)), size):
        own, truth = x[start : start + size], target[start : start + size, None]
        z, product = logits[: len(own)], rounded[: len(own)]  # (n, V)
        torch.mm(own, w.mT, out=product)
        if product is not z:
            z.copy_(product)
        if bias is not None:
            z += bias
        top, at_target, correct = highest(z, truth)
        total = z.sub_(top).exp_().sum(-1, keepdim=True)  # (n, 1)
        right += correct
        loss += (top + total.log() - (1 - smoothing) * at_target).sum()
        if any(wanted):
            z.scatter_add_(1, truth, (smoothing - 1) * total)
            gradients.add(start, own, z, product, total.reciprocal())
    if smoothing:
        loss -= smoothing * gradients.smooth(smoothing)
    return loss, right, gradients.found()


class Gradients:
    """Those to features, weight and bias, as far as they are wanted, while they are summed up."""

    def __init__(self, plan: Plan, weight: Tensor, wanted: Sequence[bool]):
        self.plan, self.weight = plan, weight  # (V, D) in the dtype of products
        of_features, of_weight, of_bias = wanted
        self.features = torch.empty_like(plan.features) if of_features else None
        self.weights = torch.empty_like(weight, dtype=plan.exact) if of_weight else None
        self.bias = weight.new_zeros(len(weight), dtype=plan.exact) if of_bias else None

    def add(self, start: int, x: Tensor, z: Tensor, product: Tensor, share: Tensor) -> None:
        """Of rows ``x`` (n, D) from ``start`` on, by those of their logits, ``z`` (n, V) times ``share`` (n, 1);
        ``product`` is room for ``z`` in the dtype of products."""
        if product is not z:
            product.copy_(z)
        if self.features is not None:
            self.features[start : start + len(x)] = torch.mm(product, self.weight).to(z.dtype).mul_(share)
        if self.weights is not None:
            add_product(self.weights, product.mT, (x * share).to(x.dtype), first=start == 0)
        if self.bias is not None:
            self.bias += torch.mv(z.mT, share[:, 0])

    def smooth(self, smoothing: float) -> Tensor:
        """Add what follows from the mean logits of all rows together, which are the answer: without another look at
        logits, since their mean is (mean W) x + mean b."""
        plan, (features, weight, bias, _) = self.plan, self.plan
        middle, every = weight.mean(0, dtype=plan.exact), features.sum(0, dtype=plan.exact)  # (D,)
        if self.features is not None:
            self.features -= smoothing * middle
        if self.weights is not None:
            self.weights -= smoothing / len(weight) * every
        if self.bias is not None:
            self.bias -= smoothing / len(weight) * len(features)
        return every @ middle + (0 if bias is None else len(features) * bias.mean(dtype=plan.exact))

    def found(self) -> list[Tensor | None]:
        """The gradients, each in the dtype of what it is of."""
        pairs = zip((self.features, self.weights, self.bias), self.plan)
        return [None if gradient is None else gradient.to(of.dtype) for gradient, of in pairs]


def rows(count: int, vocabulary: int, device: torch.device) -> int:
    """How many rows of logits are made at a time: equally many each time."""
    most = max(1, (ON_CPU if device.type == "cpu" else ON_GPU) // vocabulary)
    return max(1, math.ceil(count / max(1, math.ceil(count / most))))


def highest(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The largest logit of each row (n, 1), the one at the target (n, 1), and in how many rows ``argmax`` is it."""
    own = logits.gather(1, target)
    if not quickly_read(logits):
        top, place = logits.max(-1, keepdim=True)
        return top, own, (place == target).sum()
    # A CPU finds a largest value in a quarter of the time of its place, which only matters among equals.
    other = logits.scatter_(1, target, -math.inf).amax(-1, keepdim=True)
    logits.scatter_(1, target, own)
    equal = (own == other)[:, 0]
    right = (own > other).sum() + (logits[equal].argmax(-1, keepdim=True) == target[equal]).sum()
    return torch.maximum(own, other), own, right


def add_product(total: Tensor, a: Tensor, b: Tensor, first: bool) -> None:
    """Add a @ b to ``total``, which has no values yet before the ``first``; it may be of a higher precision."""
    if a.dtype == total.dtype:
        torch.addmm(total, a, b, beta=0 if first else 1, out=total)
    elif first:
        total.copy_(a @ b)
    else:
        total += a @ b
