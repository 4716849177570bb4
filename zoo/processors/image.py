"""Images beside a published model: ``preprocessor_config.json``, in the forms that it has had."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from zoo.processors.processor import Files, Processor, preprocessing, written
from zoo.processors.text import read_text, write_text
from zoo.settings import Config, sensible
from zoo.tokenizers import Patches, Resize, Stem, Tokenizer
from zoo.tokenizers.image import Filter

HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
USUAL = {  # what each kind of file means where it says nothing
    "ViTImageProcessor": {"size": 224, "resample": 2, **HALF},
    "DeiTImageProcessor": {"size": 256, "resample": 3, "do_center_crop": True, **IMAGENET},
    "CLIPImageProcessor": {"size": 224, "resample": 3, "do_center_crop": True, **CLIP},
}
NUMBERS: dict[Filter, int] = {"nearest": 0, "bilinear": 2, "bicubic": 3}  # PIL's
FILTERS: dict[int, Filter] = {number: name for name, number in NUMBERS.items()}


class ImageProcessor(Processor):
    """One image.  ``kind`` names the preprocessor of the family."""

    def __init__(self, kind: str = "ViTImageProcessor"):
        self.kind = kind

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {"tokenizer": read_image(config, preprocessing(folder, "image_processor"), self.kind)}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        return write_image(task.tokenizer, self.kind)


class ImageTextProcessor(Processor):
    """An image and its text: CLIP's two towers."""

    def __init__(self, kind: str, stem: Callable[..., Stem]):
        self.kind, self.stem = kind, stem

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        found = preprocessing(folder, "image_processor")
        image = read_image(config["vision_config"], found, self.kind, self.stem)
        words = {**config["text_config"], "model_type": config["model_type"]}
        return {"tokenizer": image, "target_tokenizer": read_text(words, folder, None, "bos_token_id")}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        vision, files = write_image(task.tokenizer, self.kind)
        text, more = write_text(task.target_tokenizer, "bos_token_id")
        return {"vision_config": vision, "text_config": text}, {**files, **more}


def read_image(config: Config, found: Config, kind: str, stem: Callable[..., Stem] | None = None) -> Patches:
    """The image tokenizer of a model: its size from config.json, how images are brought to it from ``found``.

    Raises ValueError for a preprocessor that is not known, or that does what is not known here.
    """
    with sensible("the image preprocessor"):
        return understood(config, found, kind, stem)


def understood(config: Config, found: Config, kind: str, stem: Callable[..., Stem] | None) -> Patches:
    name = found.get("image_processor_type") or found.get("feature_extractor_type") or kind
    name = name.removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    if name not in USUAL:
        raise ValueError(f"the image preprocessor {name!r} is not known; there are {', '.join(USUAL)}")
    words = {"do_resize": True, "do_rescale": True, "do_normalize": True, **USUAL[name], **found}
    unit = 255 * words.get("rescale_factor", 1 / 255) if words["do_rescale"] else 255.0  # theirs = ours times this
    mean, std = (words["image_mean"], words["image_std"]) if words["do_normalize"] else ([0.0], [1.0])
    channels = config["num_channels"]
    mean, std = (per_channel(values, unit, channels) for values in (mean, std))
    image = config["image_size"]
    height, width = (image, image) if isinstance(image, int) else (image[0], image[1])
    resize = read_resize(words, name, height, width) if words["do_resize"] else None
    size = height if height == width else [height, width]
    return Patches(size, config["patch_size"], channels, mean, std, stem, resize)


