"""Images that keep their shape: their sizes, their place in the grid, what is beside them, and the way back."""

import numpy as np
import pytest
import torch
from PIL import Image

from zoo.processors.image import write_image
from zoo.tokenizers import Fit, Patches
from zoo.tokenizers.image import OUTSIDE


def noise(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((32, 48), (32, 48)),  # as it is
        ((30, 44), (32, 48)),  # to whole patches, the nearer
        ((26, 41), (24, 40)),
        ((375, 500), (48, 64)),  # made smaller until it fits
        ((900, 300), (64, 24)),  # 21.3 across
        ((8, 3000), (8, 64)),  # one patch at least
        ((64, 64), (64, 64)),
    ],
)
def test_sides_are_whole_patches_and_fit(old, new):
    fitted = Fit()(noise(3, *old), 64, 64, 8)
    assert fitted.shape == (3, *new) and fitted.dtype == torch.uint8
    assert torch.equal(Fit()(fitted, 64, 64, 8), fitted)  # fitted already


def test_a_whole_image_has_the_usual_tokens():
    whole = noise(2, 3, 32, 48)
    usual, other = Patches([32, 48], 8), Patches([32, 48], 8, resize=Fit())
    assert torch.equal(other.encode(whole), usual.encode(whole))
    made = other(list(whole))
    assert made.padding is None and torch.equal(made.value, usual(list(whole)).value)


def test_a_smaller_image_lies_in_the_upper_left():
    tokenizer, image = Patches(32, 8, resize=Fit()), noise(3, 16, 24)
    tokens = tokenizer([image, noise(3, 32, 32)])
    assert tokens.padding.view(2, 4, 4)[0].tolist() == [[True] * 3 + [False]] * 2 + [[False] * 4] * 2
    assert tokens.padding[1].all() and tokens.value.isfinite().all()
    own = Patches([16, 24], 8).encode(image)
    assert torch.equal(tokens.value[0][tokens.padding[0]], own)
    assert torch.equal(tokenizer.encode(torch.stack([image, image]))[1], tokenizer.encode(image))  # a stack of one size
    assert tokens.broken.tolist() == [True, False]


def test_what_is_decoded_has_the_size_of_the_image():
    tokenizer, image = Patches(32, 8, 1, resize=Fit()), noise(1, 16, 24)
    torch.testing.assert_close(tokenizer.decode(tokenizer.encode(image)), image / 255)
    tokens = tokenizer([image])
    whole = tokenizer.unpadded(tokens.value[0], tokens.padding[0])
    assert whole.shape == (16, 64) and whole[3].eq(OUTSIDE).all()
    hidden = tokens.padding[0].clone()
    hidden[0] = False  # all of the last row and column are hidden, and still there
    shown = tokenizer.guessed(whole, torch.zeros(16, 64), hidden)
    assert [tuple(part.shape) for part in shown.values()] == [(1, 16, 24)] * 3
    original, masked, guessed = shown.values()
    assert masked.isnan().sum() == 5 * 64 and torch.equal(masked[:, :8, :8], original[:, :8, :8])
    assert guessed.eq(0.5).all()
    regarded = tokenizer.regarded(whole, torch.arange(32.0).view(2, 16))
    assert regarded["head 2"][1].tolist() == [[16, 17, 18], [20, 21, 22]] and regarded["mean"][0].shape == (1, 16, 24)


def test_files_and_arrays_of_any_size():
    tokenizer = Patches(32, 8, resize=Fit())
    picture = Image.fromarray(noise(20, 50, 3).numpy())
    value = tokenizer.encode(picture)
    assert (value[:, 0] != OUTSIDE).sum() == 2 * 4  # 20 x 50 becomes 12.8 x 32, and that 16 x 32
    raw = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    assert torch.equal(tokenizer.encode(raw), value)


def test_errors_name_the_sizes():
    tokenizer = Patches(32, 8, resize=Fit())
    with pytest.raises(
        ValueError, match="20 x 50 pixels; Patches expects 3 channels and 32 x 32 pixels at most, in whole"
    ):
        tokenizer.encode(torch.rand(3, 20, 50))
    with pytest.raises(ValueError, match="an image of 1 channels"):
        tokenizer.encode(noise(1, 16, 16))
    with pytest.raises(ValueError, match="16 x 24 pixels cannot be gone on from: give one of 32 x 32"):
        tokenizer.prompt(noise(3, 16, 24))
    assert torch.equal(tokenizer.prompt(noise(3, 32, 32)), tokenizer.encode(noise(3, 32, 32)))
    with pytest.raises(ValueError, match="interpolation='lanczos' is none of"):
        Fit("lanczos")
    with pytest.raises(ValueError, match="its files know images of one size, and not Fit"):
        write_image(tokenizer, "ViTImageProcessor")
