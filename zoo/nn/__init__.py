"""The parts a Transformer is made of; they import torch alone."""

from zoo.nn.attend import attend
from zoo.nn.attention import Attention
from zoo.nn.backbone import Backbone, EncoderDecoder, padding_positions, segment_positions
from zoo.nn.block import Block, Parallel
from zoo.nn.cache import Cache
from zoo.nn.context import Context, FeedForward, Mixer, Part, Slot
from zoo.nn.convolved import Convolved
from zoo.nn.cross_entropy import cross_entropy, plain_cross_entropy
from zoo.nn.disentangled import Disentangled, PositionProjections
from zoo.nn.ffn import GLU, MLP, Activation
from zoo.nn.head import Head, HeadFactory, Project, Shifted, TransformHead
from zoo.nn.init import Init
from zoo.nn.mask import And, Causal, Full, Global, Mask, Or, Prefix, Window
from zoo.nn.norm import LayerNorm, NoNorm, Norm, RMSNorm
from zoo.nn.pool import ClassToken, First, Last, Mean, Pool, Pooler
from zoo.nn.position import (
    ALiBi,
    Buckets,
    FrequencyScaling,
    HalfPrecision,
    Learned,
    Learned2d,
    LinearScaling,
    Llama3Scaling,
    Position,
    Rotary,
    Sinusoidal,
    Sinusoidal2d,
    resize_grid,
)
from zoo.nn.residual import AdaNorm, Gated, PostNorm, PreNorm, Residual, Sandwich
from zoo.nn.sinusoid import sinusoid, sinusoid_2d

__all__ = [name for name in dir() if not name.startswith("_")]
