"""Checkpoints that are folders: each process writes the part of the weights that it has, and any number reads them."""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import metadata as plan
from torch.distributed.checkpoint.filesystem import _StorageInfo

from zoo.atomic import PARTIAL, sweep, synchronise
from zoo.checkpoints.seal import PIECE

META = "meta.pt"  # all that is no weight; sealed, and written last: it says which shards belong to it
SHARDS = "shards"  # its entry about them, and how their folders begin
SPREAD = ("state_dict", "optimizer_states")  # the entries of a checkpoint whose tensors are in the shards
KNOWN: dict[tuple[str, str], Any] = {  # what the list of shards may be made of
    **{(part.__module__, part.__qualname__): part for part in (_StorageInfo, torch.Size)},
    **{
        (plan.__name__, name): getattr(plan, name)
        for name in (
            *("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta"),
            *("TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"),
        )
    },
    ("torch.serialization", "_get_layout"): torch.serialization._get_layout,
    **{(home, f"{kind}Path"): Path for home in ("pathlib", "pathlib._local") for kind in ("Posix", "Windows")},
}

Checkpoint = dict[str, Any]


def write_folder(checkpoint: Checkpoint, path: Path, seal: Callable[[Checkpoint, Path], None]) -> None:
    """A checkpoint whose tensors may be DTensors as a folder; every process must call this.

    The shards go into a folder of their own, and ``seal`` then writes the file that names them: a kill leaves the
    checkpoint that was there, or the new one.  Raises OSError where the disk fails.
    """
    plain, tensors = parted(checkpoint)
    rank, world = dist.get_rank(), dist.get_world_size()
    told: list[Any] = [str(prepared(path)) if rank == 0 else None]
    dist.broadcast_object_list(told)
    shards = Path(told[0])
    dcp.save(tensors, storage_writer=dcp.FileSystemWriter(shards))
    own = {file.name: [file.stat().st_size, digest(file)] for file in sorted(shards.glob(f"__{rank}_*"))}
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, own)
    if rank == 0:
        files = {name: facts for part in parts for name, facts in part.items()}
        listing = shards / ".metadata"
        files[listing.name] = [listing.stat().st_size, digest(listing)]
        seal({**plain, SHARDS: {"folder": shards.name, "files": files}}, shards.parent / META)
        placed(shards, path)
    dist.barrier()


def prepared(path: Path) -> Path:
    """Where the shards of a checkpoint are to be written: in its folder, or in one that will be renamed to it."""
    token = secrets.token_hex(4)
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, path.name)
    home = path if path.is_dir() else path.with_name(f".{path.name}.{token}{PARTIAL}")
    shards = home / f"{SHARDS}-{token}"
    shards.mkdir(parents=True)
    return shards


def placed(shards: Path, path: Path) -> None:
    """Bring a folder with new ``shards`` to its place, and remove those that were there."""
    synchronise(shards)
    if shards.parent != path:
        path.unlink(missing_ok=True)  # a checkpoint that was a file
        os.replace(shards.parent, path)
    for old in path.glob(f"{SHARDS}-*"):
        if old.name != shards.name:
            shutil.rmtree(old, ignore_errors=True)
    synchronise(path.parent)


def fill(checkpoint: Checkpoint, path: Path, map_location: Any) -> int:
    """Put the tensors of a folder into what its ``meta.pt`` holds, in place; only their shapes where ``map_location``
    is "meta".  The answer is the size of the shards in bytes.  Raises ValueError, without the subject of the sentence,
    for what is missing or damaged."""
    shards, files = shards_of(checkpoint, path)
    known = listed(shards)
    if map_location != "meta":
        require_digests(shards, files, 0, 1)
    here = "meta" if map_location == "meta" else "cpu"
    tensors = {name: torch.empty(size, dtype=kind, device=here) for name, (size, kind) in known.items()}
    if map_location != "meta":
        read_into(tensors, shards)
    if isinstance(map_location, (str, torch.device)):
        tensors = {name: value.to(map_location) for name, value in tensors.items()}
    joined(checkpoint, tensors)
    return sum(size for size, _ in files.values())


def fill_places(checkpoint: Checkpoint, path: Path, place: Callable[[str, Tensor], Tensor]) -> None:
    """The same with the caller's tensors, of what ``read_checkpoint(path, empty=True)`` answered: ``place`` is given a
    name and a tensor without values, and answers with a DTensor or another one to be filled.  Every process must call
    this; it reads its own part.  Raises ValueError as ``fill``."""
    shards, files = shards_of(checkpoint, path)
    require_digests(shards, files, dist.get_rank(), dist.get_world_size())
    tensors = {
        name: place(name, inner[key]) for name, inner, key in leaves(checkpoint) if isinstance(inner[key], Tensor)
    }
    read_into(tensors, shards)
    joined(checkpoint, tensors)


