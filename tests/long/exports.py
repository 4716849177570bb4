"""Exported models (safetensors, config.json, index, sums) that are damaged or hostile, for the mutation run."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.long.cases import Case
from tests.long.weights import CANARY, Runs, flipped

WEIGHTS, INDEX, SUMS = "model.safetensors", "model.safetensors.index.json", "SHA256SUMS"

Header = dict[str, Any]
Change = Callable[[Path], str]  # of a copy of the export; the answer is the name of the file that was changed


def damaged_exports(folder: Path, whole: Path, sharded: Path, count: int = 100) -> Iterator[Case]:
    """At least ``count`` cases: ``whole`` and ``sharded``, which hold one model, sound and in every way that this file
    knows to spoil them; more bits are flipped and more ends cut off until there are enough."""
    changes: dict[str, tuple[Path, Change]] = {name: (whole, change) for name, change in {**FILES, **headers()}.items()}
    changes |= {name: (sharded, change) for name, change in SHARDS.items()}
    chance = random.Random(1)
    for index in range(max(20, count - len(changes) - 4)):
        place = chance.random()
        changes[f"a flipped bit ({index})"] = (
            whole,
            bytes_changed(lambda data, p=place: flipped(data, int(p * 8 * len(data)))),
        )
        changes[f"cut off ({index})"] = (
            whole,
            bytes_changed(lambda data, p=place: data[: int(p * len(data))], sums=index % 2 == 0),
        )
        if len(changes) >= count:
            break
    for name, source in (("whole", whole), ("sharded", sharded)):
        yield Case(
            "export", f"sound {name}, convert", ["convert", str(source), str(folder / f"out-{name}")], str(source), True
        )
        yield Case("export", f"sound {name}, generate", generation(source), str(source), True)
    for number, (name, (source, change)) in enumerate(changes.items()):
        copy = folder / f"export-{number}"
        shutil.copytree(source, copy)
        file = copy / change(copy)
        words = generation(copy) if number % 2 else ["convert", str(copy), str(folder / f"out-{number}")]
        yield Case("export", f"{name}, {words[0]}", words, str(file))


def generation(source: Path) -> list[str]:
    return ["generate", f"--from={source}", "--prompt=The", "--length=2"]


# ---- the bytes of a safetensors file: the length of its header (8 bytes), the header (JSON), the tensors


def bytes_changed(change: Callable[[bytes], bytes], sums: bool = True) -> Change:
    """``sums``: is what SHA256SUMS says there to be compared?"""

    def write(copy: Path) -> str:
        path = copy / WEIGHTS
        path.write_bytes(change(path.read_bytes()))
        if not sums:
            (copy / SUMS).unlink()
        return WEIGHTS

    return write


def headers() -> dict[str, Change]:
    """Lies in the header of a file that has no sum beside it."""

    def entry(change: Callable[[Header, str], object]) -> Change:
        """Change what the header says of the first tensor, or of all."""

        def write(data: bytes) -> bytes:
            size = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8 : 8 + size])
            change(header, next(name for name in header if name != "__metadata__"))
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + data[8 + size :]

        return bytes_changed(write, sums=False)

    def put(key: str, value: object) -> Change:
        return entry(lambda header, name: header[name].update({key: value}))

    def text(new: bytes) -> Change:
        return bytes_changed(lambda data: struct.pack("<Q", len(new)) + new, sums=False)

    def length(value: int) -> Change:
        return bytes_changed(lambda data: struct.pack("<Q", value) + data[8:], sums=False)

    def overlap(header: Header, name: str) -> None:
        others = [other for other in header if other not in ("__metadata__", name)]
        header[name]["data_offsets"] = header[others[0]]["data_offsets"]

    return {
        "a header of no bytes": length(0),
        "a header of one byte": length(1),
        "a header longer than the file": length(10**7),
        "a header of a gigabyte": length(10**9),
        "a header of 2^63 bytes": length(2**63),
        "a header of 2^64 - 1 bytes": length(2**64 - 1),
        "a header that is no JSON": text(b'{"a": '),
        "a header in another encoding": text(b'{"\xff\xfe": 3}'),
        "a header that is a list": text(b"[]"),
        "a header nested deep": text(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
        "a type that there is not": put("dtype", "F1000"),
        "a narrower type": put("dtype", "F16"),
        "a wider type": put("dtype", "F64"),
        "a type of numbers": put("dtype", 32),
        "a shape that is larger": put("shape", [10**6, 10**6]),
        "a shape that overflows": put("shape", [2**62, 2**62]),
        "a shape of minus one": put("shape", [-1, 16]),
        "a shape of words": put("shape", ["a"]),
        "a shape of a scalar": put("shape", []),
        "offsets that overlap": entry(overlap),
        "offsets the wrong way": put("data_offsets", [64, 0]),
        "offsets behind the end": put("data_offsets", [0, 2**40]),
        "offsets below 0": put("data_offsets", [-64, 0]),
        "no offsets": entry(lambda header, name: header[name].pop("data_offsets")),
        "no shape": entry(lambda header, name: header[name].pop("shape")),
        "a tensor less": entry(lambda header, name: header.pop(name)),
        "a tensor called otherwise": entry(lambda header, name: header.update({"../../x": header.pop(name)})),
        "metadata of numbers": entry(lambda header, name: header.update(__metadata__={"a": 3})),
        "a hole before the end": bytes_changed(lambda data: data + bytes(64), sums=False),
    }


# ---- the files of a directory


def texts(name: str, new: str | bytes) -> Change:
    def write(copy: Path) -> str:
        (copy / name).write_bytes(new if isinstance(new, bytes) else new.encode())
        return name

    return write


def tensors(change: Callable[[dict[str, torch.Tensor], str], object], named: str = WEIGHTS) -> Change:
    """Another content, well written, of which no sum is known; the error names the file, or else the directory."""

    def write(copy: Path) -> str:
        state = load_file(copy / WEIGHTS)
        change(state, next(iter(state)))
        save_file({name: value.contiguous() for name, value in state.items()}, copy / WEIGHTS)
        (copy / SUMS).unlink()
        return named

    return write


def config(**values: object) -> Change:
    def write(copy: Path) -> str:
        path = copy / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return path.name

    return write


def pickle_instead(content: bytes) -> Change:
    def write(copy: Path) -> str:
        (copy / WEIGHTS).unlink()
        (copy / "pytorch_model.bin").write_bytes(content.replace(b"PLACE", str(copy.parent).encode()))
        return "pytorch_model.bin"

    return write


def code(copy: Path) -> str:
    (copy / WEIGHTS).unlink()
    torch.save({"a": Runs(os.system, f"touch {copy.parent}/{CANARY}-export")}, copy / "pytorch_model.bin")
    return "pytorch_model.bin"


def gone(name: str) -> Change:
    def remove(copy: Path) -> str:
        (copy / name).unlink()
        return "" if name == WEIGHTS else name

    return remove


FILES: dict[str, Change] = {
    "weights gone": gone(WEIGHTS),
    "weights empty": texts(WEIGHTS, b""),
    "weights of seven bytes": texts(WEIGHTS, b"\x01" * 7),
    "weights of text": texts(WEIGHTS, "<html>404</html>"),
    "no weights": tensors(lambda state, name: state.clear(), named=""),
    "a weight missing": tensors(lambda state, name: state.pop(name), named=""),
    "a weight too many": tensors(lambda state, name: state.update(more=torch.zeros(3))),
    "a weight of another shape": tensors(lambda state, name: state.update({name: torch.zeros(3, 5)})),
    "a weight of whole numbers": tensors(lambda state, name: state.update({name: state[name].to(torch.int8)})),
    "a weight of no elements": tensors(lambda state, name: state.update({name: state[name][:0]})),
    "a pickle with code": code,
    "a bare pickle with code": pickle_instead(pickle.dumps(Runs(os.system, f"touch PLACE/{CANARY}-bare"), 0)),
    "a pickle that is none": pickle_instead(b"noise" * 100),
    "an empty pickle": pickle_instead(b""),
    "config gone": gone("config.json"),
    "config empty": texts("config.json", ""),
    "config cut off": texts("config.json", '{"model_type": "llama", "hidden_size"'),
    "config in another encoding": texts("config.json", b"\xff\xfe\x00"),
    "config is a list": texts("config.json", "[1]"),
    "config nested deep": texts("config.json", '{"a":' * 100_000 + "1" + "}" * 100_000),
    "config with a number of 10,000 digits": texts("config.json", '{"hidden_size": ' + "9" * 10_000 + "}"),
    "config of no family": config(model_type="no-such-family"),
    "config of a billion layers": config(num_hidden_layers=10**9),
    "config of a billion wide": config(hidden_size=10**9),
    "config with a negative size": config(hidden_size=-16),
    "config with a size of words": config(hidden_size="many"),
    "config with three heads": config(num_attention_heads=3),
    "config with a vocabulary of 10^12": config(vocab_size=10**12),
    "config with an activation of its own": config(hidden_act="os.system"),
    "a sum of another file": texts(SUMS, f"{'0' * 64}  {WEIGHTS}\n"),
}


def index(change: Callable[[dict[str, str]], object]) -> Change:
    """Another map from tensors to files."""

    def write(copy: Path) -> str:
        path = copy / INDEX
        content = json.loads(path.read_text())
        content["weight_map"] = change(content["weight_map"]) or content["weight_map"]
        path.write_text(json.dumps(content))
        return INDEX

    return write


def first_shard(change: Callable[[Path, Path], object]) -> Change:
    """``change`` gets the first and the last shard."""

    def write(copy: Path) -> str:
        first, *_, last = sorted(copy.glob("model-*.safetensors"))
        change(first, last)
        return first.name

    return write


def folder_instead(first: Path, last: Path) -> None:
    first.unlink()
    first.mkdir()


def first_to(file: str) -> Change:
    return index(lambda places: places.update({next(iter(places)): file}))


SHARDS: dict[str, Change] = {
    "index empty": texts(INDEX, ""),
    "index cut off": texts(INDEX, '{"weight_map": {"a": '),
    "index is a list": texts(INDEX, "[]"),
    "index without a map": texts(INDEX, "{}"),
    "index with a map of numbers": texts(INDEX, '{"weight_map": {"a": 3}}'),
    "index with a list for a map": texts(INDEX, '{"weight_map": ["a"]}'),
    "index nested deep": texts(INDEX, '{"a":' * 100_000 + "1" + "}" * 100_000),
    "index to a file outside": first_to("../../../../etc/passwd"),
    "index to an absolute file": first_to("/etc/passwd"),
    "index to itself": first_to(INDEX),
    "index to a shard that is not there": first_to("model-00099-of-00099.safetensors"),
    "index with an empty map": texts(INDEX, '{"weight_map": {}}'),
    "a shard gone": first_shard(lambda first, last: first.unlink()),
    "a shard cut off": first_shard(lambda first, last: first.write_bytes(first.read_bytes()[:-10])),
    "a shard of another": first_shard(lambda first, last: shutil.copy(last, first)),
    "a shard that is a folder": first_shard(folder_instead),
}
