"""Patches: the cut and its inverse, stems, hidden patches, errors."""

import pickle
from functools import partial

import pytest
import torch

from zoo.tokenizers import ConvStem, LinearStem, Patches, Resize


@pytest.mark.parametrize(("size", "patch", "channels"), [(32, 4, 3), ([8, 12], 2, 1), (224, 16, 3), ([6, 4], 1, 4)])
def test_patches_cut_and_join(size, patch, channels):
    tokenizer = Patches(size, patch, channels, mean=0.4, std=0.3)
    images = torch.rand(2, channels, tokenizer.height, tokenizer.width)
    value = tokenizer.encode(images)
    assert value.shape == (2, tokenizer.length, patch * patch * channels)
    torch.testing.assert_close(tokenizer.decode(value[1]), images[1])
    torch.testing.assert_close(value[0], tokenizer.encode(images[0]))


def test_a_token_is_its_square_row_column_channel():
    tokenizer = Patches(8, 4, 3, mean=[0.1, 0.2, 0.3], std=[1.0, 2.0, 3.0])
    image = torch.rand(3, 8, 8)
    token = tokenizer.encode(image)[1].view(4, 4, 3)  # the upper right square
    for y, x, c in [(0, 0, 0), (3, 1, 2), (2, 3, 1)]:
        assert token[y, x, c] == pytest.approx(float((image[c, y, 4 + x] - 0.1 * (c + 1)) / (c + 1)), abs=1e-6)


def test_bytes_are_scaled():
    tokenizer = Patches(4, 2, 1, mean=0.0, std=1.0)
    assert tokenizer.encode(torch.full((1, 4, 4), 255, dtype=torch.uint8)).eq(1).all()


def test_the_linear_embedding_is_a_strided_convolution():
    tokenizer = Patches(8, 4, 3)
    embed, images = tokenizer.embed(16), torch.rand(2, 3, 8, 8)
    weight = embed.projection.weight.view(16, 4, 4, 3).permute(0, 3, 1, 2)
    convolved = torch.conv2d((images - 0.5) / 0.5, weight, embed.projection.bias, stride=4).flatten(2).mT
    torch.testing.assert_close(embed(tokenizer.encode(images)), convolved)


@pytest.mark.parametrize("stem", [None, partial(ConvStem, width=16)])
def test_what_is_hidden_cannot_be_seen(stem):
    tokenizer = Patches(8, 2, 1, stem=stem)
    embed = tokenizer.embed(16)
    embed.add_mask()
    value, hidden = tokenizer.encode(torch.rand(2, 1, 8, 8)), torch.rand(2, 16) < 0.5
    other = torch.where(hidden[..., None], torch.randn_like(value), value)
    torch.testing.assert_close(embed(value, hidden), embed(other, hidden))
    assert not torch.allclose(embed(value), embed(other))


def test_the_score_is_the_mean_squared_error():
    tokenizer = Patches(4, 2, 1)
    total, count = tokenizer.score(torch.zeros(3, 4), torch.full((3, 4), 2.0))["loss"]
    assert total / count == 4


def test_it_is_a_value():
    stem = partial(ConvStem, width=16)
    assert Patches(8, 2, stem=stem) == Patches(8, 2, stem=stem) == pickle.loads(pickle.dumps(Patches(8, 2, stem=stem)))
    assert Patches(8, 2) != Patches(8, 4)


def test_errors_name_the_numbers():
    with pytest.raises(ValueError, match="patch=3 does not divide the image of 8 x 8"):
        Patches(8, 3)
    with pytest.raises(ValueError, match="has 2 numbers for 3 channels"):
        Patches(8, 2, mean=[0.1, 0.2])
    with pytest.raises(ValueError, match="5 x 5 pixels is smaller than a patch of 16 x 16"):
        Patches(32, 16).encode(torch.rand(3, 5, 5))
    with pytest.raises(ValueError, match="an image of 1 channels"):
        Patches(32, 16).encode(torch.rand(1, 32, 32))


def test_resizing():
    image = torch.randint(0, 255, (3, 20, 40), dtype=torch.uint8)
    stretched = Resize()(image, 8, 8)
    assert stretched.shape == (3, 8, 8) and stretched.dtype == torch.uint8
    assert torch.equal(Resize(20)(image, 20, 20), image[:, :, 10:30])  # the centre
    assert torch.equal(Resize([20, 40])(image, 30, 40)[:, 5:25], image)  # on black
    assert Resize([20, 40])(image, 30, 40)[:, :5].eq(0).all()
    assert torch.equal(Resize(interpolation="nearest")(image, 40, 80)[:, ::2, ::2], image)
    with pytest.raises(ValueError, match="interpolation='lanczos' is none of"):
        Resize(interpolation="lanczos")


def test_images_of_another_size_need_a_way_to_resize():
    image = torch.randint(0, 255, (3, 20, 40), dtype=torch.uint8)
    assert Patches(8, 4, resize=Resize()).encode(image).shape == (4, 48)
    with pytest.raises(ValueError, match="20 x 40 pixels; Patches expects"):
        Patches(8, 4).encode(image)
    with pytest.raises(ValueError, match="an image of 1 channels"):
        Patches(8, 4, resize=Resize()).encode(image[:1])
    exact, resizing = torch.randint(0, 255, (3, 8, 8), dtype=torch.uint8), Patches(8, 4, resize=Resize(12))
    assert torch.equal(resizing.encode(exact), Patches(8, 4).encode(exact))  # fitted already


def test_a_linear_stem_without_bias():
    embed = Patches(8, 4, stem=partial(LinearStem, bias=False)).embed(16)
    assert [name for name, _ in embed.named_parameters()] == ["projection.weight"]
