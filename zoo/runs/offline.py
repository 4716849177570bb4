"""Reads the ``.wandb`` files in which W&B keeps a run until it is synced: config, history and summary."""

from __future__ import annotations

import importlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

MAGIC = b":W&B"
HEADER = 7  # the magic, two bytes of a second one and the version
BLOCK = 32768  # LevelDB's log format: records are cut into chunks, of which none crosses the border of a block
CHUNK = struct.Struct("<IHB")  # checksum, length, and which part of its record it is
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
STEP = "trainer/global_step"  # what Lightning calls the optimizer steps


@dataclass
class Record:
    """What was recorded in one folder.  ``history`` holds the numbers that were logged, a dictionary a call."""

    id: str = ""
    name: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    started: float = 0.0  # seconds since 1970
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


def read(path: Path) -> Record:
    """One ``.wandb`` file; of one that was cut off when its run was killed, what is whole.

    Raises ValueError for other and for damaged files, ImportError where the wandb package is not installed.
    """
    try:
        messages = importlib.import_module("wandb.proto.wandb_internal_pb2")
    except ImportError:
        raise ImportError(f"{path} is read with the wandb package: pip install 'lightning-zoo[wandb]'") from None
    found = Record()
    for data in records(path):
        try:
            message = messages.Record.FromString(data)
        except Exception as error:  # protobuf's DecodeError, of whichever implementation is installed
            raise ValueError(f"{path} is damaged: {error}") from None
        take(found, message)
    found.config.pop("_wandb", None)
    return found


def records(path: Path) -> Iterator[bytes]:
    """The file's records, put together from their chunks."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{path} is no W&B recording: it does not begin with {MAGIC.decode()}")
    at, parts = HEADER, b""
    while at + CHUNK.size <= len(data):
        rest = BLOCK - at % BLOCK
        if rest < CHUNK.size:  # too little for another chunk: filled with zeros
            at += rest
            continue
        checksum, length, kind = CHUNK.unpack_from(data, at)
        chunk = data[at + CHUNK.size : at + CHUNK.size + length]
        if len(chunk) < length or kind == length == checksum == 0:  # the process was killed while it wrote
            return
        if zlib.crc32(bytes([kind]) + chunk) != checksum or kind not in (WHOLE, FIRST, MIDDLE, LAST):
            raise ValueError(f"{path} is damaged at byte {at}: a checksum is wrong")
        at += CHUNK.size + length
        parts = chunk if kind in (WHOLE, FIRST) else parts + chunk
        if kind in (WHOLE, LAST):
            yield parts


def take(found: Record, message: Any) -> None:
    """Add what one record says."""
    kind = message.WhichOneof("record_type")
    if kind == "run":
        run = message.run
        found.id, found.name, found.group, found.job_type = run.run_id, run.display_name, run.run_group, run.job_type
        found.tags, found.started = list(run.tags), run.start_time.seconds + run.start_time.nanos / 1e9
        change(found.config, run.config)
    elif kind == "config":
        change(found.config, message.config)
    elif kind == "summary":
        change(found.summary, message.summary)
    elif kind == "history":
        found.history.append(numbers(message.history.item))
    elif kind == "exit":
        found.summary.setdefault("state", "failed" if message.exit.exit_code else "finished")


def keys(item: Any) -> list[str]:
    return list(item.nested_key) or [item.key]


def change(tree: dict[str, Any], changes: Any) -> None:
    """Set and remove values at their keys; a dictionary goes into the one that is there."""
    for item in changes.update:
        *above, last = keys(item)
        branch = tree
        for key in above:
            if not isinstance(branch.get(key), dict):
                branch[key] = {}
            branch = branch[key]
        branch[last] = json.loads(item.value_json)
    for item in changes.remove:
        *above, last = keys(item)
        branch = tree
        for key in above:
            branch = branch.get(key, {})
        branch.pop(last, None)


def numbers(items: Iterable[Any]) -> dict[str, float]:
    """The numbers of a row, without W&B's own and those that belong to a picture or a table."""
    pairs = [(keys(item), json.loads(item.value_json)) for item in items]
    media = {path[0] for path, _ in pairs if path[-1] == "_type"}
    return {
        ".".join(path): float(value)
        for path, value in pairs
        if isinstance(value, (int, float)) and not path[0].startswith("_") and path[0] not in media
    }


def joined(pieces: Sequence[Record]) -> Record:
    """The recordings of one run, which was resumed, as one, with a ``step`` in its rows: that of the optimizer, or the
    number of the row where it is not known."""
    whole = Record()
    for piece in sorted(pieces, key=lambda piece: piece.started):
        config, summary = {**whole.config, **piece.config}, {**whole.summary, **piece.summary}
        whole = replace(piece, config=config, summary=summary, history=followed(whole.history, piece.history))
    return whole


def followed(before: list[dict[str, float]], after: list[dict[str, float]]) -> list[dict[str, float]]:
    """What a run repeats after it went back to a checkpoint is dropped from the rows before.  Lightning numbers the
    step that has just been taken from 0; ``step`` is how many have been taken."""
    taken = float(any(name.startswith("train/") for row in (*before, *after) for name in row))
    steps = [row[STEP] + taken for row in after if STEP in row]
    if not steps:
        return [*before, *({**row, "step": float(len(before) + number)} for number, row in enumerate(after))]
    kept = [row for row in before if row.get("step", 0.0) < min(steps)]
    rows = [{key: value for key, value in row.items() if key != STEP} for row in after]
    return [*kept, *(row | {"step": old[STEP] + taken} if STEP in old else row for row, old in zip(rows, after))]
