"""Records with keys, such as the lines of a JSONL file: what is read from them, and the classes that labels name."""

# Shapes: N samples.

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.data.bad import BadItems
from zoo.data.files import byte_lines, decoded

MOST_CLASSES = 100_000
NO_CLASS = f"is not a class: labels are all strings, or all whole numbers from 0 to {MOST_CLASSES - 1}"

Rows = dict[int, dict[str, Any]]  # the number of a line -> its record
Check = Callable[[Any], str]  # a value -> what is wrong with it, or nothing


def records(path: Path, bad: BadItems) -> Rows:
    """The objects in a JSONL file; empty lines are passed over.  ValueError where there are none."""
    found: Rows = {}
    for number, line in enumerate(byte_lines(path), 1):
        if line.strip():
            with bad.item():
                found[number] = record(path, number, line)
    if not found:
        raise ValueError(f"{path}: has no records")
    return found


def record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    text = decoded(path, number, line)
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(f"{path}, line {number}: not JSON (nested too deeply)") from None
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}, line {number}: {text[:40]!r} is not an object {{...}}")
    return found


def checked(origin: Path | str, rows: Rows, wanted: Mapping[str, Check], bad: BadItems) -> list[dict[str, Any]]:
    """The records that have what is wanted at each key.  ValueError where one has not, or none has."""
    good = []
    for number, row in rows.items():
        with bad.item():
            for key, check in wanted.items():
                if key not in row:
                    known = ", ".join(map(repr, row))
                    raise ValueError(f"{origin}, line {number}: no key {key!r}; it has {known}; say which it is")
                if wrong := check(row[key]):
                    raise ValueError(f"{origin}, line {number}: {key!r} {wrong}")
            good.append(row)
    if not good:
        raise ValueError(f"{origin}: no record can be used; the first: {next(iter(bad.found), 'there is none')}")
    return good


def no_text(value: Any) -> str:
    """Why it is no text; empty where it is."""
    if not isinstance(value, str):
        return f"is {reprlib.repr(value)}, not a str"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"is {reprlib.repr(value)}, with half of a surrogate pair"
    return ""


def no_file_in(folder: Path) -> Check:
    """Why it is no path of a file, seen from a folder."""

    def check(value: Any) -> str:
        wrong = no_text(value)
        return wrong or ("" if (folder / value).is_file() else f"is {value!r}, and there is no such file")

    return check


def no_label(value: Any) -> str:
    """Why it names no class."""
    if isinstance(value, str) or is_number(value):
        return ""
    return f"is {reprlib.repr(value)}, which {NO_CLASS}"


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_CLASSES


def label_ids(origin: str, values: dict[str, Sequence]) -> tuple[list[str], dict[str, Tensor]]:
    """Labels by split -> the classes and, by split, (N,) class ids.  Labels are all strings (classes in alphabetical
    order) or all whole numbers from 0.  ValueError names ``origin`` and the label."""
    every = {label for labels in values.values() for label in labels}
    if all(isinstance(label, str) for label in every):
        classes = sorted(every)
    else:
        for found in every:
            if not is_number(found):
                raise ValueError(f"{origin}: label {found!r} {NO_CLASS}")
        classes = [str(number) for number in range(max(every) + 1)]
    place = {name: i for i, name in enumerate(classes)}
    return classes, {split: torch.tensor([place[str(label)] for label in found]) for split, found in values.items()}
