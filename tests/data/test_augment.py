"""Augmentations: each sample's is its own, whatever stands beside it in the batch."""

import pytest
import torch
from torchvision.transforms import v2

from zoo.data import Affine, CropFlip, Erase, Images, Mixup, SpecAugment, Transform
from zoo.rng import sample_keys
from zoo.tokenizers import Patches, Tokens

IMAGES = torch.randint(0, 256, (6, 3, 12, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
KEYS = sample_keys(0, 0, torch.arange(6))


@pytest.mark.parametrize(
    "augment",
    [
        CropFlip(2),
        Affine(20, 0.2, 0.2, 10),
        Erase(1.0),
        Transform(v2.RandAugment()),
        Transform(v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.5)]), pil=True),
    ],
)
def test_a_sample_is_changed_by_its_key_alone(augment):
    state = torch.get_rng_state()
    whole = augment.image(IMAGES, KEYS)
    order = torch.tensor([4, 1])
    assert whole.dtype == torch.uint8 and whole.shape == IMAGES.shape and not torch.equal(whole, IMAGES)
    assert torch.equal(augment.image(IMAGES[order], KEYS[order]), whole[order])
    assert not torch.equal(augment.image(IMAGES, sample_keys(0, 1, torch.arange(6))), whole)
    assert torch.equal(torch.get_rng_state(), state)


def test_crop_flip_moves_pixels():
    keys = sample_keys(0, 0, torch.arange(200))
    square = torch.zeros(200, 1, 8, 8, dtype=torch.uint8)
    square[:, :, 3, 2] = 9
    moved = CropFlip(1).image(square, keys)
    assert (moved.flatten(1).sum(1) == 9).all()
    assert set(moved.nonzero()[:, 3].tolist()) == {1, 2, 3, 4, 5, 6} and set(moved.nonzero()[:, 2].tolist()) == {
        2,
        3,
        4,
    }
    assert torch.equal(CropFlip(0, flip=False).image(square, keys), square)


def test_affine_turns_without_distortion():
    still = Affine(0, 0, 0, 0).image(IMAGES, KEYS)
    assert (still.int() - IMAGES.int()).abs().max() <= 1
    disc = ((torch.arange(20)[:, None] - 9.5) ** 2 + (torch.arange(40) - 19.5) ** 2 < 49).to(torch.uint8) * 255
    turned = Affine(180, 0, 0, 0).image(disc.expand(50, 1, 20, 40), sample_keys(0, 0, torch.arange(50)))
    assert (turned.float() - disc).abs().mean() < 8  # a disc stays a disc in a wide image


def test_erase_hides_the_share_it_says():
    black = torch.zeros(300, 1, 20, 20)
    hidden = (Erase(0.5, 0.1, 0.2).image(black, sample_keys(0, 0, torch.arange(300))) > 0).float().mean((1, 2, 3))
    assert 0.4 < (hidden > 0).float().mean() < 0.6
    assert hidden[hidden > 0].min() > 0.07 and hidden.max() < 0.25


def test_specaugment_stays_inside_the_real_frames():
    value = torch.ones(6, 30, 12)
    padding = torch.arange(30) < torch.tensor([30, 30, 30, 20, 20, 20])[:, None]
    augment = SpecAugment(8, 4, 2)
    whole = augment.tokens(Tokens(value, padding), KEYS).value
    alone = augment.tokens(Tokens(value[3:4, :20]), KEYS[3:4]).value
    assert torch.equal(whole[3, :20], alone[0])
    assert 0 < (whole == 0).float().mean() < 0.8 and (whole[:, :, :].amax((1, 2)) == 1).all()


@pytest.mark.parametrize("augment", [Mixup(1.0), Mixup(0, 1.0), Mixup(0.4, 1.0)])
def test_mixup_probabilities_sum_to_one(augment):
    label = torch.tensor([0, 1, 2, 3, 4, 4])
    for epoch in range(8):
        keys = sample_keys(0, epoch, torch.arange(6))
        image, mixed = augment.mix(IMAGES, label, 5, keys)
        assert mixed.shape == (6, 5) and torch.allclose(mixed.sum(1), torch.ones(6))
        assert image.shape == IMAGES.shape and torch.equal(augment.mix(IMAGES, label, 5, keys)[0], image)


def test_cutmix_weights_are_the_areas():
    image = torch.zeros(2, 1, 10, 10)
    image[1] = 1
    for epoch in range(5):
        mixed, label = Mixup(0, 1.0).mix(image, torch.tensor([0, 1]), 2, sample_keys(0, epoch, torch.arange(2)))
        assert torch.allclose(mixed.mean((1, 2, 3)), label[:, 1])


def test_mixup_in_a_loader_and_without_labels():
    data = Images(tokenizer=Patches(8, 2, 1), augment=[CropFlip(1), Mixup(0.5)])
    batch = next(iter(data.train_dataloader()))
    assert batch.label.shape == (64, 10) and batch.input.value.shape == (64, 16, 4)
    assert next(iter(data.val_dataloader())).label.dtype == torch.int64
    with pytest.raises(ValueError, match="these data have none"):
        Mixup().mix(IMAGES, None, 0, KEYS)
    with pytest.raises(ValueError, match="one must be above 0"):
        Mixup(0, 0)
