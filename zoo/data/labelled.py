"""Samples with class labels, from fields and their labels or from JSONL manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zoo.data.bad import BadItems
from zoo.data.field import Field, Samples, Source
from zoo.data.records import Check, checked, label_ids, no_file_in, no_label, records


def labelled(origin: str, splits: dict[str, tuple[Field, list | None]], names: Sequence[str] = ()) -> Source:
    """A Source of fields and their labels by split; ``names`` fixes the order of the classes."""
    if any(labels is None for _, labels in splits.values()):
        return Source({split: Samples(field) for split, (field, _) in splits.items()}, [])
    values = {split: labels for split, (_, labels) in splits.items()}
    if names:
        values = {split: [names.index(label) for label in labels] for split, labels in values.items()}
    classes, ids = label_ids(origin, values)
    splits = {split: Samples(field, None, ids[split]) for split, (field, _) in splits.items()}
    return Source(splits, list(names) or classes)


def from_manifests(
    found: dict[str, list[Path]], key: str, label: str | None, field: Callable[[list[Path]], Field], bad: BadItems
) -> Source:
    """JSONL manifests whose ``key`` is a path beside the manifest, as a Source."""
    splits = {}
    for split, paths in found.items():
        files, labels = [], []
        for path in paths:
            wanted: dict[str, Check] = {key: no_file_in(path.parent)} | ({label: no_label} if label else {})
            rows = checked(path, records(path, bad), wanted, bad)
            files += [path.parent / row[key] for row in rows]
            labels += [row[label] for row in rows] if label else []
        splits[split] = field(files), labels if label else None
    return labelled(str(found["train"][0]), splits)
