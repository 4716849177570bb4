"""What making batches costs: tokens, augmentation, JPEG files and spectrograms, beside what others do for the same.

python benchmarks/input.py [tokens augmentation randaugment jpeg mel ...] [--rounds 7]

The packages compared with are torchvision and timm (the ``vision`` extra), transformers (``test``) and torchaudio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from machine import processor
from PIL import Image
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import zoo
from zoo.data.corpus import Corpus
from zoo.data.picture import Pictures
from zoo.data.tokenize import tokenize
from zoo.rng import sample_keys

Run = Callable[[], object]
SECONDS = 0.4  # that each runner works in a round, at least


@dataclass(frozen=True)
class Race:
    """``runners`` do the same work; a call of any makes ``items`` of a ``unit``.  The others are compared with the
    first."""

    title: str
    unit: str
    items: int
    runners: dict[str, Run]


def tokens(folder: Path) -> Race:
    """Batches of 64 x 256 ids and their successors."""
    length, size = 256, 64
    alphabet = "".join(map(chr, range(32, 127)))
    places = torch.randint(95, (2**22,), generator=torch.Generator().manual_seed(0)).tolist()
    (folder / "train.txt").write_text("".join(alphabet[place] for place in places))
    tokenizer = zoo.Characters(alphabet)
    tokenize(Corpus({"train": [folder / "train.txt"]}), tokenizer, folder / "shards")
    np.array(places, np.uint16).tofile(folder / "ids.bin")

    def random_slices() -> tuple[torch.Tensor, torch.Tensor]:
        """nanoGPT's way: the file is mapped anew for each batch, and random pieces of it are stacked."""
        ids = np.memmap(folder / "ids.bin", np.uint16, "r")
        starts = torch.randint(len(ids) - length, (size,))
        rows = [torch.from_numpy(ids[start : start + length].astype(np.int64)) for start in starts]
        following = [torch.from_numpy(ids[start + 1 : start + 1 + length].astype(np.int64)) for start in starts]
        return torch.stack(rows), torch.stack(following)

    def batches(root: Path) -> Run:
        data = zoo.Text(str(root), length + 1, val=0.0, tokenizer=tokenizer, batch_size=size)
        endless = forever(data)
        return lambda: next(endless)

    ours = {"Text, in memory": batches(folder / "train.txt"), "Text, token shards": batches(folder / "shards")}
    return Race("token batches, 64 x 256", "batches", 1, {"nanoGPT's get_batch": random_slices, **ours})


def forever(data: zoo.DataModule) -> Iterator[zoo.Batch]:
    """Epoch after epoch of training batches, by the loader that trainings have."""
    loader = data.train_dataloader()
    while True:
        yield from loader


def augmentation(folder: Path) -> Race:
    """Crop and flip of 256 images of CIFAR's size."""
    from torchvision.transforms import v2

    images, keys = bytes_of(256, 3, 32, 32), sample_keys(0, 0, torch.arange(256))
    change = v2.Compose([v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()])
    ours = zoo.CropFlip(4)
    runners: dict[str, Run] = {
        "torchvision v2, image by image": lambda: torch.stack([change(image) for image in images]),
        "CropFlip": lambda: ours.image(images, keys),
    }
    return Race("crop and flip, 32 x 32", "images", 256, runners)


def randaugment(folder: Path) -> Race:
    """Two random operations on each of 256 images of CIFAR's size."""
    from torchvision.transforms import v2

    images, keys = bytes_of(256, 3, 32, 32), sample_keys(0, 0, torch.arange(256))
    change, wrapped, ours = v2.RandAugment(), zoo.Transform(v2.RandAugment()), zoo.RandAugment()
    runners: dict[str, Run] = {
        "torchvision v2, image by image": lambda: torch.stack([change(image) for image in images]),
        "Transform(v2.RandAugment())": lambda: wrapped.image(images, keys),
        "RandAugment": lambda: ours.image(images, keys),
    }
    return Race("RandAugment, 32 x 32", "images", 256, runners)


