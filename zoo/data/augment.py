"""Random changes of the training input, each a pure function of the sample's key: the same again after a restart."""

# Shapes: B batch, C channels, H height, W width, T tokens, F features of a token, c classes.

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from zoo.described import Described
from zoo.rng import uniform
from zoo.tokenizers import Tokens


class Augment(Described):
    """Three hooks on a batch, in this order, each the identity unless overridden.  ``keys`` (B,) are the samples'
    random keys (see zoo.rng), new in each epoch."""

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        """(B, C, H, W) images, uint8 or floats in [0, 1] -> the same shape, either type."""
        return image

    def mix(self, image: Tensor, label: Tensor | None, classes: int, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        """Images together with their labels: (B,) class ids, or (B, c) probabilities."""
        return image, label

    def tokens(self, tokens: Tokens, keys: Tensor) -> Tokens:
        """What the tokenizer made of the batch."""
        return tokens


class CropFlip(Augment):
    """A shift of up to ``padding`` pixels in each direction (black comes in), and a mirror image every other time."""

    def __init__(self, padding: int = 4, flip: bool = True):
        self.padding, self.flip = padding, flip

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        shift = (uniform(keys, 2, stream="crop") * (2 * self.padding + 1)).long()  # (B, 2)
        mirror = (uniform(keys, 1, stream="flip") < 0.5).flatten() if self.flip else torch.zeros(len(image)).bool()
        height, width = image.shape[-2:]
        cut = torch.empty_like(image)
        source, target = F.pad(image, [self.padding] * 4).numpy(), cut.numpy()  # whose slices cost least
        for i, ((top, left), turned) in enumerate(zip(shift.tolist(), mirror.tolist())):
            piece = source[i, :, top : top + height, left : left + width]
            target[i] = piece[..., ::-1] if turned else piece
        return cut


class Affine(Augment):
    """Rotation up to ``degrees``, shift up to the share ``translate`` of the size, scale from 1 - ``scale`` to
    1 + ``scale``, shear up to ``shear`` degrees; one bilinear sampling for the whole batch."""

    def __init__(self, degrees: float = 10.0, translate: float = 0.1, scale: float = 0.1, shear: float = 0.0):
        self.degrees, self.translate, self.scale, self.shear = degrees, translate, scale, shear

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        turn, x, y, zoom, slant = (2 * uniform(keys, 5, stream="affine") - 1).unbind(1)
        turn, slant = turn * math.radians(self.degrees), (slant * math.radians(self.shear)).tan()
        zoom, aspect = 1 / (1 + zoom * self.scale), image.shape[-1] / image.shape[-2]
        cos, sin = turn.cos() * zoom, turn.sin() * zoom
        rows = [cos, (cos * slant - sin) / aspect, 2 * self.translate * x]
        rows += [sin * aspect, sin * slant + cos, 2 * self.translate * y]
        theta = torch.stack(rows, 1).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(image.shape), align_corners=False)
        moved = F.grid_sample(image.float(), grid, align_corners=False)
        return moved.round().to(image.dtype) if image.dtype == torch.uint8 else moved


class Erase(Augment):
    """With ``probability`` a rectangle of a random share of the image (``smallest`` to ``largest``) becomes grey
    (Random Erasing, Zhong et al. 2017); its sides are to each other as 1 to 3 at most."""

    def __init__(self, probability: float = 0.25, smallest: float = 0.02, largest: float = 0.33):
        self.probability, self.smallest, self.largest = probability, smallest, largest

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        chosen, area, ratio, down, across = uniform(keys, 5, stream="erase").unbind(1)
        area = self.smallest + area * (self.largest - self.smallest)
        ratio = 3 ** (ratio - 0.5)  # the root of height to width
        box = boxes(image, (area.sqrt() * ratio).clamp(max=1), (area.sqrt() / ratio).clamp(max=1), down, across)
        grey = 128 if image.dtype == torch.uint8 else 0.5
        return image.masked_fill((box & (chosen < self.probability)[:, None, None])[:, None], grey)


class Transform(Augment):
    """Any transform of single images, such as those of ``torchvision.transforms.v2`` ((C, H, W) tensors) or, with
    ``pil``, those of timm (PIL images), such as RandAugment; in Python any callable will do.  It draws from the usual
    generators of torch, numpy and Python, which are seeded for each sample and put back.  The size must stay."""

    def __init__(self, transform: nn.Module, pil: bool = False):
        self.transform, self.pil = transform, pil

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        changed = []
        for single, key in zip(image, keys.tolist()):
            with seeded(key):
                changed.append(self._through_pil(single) if self.pil else self.transform(single))
        return torch.stack(changed)

    def _through_pil(self, image: Tensor) -> Tensor:
        pixels = image.permute(1, 2, 0).numpy()
        out = np.array(self.transform(Image.fromarray(pixels[..., 0] if len(image) == 1 else pixels)))
        return torch.from_numpy(out[..., None] if out.ndim == 2 else out).permute(2, 0, 1)


