"""``python -m tests.long.bits``: single bits flipped all over a checkpoint and an exported model: each is refused, by a
sentence that names the file."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from tests.checkpoints.example import example
from tests.long.report import Report, bar
from zoo import files
from zoo.checkpoints import AtomicCheckpointIO, read_checkpoint


def checkpoint(folder: Path) -> list[Path]:
    """A checkpoint, most of it weights."""
    content = example()
    content["state_dict"]["large"] = torch.randn(20_000)
    AtomicCheckpointIO().save_checkpoint(content, folder / "last.ckpt")
    return [folder / "last.ckpt"]


def export(folder: Path) -> list[Path]:
    """A model in shards."""
    files.SHARD = 40_000
    files.write(folder, {}, {}, {name: torch.randn(5000) for name in "abcde"})
    return sorted(folder.glob("*.safetensors"))


def accepted(paths: list[Path], read: Callable[[], object], count: int, seed: int = 0) -> list[str]:
    """Flips that were read without a word, or refused in another way than by a sentence with the file's name."""
    chance, wrong = random.Random(seed), []
    for _ in bar(range(count), paths[0].parent.name):
        path = chance.choice(paths)
        whole = path.read_bytes()
        place = chance.randrange(len(whole) * 8)
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            read()
            wrong.append(f"bit {place} of {path}: read")
        except ValueError as error:
            if str(path) not in str(error) or "\n" in str(error):
                wrong.append(f"bit {place} of {path}: {error}")
        path.write_bytes(whole)
    read()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.long.bits", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="bits of each")
    count = parser.parse_args().count
    report = Report("Single bits that are flipped")
    with tempfile.TemporaryDirectory() as place:
        for name, make, reader in (("checkpoint", checkpoint, read_checkpoint), ("export", export, files.read_weights)):
            folder = Path(place) / name
            folder.mkdir()
            paths = make(folder)
            read = partial(reader, folder if make is export else paths[0])
            wrong = accepted(paths, read, count)
            for line in wrong:
                print(line, file=sys.stderr)
            report.row(f"{name}: refused, naming the file", f"{count - len(wrong)} of {count}", f"{count} of {count}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