def read_resize(words: Config, name: str, height: int, width: int) -> Resize:
    """How images are brought to ``height`` x ``width``; a file for another size is scaled to this one."""
    if words["resample"] not in FILTERS:
        found = f"resample={words['resample']!r}"
        raise ValueError(f"the image preprocessor's {found} is not supported; there are {FILTERS}")
    size = words["size"]
    if isinstance(size, int):
        size = {"shortest_edge": size} if name == "CLIPImageProcessor" else {"height": size, "width": size}
    elif isinstance(size, (list, tuple)):
        size = {"height": size[0], "width": size[1]}
    if set(size) - {"height", "width", "shortest_edge"} or not size:
        known = "it has height and width, or shortest_edge"
        raise ValueError(f"the image preprocessor's size={size!r} is not supported; {known}")
    crop = words.get("crop_size", 224) if words.get("do_center_crop") else size
    crop = (crop, crop) if isinstance(crop, int) else (crop.get("height"), crop.get("width"))
    scale = height / crop[0] if crop[0] else 1.0
    if "shortest_edge" in size:
        return Resize(round(size["shortest_edge"] * scale), FILTERS[words["resample"]])
    both = [round(size["height"] * scale), round(size["width"] * scale)]
    return Resize(None if both == [height, width] or crop == (None, None) else both, FILTERS[words["resample"]])


def write_image(tokenizer: Tokenizer, kind: str) -> tuple[Config, Files]:
    """What config.json says about an image tokenizer, and preprocessor_config.json.  Raises ValueError for a tokenizer
    of another modality, and one of images of different sizes."""
    if not isinstance(tokenizer, Patches):
        raise ValueError(f"it reads images, and its tokenizer is {type(tokenizer).__name__}")
    given = tokenizer._arguments or {"mean": tokenizer.mean.flatten().tolist(), "std": tokenizer.std.flatten().tolist()}
    height, width, channels = tokenizer.height, tokenizer.width, tokenizer.channels
    whole = {"height": height, "width": width}
    resize = tokenizer.resize or Resize(max(height, width), "bicubic")  # nearly what a data module does
    if not isinstance(resize, Resize):
        raise ValueError(f"its files know images of one size, and not {type(resize).__name__}: use resize=Resize()")
    if resize.size is None:
        size = whole
    else:
        size = {"shortest_edge": resize.size} if isinstance(resize.size, int) else dict(zip(whole, resize.size))
    words = {"image_processor_type": kind, "do_convert_rgb": channels == 3, "do_resize": True, "size": size}
    words |= {"resample": NUMBERS[resize.interpolation], "do_center_crop": resize.size is not None, "crop_size": whole}
    words |= {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
    words |= {f"image_{name}": per_channel(given[name], 1, channels) for name in ("mean", "std")}
    image = height if height == width else [height, width]
    return {"image_size": image, "patch_size": tokenizer.patch, "num_channels": channels}, written(words)


def per_channel(values: list[float] | float, unit: float, channels: int) -> list[float]:
    """One value a channel, on pixels in [0, 1]; equal ones do for any number of channels."""
    values = [values] if isinstance(values, (int, float)) else values
    values = values[:1] * channels if len(set(values)) == 1 else values
    return [value / unit for value in values] if unit != 1 else list(values)


class TimmProcessor(Processor):
    """The images that timm's own evaluation makes."""

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {"tokenizer": read_image(config, config.get("preprocessor", {}), "ViTImageProcessor")}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        raise ValueError("timm's files are read and not written")


def timm_words(words: Config, height: int, width: int) -> Config:
    """timm's evaluation in the words of preprocessor_config.json: the shorter side is the model's over ``crop_pct``."""
    name, mode = words.get("interpolation", "bicubic"), words.get("crop_mode") or "center"
    if name not in NUMBERS or mode not in ("center", "squash"):
        raise ValueError(f"interpolation={name!r} with crop_mode={mode!r} is not supported")
    down, across = (math.floor(side / (words.get("crop_pct") or 1.0)) for side in (height, width))
    square = height == width and mode == "center"
    size = {"shortest_edge": down} if square else {"height": down, "width": across}
    crop = {"do_center_crop": True, "crop_size": {"height": height, "width": width}}
    scale = {f"image_{each}": list(words.get(each, (0.5, 0.5, 0.5))) for each in ("mean", "std")}
    return {"size": size, "resample": NUMBERS[name], **crop, **scale}
