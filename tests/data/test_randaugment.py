"""RandAugment, TrivialAugment and ColorJitter: torchvision's operations, each sample's own, on bytes and floats."""

import math

import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from zoo.data import ColorJitter, RandAugment, TrivialAugment
from zoo.data import operations as op
from zoo.data.randaugment import operations
from zoo.rng import sample_keys

GENERATOR = torch.Generator().manual_seed(0)
SMOOTH = torch.nn.functional.interpolate(
    torch.randint(0, 256, (8, 3, 6, 8), generator=GENERATOR).float(), (18, 24), mode="bilinear"
)
IMAGES = SMOOTH.round().to(torch.uint8)
KEYS = sample_keys(0, 0, torch.arange(8))
MOVE = {"interpolation": InterpolationMode.BILINEAR}
TOP = [0.0, 0.0]


@pytest.mark.parametrize("augment", [RandAugment(3, 20), TrivialAugment(), ColorJitter(0.5, 0.5, 0.5, 0.2)])
def test_a_sample_is_changed_by_its_key_alone(augment):
    whole, before = augment.image(IMAGES, KEYS), IMAGES.clone()
    assert whole.dtype == torch.uint8 and whole.shape == IMAGES.shape and not torch.equal(whole, IMAGES)
    order = torch.tensor([4, 1])
    assert torch.equal(augment.image(IMAGES[order], KEYS[order]), whole[order]) and torch.equal(IMAGES, before)
    assert not torch.equal(augment.image(IMAGES, sample_keys(0, 1, torch.arange(8))), whole)
    floats = augment.image(IMAGES / 255, KEYS)
    assert (floats * 255 - whole).abs().max() <= 1 and floats.min() >= 0 and floats.max() <= 1
    assert augment.image(IMAGES[:, :1], KEYS).shape == (8, 1, 18, 24)
    with pytest.raises(ValueError, match="images of 4 channels are neither grey nor RGB"):
        augment.image(torch.zeros(8, 4, 8, 8), KEYS)


@pytest.mark.parametrize("magnitude", [3, 9, 30])
@pytest.mark.parametrize(
    ("number", "reference"),
    [
        (0, lambda x, m: x),
        (1, lambda x, m: tv.affine(x, 0, [0, 0], 1, [math.degrees(math.atan(0.3 * m)), 0], center=TOP, **MOVE)),
        (2, lambda x, m: tv.affine(x, 0, [0, 0], 1, [0, math.degrees(math.atan(0.3 * m))], center=TOP, **MOVE)),
        (3, lambda x, m: tv.affine(x, 0, [int(150 / 331 * 24 * m), 0], 1, [0, 0], **MOVE)),
        (4, lambda x, m: tv.affine(x, 0, [0, int(150 / 331 * 18 * m)], 1, [0, 0], **MOVE)),
        (5, lambda x, m: tv.rotate(x, 30 * m, **MOVE)),
        (6, lambda x, m: tv.adjust_brightness(x, 1 + 0.9 * m)),
        (7, lambda x, m: tv.adjust_saturation(x, 1 + 0.9 * m)),
        (8, lambda x, m: tv.adjust_contrast(x, 1 + 0.9 * m)),
        (9, lambda x, m: tv.adjust_sharpness(x, 1 + 0.9 * m)),
        (10, lambda x, m: tv.posterize(x, 8 - round(4 * m))),
        (11, lambda x, m: tv.solarize(x, 255 * (1 - m))),
        (12, lambda x, m: tv.autocontrast(x)),
        (13, lambda x, m: tv.equalize(x)),
    ],
)
def test_each_operation_is_torchvisions(number, reference, magnitude):
    operation = operations(0.3, lambda side: side * 150 / 331, 30.0, 0.9, 4)[number]
    assert operation.signed == (0 < number < 10)
    for sign in (1, -1) if operation.signed else (1,):
        level = torch.full((8,), sign * magnitude / 30)
        amount, x = operation.amount(level, 18, 24), IMAGES.float()
        if operation.change is not None:
            x = operation.change(x, amount)
        elif operation.matrix is not None:
            x = op.move(x, operation.matrix(amount, 18, 24))
        difference = (x.round() - reference(IMAGES, sign * magnitude / 30).float()).abs()
        assert difference.max() <= 1, (sign, difference.max())


@pytest.mark.parametrize("shift", [-0.4, -0.1, 0.0, 0.25, 0.5])
def test_the_hue_is_torchvisions(shift):
    turned = op.turn_hue(IMAGES.float(), torch.full((8,), shift))
    assert (turned.round() - tv.adjust_hue(IMAGES, shift).float()).abs().max() <= 1


def test_a_flat_image_is_not_equalized():
    flat = torch.full((1, 3, 8, 8), 77.0)
    assert torch.equal(op.equalize(flat, torch.ones(1)), flat) and torch.equal(
        op.autocontrast(flat, torch.ones(1)), flat
    )


def test_every_operation_is_as_frequent_as_the_others():
    grey = torch.full((4200, 1, 16, 16), 100, dtype=torch.uint8)
    grey[:, :, 8, 8] = 101
    changed = RandAugment(1, 30).image(grey, sample_keys(0, 0, torch.arange(4200)))
    black = (changed == 0).flatten(1).any(1).float().mean()  # the 5 that move, and the 2 that spread values
    brighter = (changed == 190).flatten(1).any(1).float().mean()  # every other time that brightness changes
    assert abs(black - 7 / 14) < 0.03 and abs(brighter - 1 / 28) < 0.01


def test_jitter_stays_within_its_range():
    grey = torch.full((1000, 3, 2, 2), 100, dtype=torch.uint8)
    made = ColorJitter(0.3, 0.0, 0.0).image(grey, sample_keys(0, 0, torch.arange(1000)))[:, 0, 0, 0]
    assert made.min() == 70 and made.max() == 130 and 98 < made.float().mean() < 102
    assert torch.equal(ColorJitter(0, 0, 0).image(IMAGES, KEYS), IMAGES)


def test_errors_name_the_values():
    with pytest.raises(ValueError, match=r"RandAugment\(2, 31\)"):
        RandAugment(2, 31)
    with pytest.raises(ValueError, match="hue at most half a turn"):
        ColorJitter(hue=0.6)
