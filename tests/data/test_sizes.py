"""Batches of images of different sizes: each sample is what it is alone, augmented, damaged or kept on the disk."""

import numpy as np
import pytest
import torch
from PIL import Image

from zoo.data import Affine, CropFlip, Erase, Images, Mixup, Pairs, RandAugment
from zoo.data import picture as module
from zoo.tokenizers import BPE, Fit, Patches

TOKENIZER = Patches(32, 8, 3, resize=Fit())
SIZES = [(32, 32), (16, 24), (40, 20), (9, 30), (16, 24), (100, 60)]


@pytest.fixture
def folder(tmp_path):
    """Class folders of PNG and JPEG files of different sizes."""
    numbers = np.random.default_rng(0)
    for i, size in enumerate(SIZES):
        path = tmp_path / "photos" / "ab"[i % 2] / f"{i}.{('png', 'jpg')[i % 3 == 0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)
    return tmp_path / "photos"


def split(folder, **words):
    words = {"val": 0, "tokenizer": TOKENIZER, **words}
    return Images(str(folder), **words)._set("train")


@pytest.mark.parametrize("memory", [module.MEMORY, 0])
@pytest.mark.parametrize("augment", [[], [CropFlip(2), Affine(), Erase(1.0), RandAugment()]])
def test_each_is_what_it_is_alone(folder, memory, augment, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", memory)
    made = split(folder, augment=augment)
    files = [made.samples.input.items[i] for i in range(6)] if memory == 0 else sorted(folder.glob("*/*"))
    whole = made.__getitems__(list(range(6)))
    assert whole.input.padding.sum(1).tolist() == [TOKENIZER([Image.open(file)]).real.sum() for file in files]
    assert len(set(whole.input.padding.sum(1).tolist())) >= 4 and whole.input.value.isfinite().all()
    for i in (0, 1, 4, 5):
        alone = made.__getitems__([i])
        assert torch.equal(alone.input.value[0], whole.input.value[i]) and alone.label[0] == whole.label[i]
        assert torch.equal(alone.input.real[0], whole.input.real[i])
    if not augment:
        plain = TOKENIZER([Image.open(file) for file in files])
        assert torch.equal(plain.value, whole.input.value) and torch.equal(plain.padding, whole.input.padding)


def test_images_are_mixed_with_those_of_their_size(folder):
    made, plain = (split(folder, augment=augment).__getitems__(list(range(6))) for augment in ([Mixup(1.0)], []))
    assert made.label.shape == (6, 2) and torch.equal(made.input.padding, plain.input.padding)
    same = torch.tensor([(plain.input.padding == own).all(1).sum() > 1 for own in plain.input.padding])
    assert 2 <= same.sum() < 6  # 16 x 24 is there twice
    changed = (made.input.value - plain.input.value).abs().amax((1, 2)) > 1e-5
    assert torch.equal(changed, same)
    assert torch.allclose(made.label[~same], torch.nn.functional.one_hot(plain.label, 2).float()[~same])


def test_whole_images_need_no_padding(folder):
    for file in folder.glob("*/*"):
        Image.new("RGB", (32, 32)).save(file)
    assert split(folder).__getitems__([0, 3]).input.padding is None


def test_damaged_files_are_left_out(folder):
    data = (folder / "b" / "1.png").read_bytes()
    (folder / "b" / "1.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="1.png: not a whole image"):
        split(folder)
    batch = split(folder, on_bad="skip").__getitems__(list(range(6)))
    assert len(batch) == 5 and "1.png" in batch.skipped[0]


def test_pairs_with_images_of_different_sizes(folder):
    lines = [f'{{"image": "{file.relative_to(folder)}", "text": "one"}}\n' for file in sorted(folder.glob("*/*"))]
    (folder / "train.jsonl").write_text("".join(lines))
    for source, target in (("image", "text"), ("text", "image")):
        readers = {"image": TOKENIZER, "text": BPE()}
        data = Pairs(str(folder / "train.jsonl"), source, target, 0, readers[source], readers[target])
        batch = data._set("train").__getitems__(list(range(6)))
        images = batch.input if source == "image" else batch.target
        assert torch.equal(images.padding, TOKENIZER([Image.open(file) for file in sorted(folder.glob("*/*"))]).padding)