class SpecAugment(Augment):
    """``masks`` stretches of up to ``time`` frames and ``masks`` bands of up to ``frequency`` features are set to 0
    (Park et al. 2019), on features such as audio frames."""

    def __init__(self, time: int = 20, frequency: int = 10, masks: int = 2):
        self.time, self.frequency, self.masks = time, frequency, masks

    def tokens(self, tokens: Tokens, keys: Tensor) -> Tokens:
        frames = tokens.real.sum(1)  # (B,)
        features = torch.full_like(frames, tokens.value.size(2))
        hidden = self._bands(keys, "time", self.time, frames, tokens.value.size(1))[:, :, None]
        hidden = hidden | self._bands(keys, "frequency", self.frequency, features, tokens.value.size(2))[:, None]
        return replace(tokens, value=tokens.value.masked_fill(hidden, 0.0))

    def _bands(self, keys: Tensor, stream: str, most: int, length: Tensor, size: int) -> Tensor:
        """(B, size) True inside a band; ``length`` (B,) is each sample's own."""
        wide, place = uniform(keys, 2, self.masks, 1, stream=stream).unbind(1)  # (B, masks, 1)
        wide = (wide * (most + 1)).floor().minimum(length[:, None, None])
        start = (place * (length[:, None, None] - wide + 1)).floor()
        at = torch.arange(size)
        return ((at >= start) & (at < start + wide)).any(1)


class Mixup(Augment):
    """Each image is mixed with another of the batch, and its label with the other's: as a weighted mean with
    ``alpha`` > 0 (mixup, Zhang et al. 2017), as a rectangle with ``cutmix`` > 0 (CutMix, Yun et al. 2019), or each
    every other batch.  The weight is drawn from Beta(alpha, alpha), once a batch.  Labels become (B, c)."""

    def __init__(self, alpha: float = 0.2, cutmix: float = 0.0):
        if alpha < 0 or cutmix < 0 or not alpha + cutmix:
            raise ValueError(f"Mixup(alpha={alpha}, cutmix={cutmix}): one must be above 0, neither below")
        self.alpha, self.cutmix = alpha, cutmix

    def mix(self, image: Tensor, label: Tensor | None, classes: int, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        if label is None:
            raise ValueError("Mixup mixes labels, and these data have none")
        weights = F.one_hot(label, classes).float() if label.dim() == 1 else label  # (B, c)
        cut = self.cutmix and (not self.alpha or bool(uniform(keys[:1], stream="cutmix") < 0.5))
        strength = self.cutmix if cut else self.alpha
        with seeded(int(keys[0])):
            own = float(torch.distributions.Beta(strength, strength).sample())
        if cut:
            side = torch.full((1,), (1 - own) ** 0.5)
            box = boxes(image, side, side, *uniform(keys[:1], 2, stream="box").unbind(1))  # (1, H, W)
            image = torch.where(box[:, None], image.flip(0), image)
            own = 1 - float(box.float().mean())
        else:
            image = image.float() / 255 if image.dtype == torch.uint8 else image
            image = own * image + (1 - own) * image.flip(0)
        return image, own * weights + (1 - own) * weights.flip(0)


def boxes(image: Tensor, height: Tensor, width: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """(B, H, W) True inside rectangles whose sides are shares of the image; all arguments are (B,) in [0, 1]."""

    def inside(size: int, share: Tensor, place: Tensor) -> Tensor:
        long = (share * size).round()
        start = (place * (size - long + 1)).floor()[:, None]
        at = torch.arange(size)
        return (at >= start) & (at < start + long[:, None])

    return inside(image.shape[-2], height, down)[:, :, None] & inside(image.shape[-1], width, across)[:, None]


@contextmanager
def seeded(key: int) -> Iterator[None]:
    """The global generators of torch, numpy and Python seeded with ``key``, and afterwards as they were."""
    ordinary, array = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key)
        random.seed(key)
        np.random.seed(key % 2**32)
        try:
            yield
        finally:
            random.setstate(ordinary)
            np.random.set_state(array)
