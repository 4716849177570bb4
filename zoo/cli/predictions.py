"""What ``predict`` found, put together from all processes in the order of the samples, and saved."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from zoo.atomic import replaced, write_text

MISSING = object()


def everywhere(found: list[Any]) -> list[Any]:
    """The batches of all processes, each of which reads every so-manieth sample, as batches of the whole."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return found
    parts: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(parts, found)
    return [woven([batch for batch in batches if batch is not None]) for batches in itertools.zip_longest(*parts)]


def woven(batches: Sequence[Any]) -> Any:
    """Batches that have the first, second, ... of each few samples -> one that has them all in order."""
    first = batches[0]
    if isinstance(first, dict):
        return {name: woven([batch[name] for batch in batches]) for name in first}
    samples = itertools.chain.from_iterable(itertools.zip_longest(*batches, fillvalue=MISSING))
    whole = [sample for sample in samples if sample is not MISSING]
    return torch.stack(whole) if isinstance(first, Tensor) else whole


def save(found: list[Any], folder: Path) -> list[Path]:
    """The batches as predictions.pt, and texts in lines of JSON too, which other programs read."""
    files = [folder / "predictions.pt"]
    with replaced(files[0], "wb") as file:
        torch.save(found, file)
    samples = [sample for batch in found if isinstance(batch, list) for sample in batch]
    if samples and all(isinstance(sample, str) for sample in samples):
        files.append(folder / "predictions.jsonl")
        lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in samples]
        write_text(files[1], "".join(lines))
    return files