def jpeg(folder: Path) -> Race:
    """Files of 500 x 375 pixels, the shorter side resized to 256 and the centre of 224 x 224 cut out, normalised."""
    from timm.data import create_transform
    from torchvision import io, transforms
    from torchvision.transforms import v2

    files, numbers = [folder / f"{i}.jpg" for i in range(16)], np.random.default_rng(0)
    for file in files:
        coarse = Image.fromarray(numbers.integers(0, 256, (47, 63, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int16)
        grained = (smooth + numbers.integers(-8, 9, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(grained).save(file, quality=90)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    old = transforms.Compose(
        [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(mean, std)]
    )
    new = v2.Compose(
        [v2.Resize(256), v2.CenterCrop(224), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    )
    timms = create_transform(224, interpolation="bilinear", mean=mean, std=std, crop_pct=0.875)
    tokenizer = zoo.Patches(224, 16, mean=mean, std=std, resize=zoo.Resize(256))
    field = Pictures(files, tokenizer)

    def opened(file: Path) -> Image.Image:
        return Image.open(file).convert("RGB")

    runners: dict[str, Run] = {
        "torchvision v1, PIL": lambda: torch.stack([old(opened(file)) for file in files]),
        "torchvision v2, PIL": lambda: torch.stack([new(v2.functional.pil_to_tensor(opened(file))) for file in files]),
        "torchvision v2, decode_jpeg": lambda: torch.stack([new(io.decode_jpeg(io.read_file(file))) for file in files]),
        "timm's create_transform": lambda: torch.stack([timms(opened(file)) for file in files]),
        "Images, Patches": lambda: tokenizer.encode(field.raw(list(range(16)))),
    }
    return Race("JPEG files of 500 x 375 to 224 x 224", "images", 16, runners)


def mel(folder: Path) -> Race:
    """Log-mel spectrograms of 10 seconds of sound, 80 bands (AST: 128)."""
    import torchaudio
    from transformers import ASTFeatureExtractor, WhisperFeatureExtractor

    sound = torch.randn(160_000, generator=torch.Generator().manual_seed(0)) * 0.1
    reference = torchaudio.transforms.MelSpectrogram(16_000, 400, hop_length=160, n_mels=80)
    ast, whisper = ASTFeatureExtractor(), WhisperFeatureExtractor()
    ours, own_ast, own_whisper = zoo.LogMel(), zoo.KaldiLogMel(frames=1024), zoo.WhisperLogMel(seconds=30)
    array = sound.numpy()
    runners: dict[str, Run] = {
        "torchaudio's MelSpectrogram, log": lambda: (reference(sound) + 1e-6).log(),
        "LogMel": lambda: ours(sound),
        "transformers' ASTFeatureExtractor": lambda: ast(array, sampling_rate=16_000, return_tensors="pt"),
        "KaldiLogMel": lambda: own_ast(sound),
        "transformers' WhisperFeatureExtractor": lambda: whisper(array, sampling_rate=16_000, return_tensors="pt"),
        "WhisperLogMel(seconds=30)": lambda: own_whisper(sound),
    }
    return Race("log-mel spectrograms of 10 s", "clips", 1, runners)


def bytes_of(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


RACES = {race.__name__: race for race in (tokens, augmentation, randaugment, jpeg, mel)}


def rate(run: Run, items: int) -> float:
    """Items a second, of as many calls as fill ``SECONDS``."""
    begun, calls = time.perf_counter(), 0
    while (taken := time.perf_counter() - begun) < SECONDS:
        run()
        calls += 1
    return calls * items / taken


def table(race: Race, found: dict[str, list[float]]) -> Table:
    first = found[next(iter(race.runners))]
    made = Table(
        race.title,
        f"{race.unit} a second",
        "to the first (median of rounds)",
        title=f"{processor()}, {torch.get_num_threads()} threads",
    )
    for name, rates in found.items():
        ratio = statistics.median(one / other for one, other in zip(rates, first))
        made.add_row(name, f"{statistics.median(rates):,.0f}", f"{ratio:.2f}")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("races", nargs="*", metavar="race", help=", ".join(RACES))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for name in options.races:
        if name not in RACES:
            parser.error(f"{name} is none of {', '.join(RACES)}")
    warnings.simplefilter("ignore")
    for name in options.races or RACES:
        with tempfile.TemporaryDirectory() as folder:
            race = RACES[name](Path(folder))
            found: dict[str, list[float]] = {runner: [] for runner in race.runners}
            for run in race.runners.values():
                run()
            for _ in tqdm(range(options.rounds), name, leave=False):
                for runner, run in race.runners.items():
                    found[runner].append(rate(run, race.items))
            Console(width=120).print(table(race, found))


if __name__ == "__main__":
    main()
