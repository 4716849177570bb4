"""RandAugment, TrivialAugment and ColorJitter for whole batches: each image its own operations, drawn from its key."""

# Shapes: B batch, C channels, H height, W width.

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.data import operations as op
from zoo.data.augment import Augment
from zoo.rng import uniform

LEVELS = 30  # steps from nothing to the strongest


@dataclass(frozen=True)
class Operation:
    """One operation: ``amount`` makes what it takes of a level (B,) from 0 to 1, negative every other time if
    ``signed``, and of the image's height and width; ``change`` acts on images, or ``matrix`` moves them."""

    amount: Callable[[Tensor, int, int], Tensor]
    change: Callable[[Tensor, Tensor], Tensor] | None = None
    matrix: Callable[[Tensor, int, int], Tensor] | None = None
    signed: bool = False


def operations(shear: float, shift: Callable[[int], float], turn: float, blend: float, bits: int) -> list[Operation]:
    """The 14 operations of both papers, with what the highest level means: a share, pixels of a side, degrees, how far
    a factor is from 1, and how many of 8 bits are lost."""

    def factor(level: Tensor, height: int, width: int) -> Tensor:
        return 1 + blend * level

    def whole_bits(level: Tensor, height: int, width: int) -> Tensor:
        return 8 - (level * bits).round()

    def nothing(level: Tensor, height: int, width: int) -> Tensor:
        return level

    blends = [op.brighten, op.saturate, op.contrast, op.sharpen]
    return [
        Operation(nothing),
        Operation(lambda level, height, width: level * shear, matrix=op.shear_x, signed=True),
        Operation(lambda level, height, width: level * shear, matrix=op.shear_y, signed=True),
        Operation(lambda level, height, width: level * shift(width), matrix=op.shift_x, signed=True),
        Operation(lambda level, height, width: level * shift(height), matrix=op.shift_y, signed=True),
        Operation(lambda level, height, width: level * turn, matrix=op.rotate, signed=True),
        *(Operation(factor, change, signed=True) for change in blends),
        Operation(whole_bits, op.posterize),
        Operation(lambda level, height, width: 255 * (1 - level), op.solarize),
        Operation(nothing, op.autocontrast),
        Operation(nothing, op.equalize),
    ]


class RandAugment(Augment):
    """``count`` of 14 operations on each image, one after the other, all of strength ``magnitude`` from 0 to 30
    (Cubuk et al. 2020): shear up to 0.3, shifts up to 0.45 of a side, turns up to 30 degrees, brightness, colour,
    contrast and sharpness from 0.1 to 1.9 times, 8 to 4 bits, inverted highlights, and the two ways of equalizing.

    Images are grey or RGB; black comes in from outside, and what is moved is sampled bilinearly."""

    def __init__(self, count: int = 2, magnitude: int = 9):
        if count < 1 or not 0 <= magnitude <= LEVELS:
            raise ValueError(f"RandAugment({count}, {magnitude}): give a count above 0, and a magnitude from 0 to 30")
        self.count, self.magnitude = count, magnitude

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        x, which = leveled(image), operations(0.3, lambda side: side * 150 / 331, 30.0, 0.9, 4)
        draws = uniform(keys, self.count, 2, stream="randaugment")
        for choice, sign in draws.movedim(0, -1):  # (count, 2, B)
            x = operated(x, which, choice, torch.full_like(sign, self.magnitude / LEVELS), sign)
        return restored(x, image)


class TrivialAugment(Augment):
    """One of the 14 operations on each image, of a random strength, which may be higher than RandAugment's: shear up to
    0.99, shifts up to 32 pixels, turns up to 135 degrees, 8 to 2 bits (Müller & Hutter 2021, wide)."""

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        x, which = leveled(image), operations(0.99, lambda side: 32.0, 135.0, 0.99, 6)
        choice, level, sign = uniform(keys, 3, stream="trivialaugment").unbind(1)
        level = (level * (LEVELS + 1)).floor() / LEVELS
        return restored(operated(x, which, choice, level, sign), image)


class ColorJitter(Augment):
    """Brightness, contrast and saturation, each by a factor from 1 - x to 1 + x, and the hue by -``hue`` to ``hue``
    turns of the colour circle, in a random order."""

    def __init__(self, brightness: float = 0.4, contrast: float = 0.4, saturation: float = 0.4, hue: float = 0.0):
        if min(brightness, contrast, saturation, hue) < 0 or hue > 0.5:
            given = f"{brightness}, {contrast}, {saturation}, {hue}"
            raise ValueError(f"ColorJitter({given}): nothing may be below 0, and hue at most half a turn, 0.5")
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue

    def image(self, image: Tensor, keys: Tensor) -> Tensor:
        x, draws = leveled(image), uniform(keys, 2, 4, stream="jitter")
        most = torch.tensor([self.brightness, self.contrast, self.saturation, self.hue])
        amount = (2 * draws[:, 0] - 1) * most
        amount[:, :3] = (1 + amount[:, :3]).clamp(min=0)
        changes = (op.brighten, op.contrast, op.saturate, op.turn_hue)
        for turn in draws[:, 1].argsort(1).unbind(1):  # (B,) which of them is next
            for number, change in enumerate(changes):
                chosen = (turn == number).nonzero()[:, 0]
                if most[number] and len(chosen):
                    x[chosen] = change(x[chosen], amount[chosen, number])
        return restored(x, image)


def operated(x: Tensor, which: list[Operation], choice: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each image changed by the operation that ``choice`` (B,) in [0, 1) picks; all that move are moved at once."""
    height, width = x.shape[-2:]
    place = (choice * len(which)).long()
    matrices, moving = torch.eye(2, 3).repeat(len(x), 1, 1), torch.zeros(len(x), dtype=torch.bool)
    for number, operation in enumerate(which):
        chosen = (place == number).nonzero()[:, 0]
        if not len(chosen):
            continue
        own = level[chosen] * torch.where(sign[chosen] < 0.5, -1, 1) if operation.signed else level[chosen]
        amount = operation.amount(own, height, width)
        if operation.change is not None:
            x[chosen] = operation.change(x[chosen], amount)
        elif operation.matrix is not None:
            matrices[chosen], moving[chosen] = operation.matrix(amount, height, width), True
    if moving.any():
        x[moving] = op.move(x[moving], matrices[moving])
    return x


def leveled(image: Tensor) -> Tensor:
    """A new batch of floats from 0 to 255.  Raises ValueError for images that are neither grey nor RGB."""
    if image.size(1) not in (1, 3):
        raise ValueError(f"images of {image.size(1)} channels are neither grey nor RGB: use other augmentations")
    return image.float() if image.dtype == torch.uint8 else image * 255.0


def restored(x: Tensor, image: Tensor) -> Tensor:
    """As ``image`` was: bytes, or floats from 0 to 1."""
    return x.round().to(torch.uint8) if image.dtype == torch.uint8 else (x / 255).type_as(image)
