"""From raw images and sounds to logits: what a published preprocessor does, and the file of it that we write."""

import json

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import zoo
from tests.models.parity import worst
from tests.models.rows import ast, clip, vit
from zoo.processors.image import read_image, write_image
from zoo.tokenizers import Patches, Resize, Tokens, Waveform

SIZES = [(24, 24), (61, 37), (30, 90), (13, 40), (200, 201), (25, 24)]
MODES = ["RGB", "L", "RGBA", "LA", "P", "1", "CMYK"]


def picture(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Smooth shapes and noise; an alpha channel with all values, a palette with a transparent colour."""
    generator = np.random.default_rng(size[0])
    x, y = np.meshgrid(np.linspace(0, 3, size[0]), np.linspace(0, 2, size[1]))
    channels = [np.sin(x * (i + 1) + y) * 100 + 128 + generator.normal(size=x.shape) * 20 for i in range(4)]
    image = Image.fromarray(np.stack(channels, -1).clip(0, 255).astype(np.uint8), "RGBA")
    if mode == "P":
        image = image.convert("RGB").quantize(32)
        image.info["transparency"] = 3
        return image
    return image.convert(mode) if mode != "RGBA" else image


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict:
    """ViT and CLIP with their processors, ours and theirs."""
    found = {}
    kinds = {
        "vit": (vit.ROWS[0], hf.ViTImageProcessor(size={"height": 24, "width": 24})),
        "clip": (clip.ROWS[0], hf.CLIPImageProcessor(size={"shortest_edge": 24}, crop_size=24)),
        "larger": (vit.ROWS[0], hf.ViTImageProcessor(size={"shortest_edge": 31}, crop_size=24, do_center_crop=True)),
    }
    for name, (row, processor) in kinds.items():
        folder, theirs = tmp_path_factory.mktemp(name), row.build()
        theirs.save_pretrained(folder)
        processor.save_pretrained(folder)
        found[name] = zoo.load(folder), theirs, hf.AutoImageProcessor.from_pretrained(folder)
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", ["vit", "clip", "larger"])
def test_pixels_are_the_reference_s(models, name, size):
    ours, _, processor = models[name]
    expected = processor(picture(size), return_tensors="pt")["pixel_values"][0]
    found = ours.tokenizer.unpatchify(ours.tokenizer.encode(picture(size)))
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 1e-5
    as_bytes = torch.from_numpy(np.array(picture(size))).permute(2, 0, 1)
    if as_bytes.shape != found.shape:  # bytes of the right size are taken as they are
        assert torch.equal(ours.tokenizer.unpatchify(ours.tokenizer.encode(as_bytes)), found)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_image_becomes_rgb(models, mode):
    ours, _, processor = models["clip"]
    expected = processor(picture((61, 37), mode), return_tensors="pt")["pixel_values"][0]
    found = ours.tokenizer.unpatchify(ours.tokenizer.encode(picture((61, 37), mode)))
    assert (found - expected).abs().max() < 1e-5


def test_from_images_to_logits(models, tmp_path):
    for name in ("vit", "larger"):
        ours, theirs, processor = models[name]
        images = [picture(size) for size in SIZES]
        pixels = processor(images, return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            assert worst(ours(ours.tokenizer(images)), theirs(pixel_values=pixels).logits) < 1e-3
    ours, theirs, processor = models["clip"]
    images, text = [picture((61, 37), mode) for mode in MODES], clip.random_ids(90, 7, 0)
    text.value[:, -1] = 96
    pixels = processor(images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = theirs(input_ids=text.value, pixel_values=pixels).logits_per_image
        assert worst(ours.similarity(ours.tokenizer(images), text), expected) < 1e-3


@pytest.mark.parametrize("name", ["vit", "clip", "larger"])
def test_the_file_that_we_write_means_the_same(models, name, tmp_path):
    ours, _, processor = models[name]
    zoo.save(ours, tmp_path)
    again = hf.AutoImageProcessor.from_pretrained(tmp_path)
    for size in SIZES:
        expected = processor(picture(size), return_tensors="pt")["pixel_values"]
        assert (again(picture(size), return_tensors="pt")["pixel_values"] - expected).abs().max() < 1e-5
    assert zoo.load(tmp_path).tokenizer == ours.tokenizer


CONFIG = {"image_size": 24, "patch_size": 8, "num_channels": 3}


@pytest.mark.parametrize(
    ("found", "kind", "resize"),
    [
        ({}, "ViTImageProcessor", Resize()),
        ({}, "CLIPImageProcessor", Resize(24, "bicubic")),
        ({"size": 24, "feature_extractor_type": "ViTFeatureExtractor"}, "ViTImageProcessor", Resize()),
        ({"size": [24, 24], "resample": 3}, "ViTImageProcessor", Resize(None, "bicubic")),
        ({"size": 24, "crop_size": 24, "feature_extractor_type": "CLIPFeatureExtractor"}, "", Resize(24, "bicubic")),
        ({"size": 384}, "ViTImageProcessor", Resize()),  # a file for another size than config.json's
        ({"size": {"shortest_edge": 32}, "crop_size": 24}, "CLIPImageProcessor", Resize(32, "bicubic")),
        ({"image_processor_type": "DeiTImageProcessor"}, "ViTImageProcessor", Resize([27, 27], "bicubic")),
        ({"image_processor_type": "ViTImageProcessorFast", "resample": 0}, "", Resize(None, "nearest")),
        ({"do_resize": False}, "ViTImageProcessor", None),
    ],
)
def test_forms_of_the_file(found, kind, resize):
    read = read_image(CONFIG, found, kind).resize
    assert (read and read._arguments) == (resize and resize._arguments)


@pytest.mark.parametrize(
    ("found", "mean", "std"),
    [
        ({"image_mean": [0.1, 0.2, 0.3]}, [0.1, 0.2, 0.3], [0.5] * 3),
        ({"do_normalize": False}, [0.0] * 3, [1.0] * 3),
        ({"do_rescale": False, "image_mean": [127.5] * 3, "image_std": [127.5] * 3}, [0.5] * 3, [0.5] * 3),
        ({"rescale_factor": 1 / 127.5, "image_mean": [1.0] * 3, "image_std": [1.0] * 3}, [0.5] * 3, [0.5] * 3),
        ({"do_normalize": False, "rescale_factor": 1.0}, [0.0] * 3, [1 / 255] * 3),
    ],
)
def test_scales(found, mean, std):
    tokenizer = read_image(CONFIG, found, "ViTImageProcessor")
    assert tokenizer.mean.flatten().tolist() == pytest.approx(mean)
    assert tokenizer.std.flatten().tolist() == pytest.approx(std)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"image_processor_type": "ConvNextImageProcessor"}, "'ConvNextImageProcessor' is not known"),
        ({"resample": 1}, "resample=1 is not supported"),
        ({"size": {"longest_edge": 24}}, "longest_edge.* is not supported"),
        ({"size": "large"}, r"the image preprocessor.*(large|cannot be read)"),
        ({"image_mean": None}, r"the image preprocessor cannot be read"),
    ],
)
def test_what_is_not_known_is_refused(found, words):
    with pytest.raises(ValueError, match=words):
        read_image(CONFIG, found, "ViTImageProcessor")


def test_a_damaged_file_is_named(models, tmp_path):
    zoo.save(models["vit"][0], tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("[1")
    with pytest.raises(ValueError, match=r"preprocessor_config.json is not JSON"):
        zoo.load(tmp_path)


def test_the_newer_file_holds_a_part_for_images(models, tmp_path):
    zoo.save(models["vit"][0], tmp_path)
    words = json.loads((tmp_path / "preprocessor_config.json").read_text()) | {"image_mean": [0.1, 0.2, 0.3]}
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": words}))
    assert zoo.load(tmp_path).tokenizer.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_a_tokenizer_that_fits_nothing_writes_what_a_data_module_does():
    words = json.loads(write_image(Patches(24, 8), "ViTImageProcessor")[1]["preprocessor_config.json"])
    assert words["size"] == {"shortest_edge": 24} and words["resample"] == 3 and words["do_center_crop"]


# ---- sounds


@pytest.mark.parametrize("seconds", [0.1, 0.655, 2.0])
def test_from_sound_to_logits(seconds, tmp_path):
    theirs = ast.ROWS[0].build()
    theirs.save_pretrained(tmp_path / "theirs")
    hf.ASTFeatureExtractor(num_mel_bins=40, max_length=64, mean=-3.0, std=2.5).save_pretrained(tmp_path / "theirs")
    ours = zoo.load(tmp_path / "theirs")
    zoo.save(ours, tmp_path / "ours")
    assert zoo.load(tmp_path / "ours").tokenizer == ours.tokenizer
    sound = torch.randn(int(16_000 * seconds), generator=torch.Generator().manual_seed(1)) * 0.1
    tokens = ours.tokenizer([Waveform(sound, 16_000)])
    for folder in ("theirs", "ours"):
        extractor = hf.AutoFeatureExtractor.from_pretrained(tmp_path / folder)
        expected = extractor(sound.numpy(), sampling_rate=16_000, return_tensors="pt")["input_values"]
        assert tokens.value.shape == expected.shape and (tokens.value - expected).abs().max() < 1e-4
    with torch.no_grad():
        assert worst(ours(tokens), theirs(input_values=expected).logits) < 1e-3
        assert ours(Tokens(tokens.value, torch.ones(1, 64, dtype=torch.bool))).isfinite().all()
