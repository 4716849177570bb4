"""Text and JSON files, read so that a damaged one is a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DEEPEST = 50  # levels of a JSON file; published ones have 4
LARGEST = 2**27  # bytes of a file; the largest published ones have a quarter


def read_utf8(path: Path) -> str:
    """The text of a file.  Raises ValueError where it is missing, too large or not UTF-8."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ValueError(f"{path} is no file but a device or a pipe")
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path} has {path.stat().st_size:,} bytes, and {LARGEST:,} are the most")
        return path.read_text(encoding="utf8")
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"{path.parent} has no {path.name}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: byte {error.start} cannot be read") from None


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file.  Raises ValueError where it is missing, damaged or something else."""
    text = read_utf8(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({first_line(error)})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no object but a {type(value).__name__}")
    if levels(value) > DEEPEST:
        raise ValueError(f"{path} is nested more than {DEEPEST} levels deep")
    return value


def levels(value: Any) -> int:
    """How deeply objects and lists lie in each other."""
    count, layer = 0, [value]
    while layer:
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
        layer, count = [inner for inner in layer if isinstance(inner, (dict, list))], count + 1
    return count


def first_line(error: BaseException) -> str:
    """What an error says, short enough to be quoted in a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
