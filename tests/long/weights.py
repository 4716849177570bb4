"""Checkpoints that are damaged, foreign or hostile, and the commands that read them, for the mutation run."""

from __future__ import annotations

import copy
import io
import itertools
import os
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.long.cases import Case
from zoo.checkpoints.io import stream
from zoo.checkpoints.seal import Sealing

CANARY = "canary"  # part of the name of every file that hostile code would make
WEIGHT = "backbone.blocks.0.mixer.fn.q.weight"

Content = dict[str, Any]
Write = Callable[[Path, Path], object]  # of a file, with the path of the canary


class Runs:
    """Its pickle calls a function of Python's."""

    def __init__(self, function: Callable[..., object], *arguments: object):
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def damaged_checkpoints(folder: Path, run: Path, count: int = 100) -> Iterator[Case]:
    """At least ``count`` cases: ``run``'s last checkpoint, sound and in every way that this file knows to spoil it;
    more bits are flipped and more ends cut off until there are enough."""
    sound = run / "checkpoints" / "last.ckpt"
    canary = folder / f"{CANARY}-checkpoint"
    config, chance, number = run / "config.yaml", random.Random(0), 0

    def commands(name: str, file: Path, control: bool = False, every: bool = False) -> Iterator[Case]:
        nonlocal number
        ways = [
            ["fit", f"--config={config}", f"--ckpt_path={file}", "--trainer.max_steps=3"],
            ["validate", f"--config={config}", f"--ckpt_path={file}"],
            ["generate", f"--ckpt_path={file}", "--prompt=The", "--length=2"],
            ["convert", str(file), str(file.with_suffix(".out"))],
        ]
        chosen = range(4) if every else [number % 4]
        number += 1
        for way in chosen:
            yield Case("checkpoint", f"{name}, {ways[way][0]}", ways[way], str(file), control)

    yield from commands("sound", sound, control=True, every=True)
    made = 4
    for name, write in {**FOREIGN, **zips(sound), **contents(sound)}.items():
        file = folder / f"{name.replace(' ', '-')}.ckpt"
        write(file, canary)
        for case in commands(name, file, every=name.startswith("code")):
            made += 1
            yield case
    data = sound.read_bytes()
    for index in range(max(20, count - made)):
        file = folder / f"bytes-{index}.ckpt"
        if index % 2:
            size = chance.choice(
                [0, 1, 100, len(data) - 1, len(data) - 60, len(data) - 76, chance.randrange(len(data))]
            )
            file.write_bytes(data[:size])
            yield from commands(f"cut off at byte {size} ({index})", file)
        else:
            bit = chance.randrange(8 * len(data))
            file.write_bytes(flipped(data, bit))
            yield from commands(f"bit {bit} flipped", file)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# ---- what was never a checkpoint


def pickled(value: Callable[[str], object], **how: Any) -> Write:
    """``torch.save`` of what ``value`` makes of the canary's path."""
    return lambda path, canary: torch.save(value(str(canary)), path, **how)


def bare(path: Path, canary: Path) -> None:
    path.write_bytes(pickle.dumps(Runs(os.system, f"touch {canary}")))


def archive(path: Path, canary: Path) -> None:
    """The format of torch before 1.6, in which code would come first."""
    with tarfile.open(path, "w") as tar:
        content = pickle.dumps(Runs(os.system, f"touch {canary}"))
        for name in ("sys_info", "pickle", "storages", "tensors"):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def bomb(path: Path, canary: Path) -> None:
    """4 GB of zeros in 4 MB."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("last/data.pkl", "w", force_zip64=True) as part,
    ):
        for _ in range(256):
            part.write(bytes(1 << 24))


def nested(path: Path, canary: Path) -> None:
    """A list in a list, 200,000 deep."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("last/data.pkl", b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".")
        file.writestr("last/version", "3\n")


FOREIGN: dict[str, Write] = {
    "code by os.system": pickled(lambda canary: Runs(os.system, f"touch {canary}")),
    "code by exec": pickled(lambda canary: {"state_dict": {}, "x": Runs(exec, f"open({canary!r}, 'w')")}),
    "code by open": pickled(lambda canary: [Runs(open, canary, "w")]),
    "code by eval in the old format": pickled(
        lambda canary: Runs(eval, f"open({canary!r}, 'w')"), _use_new_zipfile_serialization=False
    ),
    "code in a bare pickle": bare,
    "code in a tar": archive,
    "the old format": pickled(lambda canary: {"state_dict": {}}, _use_new_zipfile_serialization=False),
    "a list": pickled(lambda canary: [1, 2, 3]),
    "one tensor": pickled(lambda canary: torch.zeros(3)),
    "weights alone": pickled(lambda canary: {"backbone.weight": torch.zeros(3)}),
    "a zip bomb": bomb,
    "nested too deep": nested,
    "empty": lambda path, canary: path.write_bytes(b""),
    "a folder": lambda path, canary: path.mkdir(),
    "a page of the web": lambda path, canary: path.write_text("<html><body>404 Not Found</body></html>"),
    "zeros": lambda path, canary: path.write_bytes(bytes(100_000)),
    "noise": lambda path, canary: path.write_bytes(random.Random(0).randbytes(100_000)),
    "a zip of something else": lambda path, canary: zipfile.ZipFile(path, "w").writestr("word/document.xml", "<a/>"),
}


