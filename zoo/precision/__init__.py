"""Weights prepared for inference alone: in the order in which a processor reads them, in bfloat16, 8 bits or 4 bits."""

from zoo.precision.layers import Int4Linear, Int8Linear, PackedLinear
from zoo.precision.prepare import Precision, for_inference, prepared, weight_bytes

__all__ = ["Int4Linear", "Int8Linear", "PackedLinear", "Precision", "for_inference", "prepared", "weight_bytes"]
