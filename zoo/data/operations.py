"""The operations of RandAugment and ColorJitter on whole batches, each image by an amount of its own."""

# Shapes: B batch, C channels, H height, W width.  Images are floats from 0 to 255; what leaves that range is cut off.

import torch
import torch.nn.functional as F
from torch import Tensor

GREY = (0.2989, 0.587, 0.114)  # how bright red, green and blue are (ITU-R BT.601)


def brighten(images: Tensor, factor: Tensor) -> Tensor:
    """``factor`` (B,) 0: black, 1: as it is."""
    return mixed(images, torch.zeros_like(images), factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """0: the mean grey, 1: as it is."""
    mean = grey(images).floor().mean((-3, -2, -1), keepdim=True)
    return mixed(images, mean, factor)


def saturate(images: Tensor, factor: Tensor) -> Tensor:
    """0: grey, 1: as it is; grey images stay."""
    return images if images.size(1) == 1 else mixed(images, grey(images).floor(), factor)


def sharpen(images: Tensor, factor: Tensor) -> Tensor:
    """0: blurred by the eight neighbours, 1: as it is; the outermost pixels stay."""
    if min(images.shape[-2:]) < 3:
        return images
    kernel = torch.ones(images.size(1), 1, 3, 3)
    kernel[:, :, 1, 1] = 5
    blurred = images.clone()
    blurred[..., 1:-1, 1:-1] = F.conv2d(images, kernel / 13, groups=images.size(1)).round()
    return mixed(images, blurred, factor)


def turn_hue(images: Tensor, shift: Tensor) -> Tensor:
    """``shift`` (B,) in turns of the colour circle; grey images stay."""
    if images.size(1) == 1:
        return images
    high, low = images.amax(1), images.amin(1)  # (B, H, W)
    spread = high - low
    red, green, blue = images.unbind(1)
    of_green, of_blue = 2 + (blue - red) / spread, 4 + (red - green) / spread
    hue = torch.where(high == red, (green - blue) / spread, torch.where(high == green, of_green, of_blue))
    hue = torch.where(spread == 0, 0.0, hue) + 6 * shift[:, None, None]  # in sixths of a turn
    steps = torch.tensor([5.0, 3.0, 1.0]).view(1, 3, 1, 1)
    place = (hue[:, None] + steps) % 6  # (B, 3, H, W)
    return high[:, None] - spread[:, None] * torch.minimum(place, 4 - place).clamp(0, 1)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """The uppermost ``bits`` (B,) of 8 are kept."""
    step = 2.0 ** (8 - bits.view(-1, 1, 1, 1))
    return (images / step).floor() * step


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Values of at least ``threshold`` (B,) are inverted."""
    return torch.where(images >= threshold.view(-1, 1, 1, 1), 255 - images, images)


def autocontrast(images: Tensor, amount: Tensor) -> Tensor:
    """Each channel is stretched over all values; ``amount`` is not read."""
    low, high = images.amin((-2, -1), keepdim=True), images.amax((-2, -1), keepdim=True)
    return torch.where(high > low, (images - low) * 255 / (high - low).clamp(min=1e-6), images)


def equalize(images: Tensor, amount: Tensor) -> Tensor:
    """Each channel gets all values equally often, as PIL does it; ``amount`` is not read."""
    level = images.round().long().flatten(2).flatten(0, 1)  # (B C, H W)
    count = torch.zeros(len(level), 256, dtype=torch.long).scatter_add_(1, level, torch.ones_like(level))
    last = count.gather(1, level.amax(1, keepdim=True))  # of the highest value that there is
    step = (level.size(1) - last) // 255  # (B C, 1)
    table = (step // 2 + count.cumsum(1) - count) // step.clamp(min=1)
    table = torch.where(step > 0, table.clamp(max=255), torch.arange(256))
    return table.gather(1, level).view_as(images).type_as(images)


def grey(images: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, 1, H, W)"""
    if images.size(1) == 1:
        return images
    return (images * torch.tensor(GREY).view(3, 1, 1)).sum(1, keepdim=True)


def mixed(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """``other`` where ``factor`` (B,) is 0, the images where it is 1, and beyond both."""
    return torch.lerp(other.expand_as(images), images, factor.view(-1, 1, 1, 1)).clamp(0, 255)


def move(images: Tensor, matrices: Tensor) -> Tensor:
    """Each pixel (x, y), counted from the centre, is taken from where (x, y, 1) multiplied by its image's matrix lies,
    ``matrices`` being (B, 2, 3); black comes in from outside."""
    height, width = images.shape[-2:]
    unit = torch.tensor([[1.0, height / width, 2 / width], [width / height, 1.0, 2 / height]])  # sides are -1 to 1
    grid = F.affine_grid(matrices * unit, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def shear_x(share: Tensor, height: int, width: int) -> Tensor:
    """(B,) -> (B, 2, 3), for ``move``: rows are shifted, the lower the more."""
    return _matrices(share, {(0, 1): share, (0, 2): share * height / 2})


def shear_y(share: Tensor, height: int, width: int) -> Tensor:
    """Likewise, columns."""
    return _matrices(share, {(1, 0): share, (1, 2): share * width / 2})


def shift_x(pixels: Tensor, height: int, width: int) -> Tensor:
    """To the right by so many whole ``pixels``."""
    return _matrices(pixels, {(0, 2): -pixels.trunc()})


def shift_y(pixels: Tensor, height: int, width: int) -> Tensor:
    """Down."""
    return _matrices(pixels, {(1, 2): -pixels.trunc()})


def rotate(degrees: Tensor, height: int, width: int) -> Tensor:
    """Around the centre, to the left."""
    angle = degrees.deg2rad()
    cos, sin = angle.cos(), angle.sin()
    return _matrices(degrees, {(0, 0): cos, (0, 1): -sin, (1, 0): sin, (1, 1): cos})


def _matrices(amount: Tensor, places: dict[tuple[int, int], Tensor]) -> Tensor:
    """(B, 2, 3) those that change nothing, but in some places."""
    made = torch.eye(2, 3).repeat(len(amount), 1, 1)
    for (row, column), value in places.items():
        made[:, row, column] = value
    return made
