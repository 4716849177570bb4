"""Published files: where they are, and what is in them, read so that a damaged or hostile one is a sentence."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from huggingface_hub import save_torch_state_dict, snapshot_download
from safetensors.torch import load_file

from zoo.atomic import sweep, synchronise, told, workshop
from zoo.convert import State
from zoo.tokenizers.reading import first_line, read_json
from zoo.tokenizers.vocabularies import SENTENCEPIECE

SHARD = "5GB"
SUMS = "SHA256SUMS"
LINE = re.compile(r"^([0-9a-f]{64}) [ *](.+)$", re.MULTILINE)  # of it
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
HUB = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
WEIGHTS = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
TEXTS = ("*.json", "*.txt", *SENTENCEPIECE)


@dataclass
class Weights:
    """The tensors of a checkpoint, and the file that each comes from."""

    state: State
    files: dict[str, Path]


def folder(source: str | os.PathLike, revision: str | None = None) -> Path:
    """A directory, or the id of a repository on the hub, which is downloaded and kept, -> the directory.

    Raises ValueError where there is neither, OSError where the download fails.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists() or not HUB.fullmatch(str(source)):
        raise ValueError(f"{str(source)!r} is neither a directory with a config.json nor the id of a model on the hub")
    try:
        found = Path(snapshot_download(str(source), revision=revision, allow_patterns=[*TEXTS, "*.safetensors"]))
        if not any(found.glob("*.safetensors")):
            found = Path(
                snapshot_download(str(source), revision=revision, allow_patterns=[*TEXTS, "pytorch_model*.bin"])
            )
        return found
    except Exception as error:  # the client, its transport and the operating system each raise their own
        reason = first_line(error).split(". ")[0]
        raise OSError(
            f"no directory {str(source)!r} here, and as a model on the hub it could not be downloaded ({reason})"
        ) from None


def read_weights(path: Path) -> Weights:
    """The tensors of a file, or of a directory as published: whole or in shards, safetensors before pickles.

    Raises ValueError where there are none, a file is damaged, or a shard is missing.
    """
    if path.is_file():
        return one_file(path)
    for name in (SAFE, PICKLED):
        for file, read in ((path / name, one_file), (path / f"{name}.index.json", shards)):
            if file.is_file():
                return read(file)
    raise ValueError(f"{path} has no weights: neither {SAFE} nor {PICKLED}, nor an index of shards")


def one_file(path: Path) -> Weights:
    """The tensors of one file.  Raises ValueError where it is damaged or holds something else."""
    require_sum(path)
    state = safe(path) if path.suffix == ".safetensors" else unpickle(path)
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise ValueError(f"{path} holds no dictionary of tensors: {name!r} is a {type(value).__name__}")
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            raise ValueError(f"{path}: the tensor {name!r} is sparse, quantized or empty; only plain ones are read")
    return Weights(state, dict.fromkeys(state, path))


def shards(index: Path) -> Weights:
    """The tensors that an index spreads over files beside it."""
    require_sum(index)
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(f"{index} has no 'weight_map' of tensor and file names")
    whole = Weights({}, {})
    for file in sorted(set(places.values())):
        if Path(file).name != file:
            raise ValueError(f"{index} names the file {file!r}, which is not beside it")
        if not (index.parent / file).is_file():
            raise ValueError(f"{index.parent / file} is missing, though {index.name} needs it; download it again")
        shard = one_file(index.parent / file)
        whole.state |= shard.state
        whole.files |= shard.files
    for name, file in places.items():
        if whole.files.get(name) != index.parent / file:
            raise ValueError(f"{index.parent / file} has no tensor {name!r}, though {index.name} says so")
    return whole


def safe(path: Path) -> State:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is no whole safetensors file ({first_line(error)})") from None


def unpickle(path: Path) -> State:
    """The tensors of a torch file, nothing else: code in a pickle is never run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load has no error of its own
        found = re.search(r"GLOBAL (\S+)", str(error))
        if found:
            raise ValueError(f"{path} holds {found[1]}, which is code and not a tensor; it was not run") from None
        raise ValueError(f"{path} is damaged, or no torch file of plain tensors") from None
    for wrapper in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds no dictionary of tensors but a {type(state).__name__}")
    return state


def write(path: Path, config: dict[str, Any], texts: dict[str, str], state: State) -> None:
    """config.json, the texts by their names, the weights (in one file, or above 5 GB in shards with an index), and
    SHA256SUMS of the weights, which ``sha256sum -c`` reads.

    All is written to the disk beside its place and then moved there, file by file, in an order in which a stop leaves
    the old model, the new one, or a directory that every loader refuses for want of its config or index; weights may be
    saved into the directory that they came from.  Raises OSError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        sweep(path)
        with workshop(path) as work:
            save_torch_state_dict(state, work, max_shard_size=SHARD, metadata={"format": "pt"})
            weights = sorted((file.name for file in work.iterdir()), key=lambda name: name.endswith(".json"))
            texts = {**texts, "config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n"}
            for name, text in {**texts, SUMS: sums(work, weights)}.items():
                (work / name).write_text(text, encoding="utf8", newline="")
            for file in work.iterdir():
                synchronise(file)
            move(work, path, weights, texts)
    except OSError as error:
        raise told(error, f"cannot write {path}") from error
    except safetensors.SafetensorError as error:  # its writer's word for an error of the disk
        raise OSError(f"cannot write {path}: {first_line(error)}") from error


def move(work: Path, path: Path, weights: list[str], texts: dict[str, str]) -> None:
    """Bring the files into their places, an index behind its shards and the config behind what it describes."""
    gone = [SUMS, *(file.name for file in path.glob("*.index.json") if WEIGHTS.fullmatch(file.name))]
    if not all(holds(path / name, text) for name, text in texts.items()):
        gone.append("config.json")
    for name in gone:
        (path / name).unlink(missing_ok=True)
    synchronise(path)
    for name in [*(name for name in texts if name != "config.json"), *weights]:
        os.replace(work / name, path / name)
    for stale in path.iterdir():  # a loader would meet them beside the new ones
        if WEIGHTS.fullmatch(stale.name) and stale.name not in weights:
            stale.unlink()
    synchronise(path)
    for name in ("config.json", SUMS):
        os.replace(work / name, path / name)
    synchronise(path)


def holds(path: Path, text: str) -> bool:
    """Is this what stands in a file?"""
    return path.is_file() and path.read_bytes() == text.encode("utf8")


def sums(folder: Path, names: list[str]) -> str:
    """The lines of SHA256SUMS."""
    return "".join(f"{digest(folder / name)}  {name}\n" for name in names)


def digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def require_sum(path: Path) -> None:
    """Raise ValueError where SHA256SUMS beside a file says that another one stood here."""
    beside = path.with_name(SUMS)
    if not beside.is_file():
        return
    said = {name: value for value, name in LINE.findall(beside.read_text(encoding="utf8", errors="replace"))}
    if path.name in said and digest(path) != said[path.name]:
        raise ValueError(
            f"{path} is not the file whose sum stands in {beside}: it was damaged or changed; if that was wanted, "
            f"remove {SUMS}"
        )
