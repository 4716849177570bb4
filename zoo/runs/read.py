"""A run on disk as one value: what it was configured to do, what it measured, and what it was."""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo import documents
from zoo.runs import offline
from zoo.runs.units import AXES

Row = dict[str, float]


class NoMetrics(ValueError):
    """A run that was stopped before it measured anything."""


@dataclass(frozen=True)
class Run:
    """``metrics`` has a row a logging call: what was logged, as "val/loss", and where on each x-axis, as "step"."""

    name: str
    path: Path
    config: dict[str, Any]
    metrics: list[Row]
    summary: dict[str, Any]

    @cached_property
    def names(self) -> list[str]:
        """The metrics in the order of their first appearance, without the x-axes."""
        seen = dict.fromkeys(name for row in self.metrics for name in row)
        return [name for name in seen if name not in AXES and name != "epoch"]

    def points(self, metric: str, axis: str = "step") -> tuple[list[float], list[float]]:
        """Where a metric was logged, and its values, NaN and infinities included; empty where either is not known."""
        rows = [row for row in self.metrics if metric in row and axis in row]
        return [row[axis] for row in rows], [row[metric] for row in rows]

    def reached(self, axis: str) -> float | None:
        """How far training went, None where that is not known."""
        return max((row[axis] for row in self.metrics if axis in row), default=None)


def read(path: str | Path) -> list[Run]:
    """The runs at a path: a run's folder, a ``.wandb`` file or its folder, or a folder of those (``runs/``).

    A run without metrics is left out of a folder of runs, with a warning.  Raises ValueError, which names the path,
    for anything else than runs, for a damaged file, and where there are no metrics at all.
    """
    path = Path(path)
    if is_run(path):
        return [from_folder(path)]
    if path.suffix == ".wandb" and path.is_file():
        return [from_wandb([path])]
    if not path.is_dir():
        fault = "is no run" if path.exists() else "does not exist"
        raise ValueError(f"{path} {fault}: give a run's folder, such as runs/NAME, a .wandb file or a folder of runs")
    own = sorted(path.glob("*.wandb"))
    if own:
        return [from_wandb(own)]
    return inside(path)


def inside(path: Path) -> list[Run]:
    """The runs in the folders of a folder; those of W&B that were resumed, and so have several folders, as one."""
    folders = sorted(child for child in path.iterdir() if child.is_dir() and not child.is_symlink())
    recordings: dict[str, list[Path]] = {}
    for file in (file for folder in folders if not is_run(folder) for file in sorted(folder.glob("*.wandb"))):
        recordings.setdefault(file.stem, []).append(file)
    runs = [run for folder in folders if is_run(folder) for run in unless_empty(from_folder, folder)]
    runs += [run for files in recordings.values() for run in unless_empty(from_wandb, files)]
    if not runs:
        raise NoMetrics(f"{path} holds no run with metrics: a run is a folder with metrics.csv, or with a .wandb file")
    return runs


def unless_empty(reader: Callable[[Any], Run], source: Any) -> list[Run]:
    try:
        return [reader(source)]
    except NoMetrics as error:
        warnings.warn(str(error))
        return []


def is_run(path: Path) -> bool:
    return (path / "metrics.csv").is_file() or (path / "config.yaml").is_file()


def from_folder(path: Path) -> Run:
    """A run directory: ``metrics.csv`` must be there, ``config.yaml`` and ``summary.json`` may be."""
    table, config, summary = path / "metrics.csv", path / "config.yaml", path / "summary.json"
    rows = read_table(table) if table.is_file() else []
    if not rows:
        raise NoMetrics(f"{path} has no metrics: the run was stopped before it logged any to metrics.csv")
    facts = parsed(summary, json.loads, "JSON") if summary.is_file() else {}
    settings = parsed(config, documents.parse, "YAML") if config.is_file() else {}
    return Run(path.resolve().name, path, settings, placed(rows), facts)


def read_table(path: Path) -> list[Row]:
    """Empty cells are left out, and so is a last line that a killed process left unfinished."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = [line for line in csv.reader(file) if line] or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if lines and len(lines[-1]) < len(header):
        lines.pop()
    for number, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise ValueError(f"{path} is damaged: line {number} has {len(line)} cells, and its head {len(header)}")
    try:
        return [{name: float(cell) for name, cell in zip(header, line) if cell} for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def parsed(path: Path, parse: Callable[[str], Any], language: str) -> dict[str, Any]:
    try:
        found = parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged, it cannot be read as {language}: {' '.join(str(error).split())}"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds {type(found).__name__}, not keys and values")
    return found


def placed(rows: Sequence[Row]) -> list[Row]:
    """A row that does not say where on an x-axis it is, is where the row before it was."""
    where: Row = {}
    result = []
    for row in rows:
        where = {**where, **{axis: row[axis] for axis in AXES if math.isfinite(row.get(axis, math.nan))}}
        result.append({**{name: value for name, value in row.items() if name not in AXES}, **where})
    return result


def from_wandb(files: Sequence[Path]) -> Run:
    """One W&B run, of one offline folder or of several where it was resumed."""
    record = offline.joined([offline.read(file) for file in files])
    if not record.history:
        raise NoMetrics(f"{files[-1]} has no metrics: the run was stopped before it logged any")
    facts = {**record.summary, "group": record.group, "job_type": record.job_type, "tags": record.tags}
    path = files[-1].parent
    return Run(record.name or path.resolve().name, path, record.config, placed(record.history), facts)
