"""What training costs: FLOPs a sample, the device's peak, and the memory of weights, gradients and optimizer."""

# Shapes: B batch, H heads, T queries, S keys, d head width.

from __future__ import annotations

import inspect
import warnings

import torch
from lightning.fabric.utilities.throughput import get_available_flops
from lightning.pytorch import LightningDataModule, Trainer
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.flop_counter import FlopCounterMode

from zoo.data import Combined, DataModule
from zoo.tasks import Task
from zoo.tokenizers import Batch

SAMPLES = 32  # of which the mean is taken, where their lengths differ
KERNELS = ("fused", "foreach", "capturable")  # of an optimizer: they change nothing that it keeps
BACKWARD = 2  # a backward pass in forward passes: one product for the inputs, one for the weights
OF_LOW_PRECISION = {"bf16": torch.bfloat16, "16-": torch.float16}  # how Lightning's names of precisions begin


def flops_per_sample(task: Task, trainer: Trainer) -> float | None:
    """Floating point operations of training on one sample: three times those of a forward pass (Kaplan et al. 2020),
    the mean over up to 32 training samples; None for data of another library.

    Counted while the real task runs on real samples: products of matrices, convolutions and attention, the latter as
    2 B H T S d for each of its two products, whatever a kernel leaves out.  Nothing is trained and no random number is
    used up.  All processes must call this.
    """
    batch = sample(trainer.datamodule)
    if batch is None:
        return None
    precision = trainer.precision_plugin
    batch = precision.convert_input(task.transfer_batch_to_device(batch, task.device, 0))
    devices = [task.device] if task.device.type == "cuda" else []
    counter = FlopCounterMode(display=False, custom_mapping=dict.fromkeys(ATTENTION, attention_flops))
    eager = torch.compiler.set_stance("force_eager")
    with torch.random.fork_rng(devices), eager, torch.no_grad(), precision.forward_context(), counter:
        task.step(batch, training=True)
    parts = batch.values() if isinstance(batch, dict) else [batch]
    return counter.get_total_flops() * (1 + BACKWARD) / sum(map(len, parts))


def sample(data: LightningDataModule | None) -> Batch | dict[str, Batch] | None:
    """Training samples from all over the set: up to 32, and no more than a batch; of combined data a batch of each."""
    if isinstance(data, Combined):
        return {name: part.sample("train", part.batch_size) for name, part in data.members().items()}
    return data.sample("train", min(SAMPLES, data.batch_size)) if isinstance(data, DataModule) else None


def _sdpa_overloads(direction: str = "") -> list:
    names = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    found = (getattr(torch.ops.aten, f"_scaled_dot_product_{name}{direction}", None) for name in names)
    return [operation for operation in found if operation is not None]


ATTENTION = _sdpa_overloads()
ATTENTION_BACKWARD = _sdpa_overloads("_backward")


def attention_flops(
    q: torch.Size, k: torch.Size, v: torch.Size, *rest: object, out_shape: object = None, **more
) -> int:
    """Both products of attention over (B, H, T, d) queries and (B, K, S, d) keys; torch counts neither on a CPU."""
    batch, heads, queries, width = q
    return 2 * batch * heads * queries * k[-2] * (width + v[-1])


def attention_backward_flops(
    grad: torch.Size, q: torch.Size, k: torch.Size, v: torch.Size, *rest: object, out_shape: object = None, **more
) -> int:
    """The four products of its backward pass; that a kernel computes the scores again is not counted."""
    return BACKWARD * attention_flops(q, k, v)


def peak_flops(trainer: Trainer) -> float | None:
    """Floating point operations a second that the devices of all processes can do at the run's precision; None where it
    is unknown."""
    precision = str(trainer.precision)
    kind = next((kind for start, kind in OF_LOW_PRECISION.items() if precision.startswith(start)), torch.float32)
    peak = peak_of(trainer.strategy.root_device, kind)
    return peak and peak * trainer.world_size


def peak_of(device: torch.device, kind: torch.dtype) -> float | None:
    """The same of one device, by the table of accelerators that Lightning has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peak = get_available_flops(device, kind)
    return peak and float(peak)


def weight_bytes(module: nn.Module) -> int:
    return sum(weight.nbytes for weight in module.parameters())


def gradient_bytes(module: nn.Module) -> int:
    return sum(weight.nbytes for weight in module.parameters() if weight.requires_grad)


def optimizer_bytes(optimizer: Optimizer) -> int | None:
    """Bytes that an optimizer will keep for its parameters, by what it keeps for small stand-ins of the matrices and of
    the other tensors of each group; None for one that cannot be built twice."""
    names = inspect.signature(type(optimizer)).parameters
    settings = {key: value for key, value in optimizer.defaults.items() if key in names and key not in KERNELS}
    groups, doubled = [], []
    for group in optimizer.param_groups:
        kinds = [[weight for weight in group["params"] if (weight.dim() > 1) == matrix] for matrix in (True, False)]
        pairs = [(double(kind[0]), sum(weight.nbytes for weight in kind)) for kind in kinds if kind]
        own = {key: value for key, value in group.items() if key not in KERNELS}
        groups.append({**own, "params": [weight for weight, _ in pairs]})
        doubled += pairs
    try:
        other = type(optimizer)(groups, **settings)
        other.step()
    except Exception:  # an optimizer of the user's own, whose constructor wants something else
        return None
    total = 0.0
    for weight, size in doubled:
        kept = sum(value.nbytes for value in other.state[weight].values() if isinstance(value, Tensor) and value.dim())
        total += kept / weight.nbytes * size
    return round(total)


def double(weight: Tensor) -> nn.Parameter:
    """A small stand-in, with a gradient."""
    small = nn.Parameter(torch.ones((64,) * min(weight.dim(), 2) or (1,), dtype=weight.dtype))
    small.grad = torch.ones_like(small)
    return small
