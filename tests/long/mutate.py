"""Random damage, a pure function of a seed: flipped bits, lost ends, and JSON whose values are of another kind."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

VALUES: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**40, 0.5, -1e308, 1e308, "", " ", "\x00", "a",
    "(a+)+$", "[", "x" * 100_000, [], {}, [[]], [""], [-1], [None], {"": None}, {"type": "Nonsense"}, {"type": None},
    {"String": ""}, {"Regex": ""}, {"Regex": "("}, {"Regex": "(?:)"},
]  # fmt: skip


def flipped(data: bytes, dice: random.Random, count: int = 1) -> bytes:
    """``count`` bits turned round, anywhere."""
    changed = bytearray(data)
    for _ in range(count):
        changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(data: bytes, dice: random.Random) -> bytes:
    """Some beginning of it."""
    return data[: dice.randrange(len(data))]


def spliced(data: bytes, dice: random.Random) -> bytes:
    """A stretch is replaced by another stretch of the same data."""
    size = dice.randrange(1, max(2, len(data) // 8))
    to, source = (dice.randrange(len(data)) for _ in range(2))
    return data[:to] + data[source : source + size] + data[to + size :]


def places(value: Any, most: int = 12) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a JSON value; of long lists and objects, the first and last few."""
    found, waiting = [], [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else list(range(len(one)))
        for key in keys if len(keys) <= 2 * most else keys[:most] + keys[-most:]:
            found.append((one, key))
            if isinstance(one[key], (dict, list)):
                waiting.append(one[key])
    return found


def altered(value: Any, dice: random.Random, count: int = 1) -> Any:
    """A JSON value in which ``count`` places have another value, are gone, are doubled or have another's."""
    changed = copy.deepcopy(value)
    for _ in range(count):
        container, key = dice.choice(places(changed) or [({}, "")])
        if not container:
            continue
        kind = dice.choice(("value", "value", "value", "gone", "double", "other", "key", "near"))
        others = [holder[name] for holder, name in places(changed)]
        if kind == "value":
            container[key] = copy.deepcopy(dice.choice(VALUES))
        elif kind == "gone":
            del container[key]
        elif kind == "double" and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif kind == "other":
            container[key] = copy.deepcopy(dice.choice(others))
        elif kind == "key" and isinstance(container, dict):
            container[dice.choice(["", "type", "id", f"{key}x"])] = container.pop(key)
        elif kind == "near" and isinstance(container[key], int):
            container[key] += dice.choice((-1, 1, 1000))
    return changed


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