def parted(checkpoint: Checkpoint) -> tuple[Checkpoint, dict[str, Tensor]]:
    """A checkpoint without its tensors, in whose places None stands, and the tensors by their names."""
    plain = {key: copied(value) if key in SPREAD else value for key, value in checkpoint.items()}
    tensors = {}
    for name, inner, key in leaves(plain):
        if isinstance(inner[key], Tensor):
            tensors[name], inner[key] = inner[key], None
    return plain, tensors


def joined(checkpoint: Checkpoint, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors into the places that they were ``parted`` from.  Raises ValueError where one has none."""
    placed = set()
    for name, inner, key in leaves(checkpoint):
        if name in tensors:
            inner[key] = tensors[name]
            placed.add(name)
    if placed != tensors.keys():
        raise ValueError(f"has a shard for {min(tensors.keys() - placed)!r}, for which its meta.pt has no place")


def leaves(checkpoint: Checkpoint) -> Iterator[tuple[str, Any, Any]]:
    """All that is no dictionary or list in the entries that are spread: its name, what it is in, and its key there."""
    waiting = [(name, checkpoint, name) for name in SPREAD if name in checkpoint]
    while waiting:
        name, inner, key = waiting.pop()
        value = inner[key]
        if isinstance(value, (dict, list)):
            keys = value if isinstance(value, dict) else range(len(value))
            waiting += [(f"{name}/{each}", value, each) for each in keys]
        else:
            yield name, inner, key


def copied(value: Any) -> Any:
    """New dictionaries and lists of the same values."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def shards_of(checkpoint: Checkpoint, path: Path) -> tuple[Path, dict[str, list]]:
    """The folder of the shards that a ``meta.pt`` names, and their sizes and digests.  Raises ValueError."""
    entry: Any = checkpoint.get(SHARDS)
    good = isinstance(entry, dict) and isinstance(entry.get("folder"), str) and isinstance(entry.get("files"), dict)
    if not good or Path(entry["folder"]).name != entry["folder"] or not entry["folder"].startswith(SHARDS):
        raise ValueError("is a folder, but its meta.pt names no shards")
    shards = path / entry["folder"]
    for name, (size, _) in entry["files"].items():
        file = shards / name
        if not file.is_file() or file.stat().st_size != size:
            raise ValueError(f"lacks a part of {entry['folder']}/{name}; it is damaged: use another one")
    return shards, entry["files"]


def require_digests(shards: Path, files: Mapping[str, list], rank: int, world: int) -> None:
    """Raise ValueError for a shard that is not what was written; each of several processes looks at its share."""
    for name in sorted(files)[rank::world]:
        if digest(shards / name) != files[name][1]:
            raise ValueError(f"has a shard {name} that was damaged or changed after it was written; use another one")


def digest(file: Path) -> str:
    """The sha256 of a file, in hex."""
    found = hashlib.sha256()
    with open(file, "rb") as opened:
        while piece := opened.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def read_into(tensors: dict[str, Tensor], shards: Path) -> None:
    """Fill tensors, in place, from a folder of shards; of a DTensor what this process has.  Raises ValueError."""
    try:
        dcp.load(tensors, storage_reader=Reader(shards), no_dist=True)
    except Exception as error:  # of torch's planner, which has no error of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"has shards that cannot be read: {reason}") from error


def listed(shards: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """The shape and type of each tensor in a folder of shards.  Raises ValueError for what is no list of them."""
    try:
        found = Reader(shards).read_metadata().state_dict_metadata
        return {name: (entry.size, entry.properties.dtype) for name, entry in found.items()}
    except Exception as error:  # of a pickle that is damaged
        raise ValueError(f"has a list of shards that cannot be read: {type(error).__name__}") from error


class Reader(dcp.FileSystemReader):
    """torch's, whose list of shards is a pickle: nothing in it is called but what such a list is made of."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> plan.Metadata:
        with open(Path(self.path) / ".metadata", "rb") as file:
            found = Plain(file).load()
        found.storage_meta = found.storage_meta or plan.StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class Plain(pickle.Unpickler):
    """Makes what ``KNOWN`` names, and torch's types of numbers; all else is refused."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN:
            return KNOWN[module, name]
        found = getattr(torch, name, None) if module == "torch" else None
        if not isinstance(found, torch.dtype):
            raise pickle.UnpicklingError(f"{module}.{name} is code, and no part of a list of shards")
        return found
