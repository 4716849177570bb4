"""Batches of images, of one size or of different ones: changed by augmentation, then cut into tokens."""

# Shapes: B batch, C channels, H height, W width, T tokens, F features a token.

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.data.augment import Augment
from zoo.tokenizers import Tokenizer, Tokens


def image_tokens(
    images: Sequence[Tensor] | Tensor,
    label: Tensor | None,
    keys: Tensor,
    augment: Sequence[Augment],
    classes: int,
    tokenizer: Tokenizer,
) -> tuple[Tokens, Tensor | None]:
    """(B, C, H, W) images, or B images of (C, H, W) each -> their tokens, and their labels, which may have been mixed.

    Images of one size are changed together, so each hook of an ``Augment`` meets a stack of the usual shape, and
    ``Mixup`` mixes images of one size.  What depends on a sample's key alone is the same in any company.
    """
    if isinstance(images, Tensor):
        value, label = _encoded(images, label, keys, augment, classes, tokenizer)
        return tokenizer.batched(value), label
    groups: dict[torch.Size, list[int]] = {}
    for i, image in enumerate(images):
        groups.setdefault(image.shape, []).append(i)
    values, labels = [], []
    for index in groups.values():
        stack, own = torch.stack([images[i] for i in index]), None if label is None else label[index]
        value, own = _encoded(stack, own, keys[index], augment, classes, tokenizer)
        values.append(value)
        labels.append(own)
    back = torch.tensor([i for index in groups.values() for i in index]).argsort()
    tokens = tokenizer.batched(torch.cat(values)[back])
    return tokens, None if label is None else torch.cat(labels)[back]


def _encoded(
    images: Tensor, label: Tensor | None, keys: Tensor, augment: Sequence[Augment], classes: int, tokenizer: Tokenizer
) -> tuple[Tensor, Tensor | None]:
    """(B, C, H, W) -> (B, T, F), and the labels."""
    for change in augment:
        images = change.image(images, keys)
    for change in augment:
        images, label = change.mix(images, label, classes, keys)
    return tokenizer.encode(images), label
