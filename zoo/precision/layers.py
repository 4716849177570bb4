"""Linear layers for inference alone, each with its weights as one kernel reads them."""

# Shapes: N rows, I inputs, O outputs, G groups of a row of weights, g weights in a group.

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.precision.rounding import GROUP, SMALLEST, eight_bits, four_bits, restored

ROWS = 8  # that oneDNN orders weights for; measured, its order for 8 is as good as any from 1 row to 512


class Prepared(nn.Module):
    """Base of the linear layers (..., I) -> (..., O) that are for inference alone: they have no parameters."""

    precision = ""
    packed_bytes = 0  # of what is neither parameter nor buffer

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.training = False

    def train(self, mode: bool = True) -> Prepared:
        if mode:
            raise ValueError(
                f"weights prepared for inference in {self.precision} cannot be trained; train the task that they were "
                "made from"
            )
        return super().train(mode)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise unsaved(self.precision)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.precision}"

    def checked(self, x: Tensor) -> Tensor:
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"weights prepared for inference in {self.precision} pass no gradients to their input")
        return x


class OnCPU(Prepared):
    """Base of those that only a CPU's kernels can read: all that they hold is hidden from ``to``."""

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        self.bias = None if layer.bias is None else layer.bias.detach().clone()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> OnCPU:
        device = fn(torch.empty(0, device="cpu")).device
        if device.type != "cpu":
            raise ValueError(
                f"weights prepared on a CPU in {self.precision} cannot go to {device}; move the module first, and then "
                "prepare it"
            )
        return self


class PackedLinear(OnCPU):
    """W x + b with W in the order in which oneDNN's kernels read it, in float32 or bfloat16; x is cast to that.

    On two Zen 4 cores 1.4 to 1.9 times as fast as ``F.linear`` at one row, 2 to 4 times at 8 rows (float32).
    """

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        self.dtype = layer.weight.dtype
        self.precision = "bf16" if self.dtype == torch.bfloat16 else "fp32"
        self.packed_bytes = layer.weight.nbytes + (0 if self.bias is None else self.bias.nbytes)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.checked(x).to(self.dtype)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def __getstate__(self) -> dict[str, Any]:  # the packed form can be neither copied nor pickled
        return {**self.__dict__, "packed": self.packed.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "packed": torch.ops.mkldnn._reorder_linear_weight(state["packed"], ROWS)})


class Int8Linear(OnCPU):
    """W x + b with 8 bits a weight and 8 bits an input, summed in 32 bits (dynamic quantisation; fbgemm's kernel).

    A row of W is s q with s = max|w| / 127 and integers q from -127 to 127.  A row of x is divided by its largest
    magnitude, and what is then in [-1, 1] is rounded to 256 steps (128 where the processor would overflow), so a row
    with large values does not make the others coarse; x, y and b are float32, or what x is.
    """

    precision = "int8"

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        codes, scale = eight_bits(layer.weight.detach())
        self.packed, self.overflows = packed_int8(codes, scale, self.bias), overflows()
        # beside the codes: scale, zero, sum and bias of each row
        self.packed_bytes = codes.numel() + len(codes) * (12 + 4 * (self.bias is not None))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            return self(x[None])[0]
        given = self.checked(x).float()
        if x.numel() == self.in_features:  # the kernel divides all rows by the largest value itself
            y = torch.ops.quantized.linear_dynamic(given, self.packed, self.overflows)
            return y if y.dtype == x.dtype else y.to(x.dtype)
        size = given.abs().amax(-1, keepdim=True).clamp_(min=SMALLEST)  # (..., 1)
        y = torch.ops.quantized.linear_dynamic(given / size, self.packed, self.overflows)
        # y = W x / size + b, and b + size (y - b) is wanted
        return (y.mul_(size) if self.bias is None else torch.lerp(self.bias, y, size)).to(x.dtype)


class Int4Linear(OnCPU):
    """W x + b with 4 bits a weight; x is rounded to bfloat16, and multiplied by weights (q - 8) s + z in bfloat16.

    Each 32 weights of a row have their own s = (max - min) / 15 and z, so that integers q from 0 to 15 reach from the
    least to the largest.  5 bits a weight in all.
    """

    precision = "int4"

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        weight = F.pad(layer.weight.detach().float(), (0, 0, 0, -layer.out_features % 16))  # the kernel takes 16 rows
        codes, scale, zero = four_bits(weight)
        self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.flatten(1).int(), 1)
        self.scale_and_zero = torch.stack((scale, zero), -1).transpose(0, 1).contiguous()  # (G, O, 2)
        self.packed_bytes = sum(one.nbytes for one in (self.packed, self.scale_and_zero, self.bias) if one is not None)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.checked(x).reshape(-1, self.in_features).bfloat16().contiguous()  # (N, I)
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scale_and_zero)
        y = y[:, : self.out_features].to(x.dtype)
        y = y if self.bias is None else y + self.bias.to(x.dtype)
        return y.reshape(*x.shape[:-1], self.out_features)


class Stored(Prepared):
    """Base of those that a device without such kernels can use: weights become floats again at each call."""

    bias: Tensor | None

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())

    def weights(self) -> Tensor:
        """(O, I) as they were rounded."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(self.checked(x), self.weights().to(x.dtype), bias)


class StoredInt8(Stored):
    """The weights of ``Int8Linear``; inputs are not rounded."""

    precision = "int8"
    codes: Tensor
    scale: Tensor

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        codes, scale = eight_bits(layer.weight.detach())
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)

    def weights(self) -> Tensor:
        return self.codes * self.scale[:, None]


class StoredInt4(Stored):
    """The weights of ``Int4Linear``, two in a byte; inputs are not rounded."""

    precision = "int4"
    pairs: Tensor
    scale: Tensor
    zero: Tensor

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        codes, scale, zero = four_bits(layer.weight.detach())
        low, high = codes.chunk(2, -1)
        self.register_buffer("pairs", low | high << 4)  # (O, G, g / 2)
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)

    def weights(self) -> Tensor:
        codes = torch.cat((self.pairs & 15, self.pairs >> 4), -1)  # (O, G, g)
        return restored(codes, self.scale, self.zero).flatten(1)


def unsaved(precision: str) -> ValueError:
    return ValueError(f"{precision} weights have no published form; save the task that they were made from")


def packed_int8(codes: Tensor, scale: Tensor, bias: Tensor | None) -> Any:
    """Codes in the order in which the kernel reads them.  Raises RuntimeError where torch has another kernel, which
    would keep a second copy."""
    if torch.backends.quantized.engine not in ("fbgemm", "x86"):
        raise RuntimeError("fbgemm is not in use")
    with warnings.catch_warnings():  # the kernel's only way in is a kind of tensor that torch means to give up
        warnings.simplefilter("ignore", UserWarning)
        zero = torch.zeros(len(codes), dtype=torch.long, device="cpu")
        whole = torch._make_per_channel_quantized_tensor(codes, scale.double(), zero, 0)
    return torch.ops.quantized.linear_prepack(whole, bias if bias is None else bias.float())


@functools.cache
def overflows() -> bool:
    """Do sums of two products of 8 bits run over, as on processors without VNNI?  Then inputs get 7 bits."""
    ones = torch.ones(16, 64, device="cpu")
    product = torch.ops.quantized.linear_dynamic(ones[:1], packed_int8(*eight_bits(ones), None), False)
    return bool((product - 64).abs().max() > 1)
