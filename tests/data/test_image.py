"""Every form of labelled images, and what is wrong with some."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from zoo.data import Images
from zoo.data import picture as module
from zoo.tokenizers import Patches

GREY, COLOUR = Patches(8, 2, 1), Patches(8, 4, 3)


def picture(path, value=0, size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)
    return path


def pixels(data, split="train", tokenizer=COLOUR):
    """(N, C, H, W) what the loader gives, in [0, 1], and (N,) labels, in the order of the data."""
    batch = data.loader(split).dataset.__getitems__(list(range(len(data.source.splits[split].input))))
    return torch.stack([tokenizer.decode(value) for value in batch.input.value]), batch.label


def test_embedded_digits():
    data = Images(tokenizer=GREY, val=0)
    assert data.classes[3] == "three" and len(data.classes) == 10
    images, labels = pixels(data, "test", GREY)
    assert images.shape == (899, 1, 8, 8) and images.max() == 1 and images.min() == 0
    from sklearn.datasets import load_digits

    assert torch.allclose(images[:, 0], torch.tensor(load_digits().images[898:] / 16).float(), atol=1 / 255)
    assert labels.tolist() == load_digits().target[898:].tolist()


def test_no_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ValueError, match=r"pip install lightning-zoo\[demo\]"):
        _ = Images().classes


def test_class_folders_with_and_without_splits(tmp_path):
    for kind, colour in {"train": (255, 0, 0), "cat": (0, 255, 0)}.items():  # a class may be called train
        for i in range(3):
            picture(tmp_path / "flat" / kind / f"{i}.png", colour)
            picture(tmp_path / "deep" / "train" / kind / f"{i}.png", colour)
        picture(tmp_path / "deep" / "test" / kind / "0.png", colour)
    data = Images(str(tmp_path / "flat"), tokenizer=COLOUR, val=0)
    images, labels = pixels(data)
    assert data.classes == ["cat", "train"] and labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images[0, :, 0, 0].tolist() == [0, 1, 0] and images[5, :, 0, 0].tolist() == [1, 0, 0]
    data = Images(str(tmp_path / "deep"), tokenizer=COLOUR, val=0.5)
    assert [len(data.source.splits[split].input) for split in ("train", "val", "test")] == [3, 3, 2]


def test_npz(tmp_path):
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    np.savez(tmp_path / "a.npz", images=images, labels=[0, 2, 1, 2])
    data = Images(str(tmp_path / "a.npz"), tokenizer=GREY, val=0)
    found, labels = pixels(data, tokenizer=GREY)
    assert (found[:, 0] * 255).round().byte().numpy().tolist() == images.tolist() and labels.tolist() == [0, 2, 1, 2]
    assert data.classes == ["0", "1", "2"]
    four = {"train_images": images, "train_labels": [0, 1, 0, 1], "test_images": images[:1], "test_labels": [1]}
    np.savez(tmp_path / "b.npz", **four)
    data = Images(str(tmp_path / "b.npz"), tokenizer=COLOUR)  # grey becomes colour
    assert pixels(data, "test")[0].shape == (1, 3, 8, 8) and pixels(data, "test")[1].tolist() == [1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((2, 8, 8), np.uint8)}, "no array 'labels'; it has images"),
        ({"images": np.zeros((2, 8, 8), np.uint8), "labels": [0, -1]}, "label -1 is not a class"),
        ({"images": np.zeros((2, 8, 8), np.uint8), "labels": [0, 0.5]}, r"label 0\.[05] is not a class"),
        ({"images": np.zeros((2, 8, 8), np.uint8), "labels": [0, 10**9]}, "label 1000000000 is not a class"),
        ({"images": np.zeros((2, 8, 8), np.uint8), "labels": [0]}, r"labels has the shape \(1,\) for 2 images"),
        ({"images": np.zeros((2, 8, 8)), "labels": [0, 1]}, "images is float64"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match="a.npz: " + message):
        _ = Images(str(tmp_path / "a.npz")).classes


def test_manifest(tmp_path):
    rows = [{"image": picture(tmp_path / "x" / f"{i}.png", (i, i, i)).name, "label": i % 2} for i in range(4)]
    (tmp_path / "x" / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for root in (tmp_path / "x", tmp_path / "x" / "manifest.jsonl"):
        images, labels = pixels(Images(str(root), tokenizer=COLOUR, val=0))
        assert labels.tolist() == [0, 1, 0, 1] and (images[:, 0, 0, 0] * 255).round().tolist() == [0, 1, 2, 3]
    unlabelled = Images(str(tmp_path / "x"), label=None, tokenizer=COLOUR)
    assert unlabelled.classes == [] and next(iter(unlabelled.train_dataloader())).label is None
    with pytest.raises(ValueError, match="manifest.jsonl, line 1: no key 'kind'; it has 'image', 'label'"):
        _ = Images(str(tmp_path / "x"), label="kind").classes
    with pytest.raises(ValueError, match="bad.jsonl, line 1: 'label' is -3, which is not a class"):
        (tmp_path / "bad.jsonl").write_text('{"image": "x/0.png", "label": -3}')
        _ = Images(str(tmp_path / "bad.jsonl")).classes


def test_size_and_channels_follow_the_tokenizer(tmp_path):
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200  # the middle
    (tmp_path / "a").mkdir()
    Image.fromarray(wide).resize((48, 16), Image.Resampling.NEAREST).save(tmp_path / "a" / "0.png")
    images, _ = pixels(Images(str(tmp_path), tokenizer=GREY, val=0), tokenizer=GREY)
    assert images.shape == (1, 1, 8, 8) and ((images * 255 - 200).abs() < 20).all()  # the middle, no black


def test_too_much_for_memory_is_decoded_when_needed(tmp_path, monkeypatch):
    for i in range(4):
        picture(tmp_path / "a" / f"{i}.png", (i, 0, 0))
    kept = pixels(Images(str(tmp_path), tokenizer=COLOUR, val=0))[0]
    monkeypatch.setattr(module, "MEMORY", 100)
    data = Images(str(tmp_path), tokenizer=COLOUR, val=0)
    assert isinstance(data.train_dataloader().dataset.samples.input, module.Pictures)
    assert torch.equal(pixels(data)[0], kept)


@pytest.mark.parametrize("kind", ["torn.png", "torn.jpg", "text.png", "small.png"])
def test_bad_images_are_named(tmp_path, kind):
    path = picture(tmp_path / "a" / kind, 3, (2, 9) if kind == "small.png" else (64, 64))
    if kind != "small.png":
        path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2] if "torn" in kind else b"no image")
    message = "2 x 9 pixels are less than one 4 x 4 patch" if kind == "small.png" else "not a whole image"
    with pytest.raises(ValueError, match=f"{kind}: {message}") as caught:
        Images(str(tmp_path), tokenizer=COLOUR).train_dataloader()
    assert "\n" not in str(caught.value)


def test_torchvision_by_name(monkeypatch):
    import torchvision.datasets

    class Small:
        classes = ["no", "yes"]

        def __init__(self, root, train=True, download=False):
            self.targets = [0, 1, 1] if train else [1]

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, i):
            return Image.new("L", (8, 8), 10 * i), self.targets[i]

    def offline(self, root, train=True, download=False):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.datasets, "Small", Small, raising=False)
    data = Images("Small", tokenizer=GREY, val=0)
    images, labels = pixels(data, tokenizer=GREY)
    assert data.classes == ["no", "yes"] and labels.tolist() == [0, 1, 1] and len(data.test_dataloader().dataset) == 1
    assert (images[:, 0, 0, 0] * 255).round().tolist() == [0, 10, 20]
    monkeypatch.setattr(Small, "__init__", offline)
    with pytest.raises(ValueError, match=r"Small: cannot be downloaded to .* \(no route to host\)"):
        _ = Images("Small").classes
    with pytest.raises(ValueError, match="Nonsense: is neither a file or folder nor a data set that torchvision"):
        _ = Images("Nonsense").classes


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no/where: no such file or folder; expected a folder of class folders"):
        _ = Images("no/where").classes
    with pytest.raises(ValueError, match="expected folders named as the classes"):
        _ = Images(str(tmp_path)).classes
    (tmp_path / "a.jsonl").write_text('{"image": "gone.png", "label": 0}')
    with pytest.raises(ValueError, match="a.jsonl, line 1: 'image' is 'gone.png', and there is no such file"):
        Images(str(tmp_path / "a.jsonl"), tokenizer=COLOUR).train_dataloader()
