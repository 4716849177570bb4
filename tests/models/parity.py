"""Ours against the reference: what a row of the parity test says, and how each kind of model is run in both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from zoo.tokenizers import Tokens

Run = Callable[[nn.Module, nn.Module], tuple[Tensor, Tensor]]  # (ours, theirs) -> the outputs of both

# Tiny models in the words of most configs: the usual shape, an odd one, and that of encoder-decoders.
SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
ODD_SHAPE = {"hidden_size": 30, "num_hidden_layers": 1, "num_attention_heads": 5, "intermediate_size": 41}
PAIR_SHAPE = {"d_model": 32} | {
    f"{half}_{word}": size
    for half in ("encoder", "decoder")
    for word, size in {"layers": 3, "attention_heads": 4, "ffn_dim": 48}.items()
}


@dataclass
class Row:
    """A tiny random reference model, and how it is compared."""

    name: str  # "bert" or "bert odd"
    reference: Callable[[], nn.Module]  # a model of transformers; its weights are drawn anew by ``build``
    run: Run
    prepare: Callable[[nn.Module], Any] = lambda model: None  # what else must be random: buffers
    constant: tuple[str, ...] = ()  # tensors of the reference's file that are computed here and compared by value
    dropped: tuple[str, ...] = ()  # tensors of the reference's file that hold nothing
    unused: tuple[str, ...] = ()  # tensors that both files have and the reference never reads

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        model = self.reference().eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.requires_grad:  # fixed tables stay what they are
                    weight.normal_(std=0.3)
        self.prepare(model)
        return model


def worst(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    assert theirs.isfinite().all() and theirs.abs().max() > 1e-3
    return float((ours - theirs).abs().max() / theirs.abs().max())


def file_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


# ---- one function a kind of model


def random_ids(vocabulary: int, length: int, padded: int, pad: int = 0, lowest: int = 4) -> Tokens:
    """Two sequences, the second with ``padded`` pad tokens at its end; ids from ``lowest`` on."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(lowest, vocabulary, (2, length), generator=generator)
    padding = torch.ones(2, length, dtype=torch.bool)
    if padded:
        padding[1, -padded:] = False
    return Tokens(ids.masked_fill(~padding, pad), padding if padded else None)


def masked(vocabulary: int = 97, length: int = 11, pad: int = 0) -> Run:
    """The logits of every real token of a masked language model."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        tokens = random_ids(vocabulary, length, 4, pad)
        logits = theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).logits
        return ours.head(ours(tokens))[tokens.real], logits[tokens.real]

    return run


def causal(vocabulary: int = 97, length: int = 11) -> Run:
    """The logits of every real token of a causal language model."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        tokens = random_ids(vocabulary, length, 4)
        logits = theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).logits
        return ours.head(ours(tokens))[tokens.real], logits[tokens.real]

    return run


def seq2seq(vocabulary: int = 97, length: int = 11, target: int = 7, pad: int = 0) -> Run:
    """The logits of every target token of an encoder-decoder over text."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        source, written = random_ids(vocabulary, length, 4, pad), random_ids(vocabulary, target, 0)
        start = torch.full((2, 1), theirs.config.decoder_start_token_id)
        given = torch.cat((start, written.value[:, :-1]), 1)
        logits = theirs(input_ids=source.value, attention_mask=source.real.long(), decoder_input_ids=given).logits
        return ours.head(ours(source, written)), logits

    return run


def classify_text(vocabulary: int = 97, length: int = 11, pad: int = 0) -> Run:
    """The logits of a classifier over text."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        tokens = random_ids(vocabulary, length, 4, pad)
        return ours(tokens), theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).logits

    return run


def sentences(vocabulary: int = 97, length: int = 11, pad: int = 0) -> Run:
    """Unit vectors: the mean of the last states of an encoder without a head."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        tokens = random_ids(vocabulary, length, 4, pad)
        real = tokens.real[..., None]
        states = theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).last_hidden_state
        return ours(tokens), nn.functional.normalize((states * real).sum(1) / real.sum(1), dim=-1)

    return run
