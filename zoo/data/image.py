"""Images with class labels: scikit-learn's digits, class folders, .npz arrays, manifests, torchvision's data sets."""

import inspect
from pathlib import Path

from zoo.data.archives import Hostile, unpacked_safely
from zoo.data.arrays import arrays
from zoo.data.augment import Augment
from zoo.data.bad import OnBad, sentence
from zoo.data.embedded import DIGITS, digits
from zoo.data.field import Source
from zoo.data.files import cache, class_folders, existing, manifests
from zoo.data.labelled import from_manifests, labelled
from zoo.data.module import DataModule
from zoo.data.picture import Firsts, Pictures
from zoo.tokenizers import Tokenizer

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff")


class Images(DataModule):
    """Images, with labels where the data have them (``label``: the manifest's key, None to read none).

    ``root``: None for scikit-learn's digits (8 x 8, grey; the first half trains, the second half tests, as in
    scikit-learn's own example); a folder of class folders, below train/, val/ and test/ or not; an .npz file with
    ``train_images``, ``train_labels``, ``test_images``, ``test_labels`` (or ``images``, ``labels``), (N, H, W) or
    (N, H, W, C) uint8; a JSONL manifest with ``image`` (a path beside it) and a label; or the name of a data set of
    torchvision, which is downloaded.
    """

    def __init__(
        self,
        root: str | None = None,
        label: str | None = "label",
        val: float = 0.1,
        tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
        augment: list[Augment] | Augment | None = None,
        on_bad: OnBad = "raise",
    ):
        super().__init__(tokenizer, None, batch_size, workers, seed, augment, val, on_bad)
        self.root, self.label = root, label

    def read(self) -> Source:
        if self.root in (None, "digits"):
            return labelled(
                "digits", {s: (Pictures(x), [DIGITS[i] for i in y]) for s, (x, y) in digits().items()}, DIGITS
            )
        if self.root.isidentifier() and not Path(self.root).exists():
            return torchvision_set(self.root)
        path = existing(self.root, "a folder of class folders, an .npz file, a JSONL manifest or a torchvision name")
        if path.suffix == ".npz":
            return arrays(path)
        if found := manifests(path):
            return from_manifests(found, "image", self.label, Pictures, self.bad)
        if path.is_file():
            raise ValueError(f"{path}: is neither an .npz file nor a JSONL manifest nor a folder")
        splits = class_folders(path, SUFFIXES)
        return labelled(self.root, {split: (Pictures(files), names) for split, (files, names) in splits.items()})


def torchvision_set(name: str) -> Source:
    """A data set of torchvision by the name of its class, downloaded into the cache."""
    import torchvision.datasets

    cls = getattr(torchvision.datasets, name, None)
    if not inspect.isclass(cls) or "download" not in inspect.signature(cls).parameters:
        raise ValueError(f"{name}: is neither a file or folder nor a data set that torchvision downloads")
    by_flag = "train" in inspect.signature(cls).parameters
    splits, names = {}, ()
    for split in ("train", "test") if by_flag else ("train", "val", "test"):
        choice = {"train": split == "train"} if by_flag else {"split": split}
        try:
            with unpacked_safely(cache() / name):
                data = cls(str(cache() / name), download=True, **choice)
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{name}: cannot be downloaded to {cache() / name} ({sentence(error)})") from None
        except Hostile:
            raise
        except ValueError:  # has no such split
            continue
        names = getattr(data, "classes", ())
        labels = getattr(data, "targets", getattr(data, "labels", None))
        labels = [data[i][1] for i in range(len(data))] if labels is None else labels
        splits[split] = Pictures(Firsts(data)), [int(label) for label in labels]
    source = labelled(name, splits)
    return Source(source.splits, list(names) or source.classes)