# ---- zips whose parts are not as they were


def zips(sound: Path) -> dict[str, Write]:
    with zipfile.ZipFile(sound) as file:
        parts = {part.filename: file.read(part) for part in file.infolist()}
    root = next(iter(parts)).split("/")[0]
    by_size = sorted((name for name in parts if "/data/" in name), key=lambda name: len(parts[name]))
    one, other = next((a, b) for a, b in itertools.pairwise(by_size) if len(parts[a]) == len(parts[b]))

    def without(name: str) -> dict[str, bytes]:
        return {key: value for key, value in parts.items() if key != f"{root}/{name}"}

    changed: dict[str, tuple[dict[str, bytes], int]] = {
        "packed again": (parts, zipfile.ZIP_STORED),
        "compressed": (parts, zipfile.ZIP_DEFLATED),
        "two parts swapped": ({**parts, one: parts[other], other: parts[one]}, zipfile.ZIP_STORED),
        "a part cut off": ({**parts, one: parts[one][:-4]}, zipfile.ZIP_STORED),
        "a part too long": ({**parts, one: parts[one] + bytes(1000)}, zipfile.ZIP_STORED),
        "without its pickle": (without("data.pkl"), zipfile.ZIP_STORED),
        "without its version": (without("version"), zipfile.ZIP_STORED),
        "without a part": (without(one.removeprefix(f"{root}/")), zipfile.ZIP_STORED),
        "another byte order": ({**parts, f"{root}/byteorder": b"middle"}, zipfile.ZIP_STORED),
        "version of a million": ({**parts, f"{root}/version": b"1000000\n"}, zipfile.ZIP_STORED),
        "a part outside": ({**parts, f"../../{CANARY}-zip": b"x"}, zipfile.ZIP_STORED),
        "an empty pickle": ({**parts, f"{root}/data.pkl": b""}, zipfile.ZIP_STORED),
    }
    return {name: packed(new, how) for name, (new, how) in changed.items()}


def packed(parts: dict[str, bytes], how: int) -> Write:
    def write(path: Path, canary: Path) -> None:
        with zipfile.ZipFile(path, "w", how) as file:
            for name, data in parts.items():
                file.writestr(name, data)

    return write


# ---- whole files with a seal, whose content cannot be


def contents(sound: Path) -> dict[str, Write]:
    content = torch.load(sound, map_location="cpu", weights_only=True)

    def changed(change: Callable[[Content], object]) -> Write:
        def write(path: Path, canary: Path) -> None:
            new = copy.deepcopy(content)
            change(new)
            with open(path, "wb") as file:
                stream(new, Sealing(file))

        return write

    def put(value: object, *keys: str) -> Callable[[Content], None]:
        def change(content: Content) -> None:
            for key in keys[:-1]:
                content = content[key]
            content[keys[-1]] = value

        return change

    changes: dict[str, Callable[[Content], object]] = {
        "a newer schema": put({"schema": 99, "version": "9.9"}, "zoo"),
        "no schema": put({}, "zoo"),
        "a schema of words": put({"schema": "two"}, "zoo"),
        "a newer Lightning": put("99.0.0", "pytorch-lightning_version"),
        "a Lightning of words": put("new", "pytorch-lightning_version"),
        "a weight of another shape": put(torch.zeros(3, 5), "state_dict", WEIGHT),
        "a weight of words": put("heavy", "state_dict", WEIGHT),
        "a weight without values": put(torch.zeros(16, 16, device="meta"), "state_dict", WEIGHT),
        "a sparse weight": put(torch.eye(16).to_sparse(), "state_dict", WEIGHT),
        "a weight of a terabyte": put(torch.zeros(1).expand(500_000, 500_000), "state_dict", WEIGHT),
        "a weight too many": put(torch.zeros(3), "state_dict", "backbone.more"),
        "a weight too few": lambda content: content["state_dict"].pop(WEIGHT),
        "no weights": put({}, "state_dict"),
        "weights in a list": put([torch.zeros(3)], "state_dict"),
        "optimizer states of words": put(["Adam"], "optimizer_states"),
        "a class of code": put("subprocess.Popen", "hyper_parameters", "_class_path"),
        "a maker of code": put("os.system", "hyper_parameters", "_instantiator"),
        "hyper parameters in a list": put([1], "hyper_parameters"),
        "callbacks in a list": put([1], "callbacks"),
        "no fit loop": lambda content: content["loops"].pop("fit_loop"),
        "loops of words": put("round", "loops"),
    }
    keys = ("state_dict", "epoch", "global_step", "loops", "optimizer_states", "pytorch-lightning_version")
    changes |= {f"no {key}": lambda content, key=key: content.pop(key) for key in keys}
    counts: dict[str, object] = {"minus one": -1, "ten to the 30th": 10**30, "words": "many", "no number": float("nan")}
    changes |= {f"global_step of {name}": put(value, "global_step") for name, value in counts.items()}
    changes |= {f"epoch of {name}": put(value, "epoch") for name, value in counts.items()}
    return {name: changed(change) for name, change in changes.items()}
