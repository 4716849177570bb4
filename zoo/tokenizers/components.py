"""The components of a ``tokenizer.json`` that the tokenizers library would not survive if they were damaged."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

PATTERN = 2**14  # characters of a regular expression; usual are 300
GROWTH = 1000  # times that normalizing may lengthen a text
LENGTH = 2**10  # characters of what is put into a text, and of what is taken off its ends

# A group that repeats without end, and whose inside repeats or has choices, takes a time that doubles with each letter.
ENDLESS = re.compile(r"[*+{]")


def check_component(part: str, value: Any) -> None:
    """Refuse, in ValueError's sentence, what is wrong with a normalizer, pre-tokenizer, post-processor or decoder."""
    growth = 1
    for component in components(value):
        kind = str(component.get("type"))
        if kind == "Strip" and part == "decoder":
            check_strip(component)
        if kind in CHECKS:
            CHECKS[kind](component)
        growth *= lengthened(component)
        if growth > GROWTH:
            raise ValueError(f"its {part} makes a text more than {GROWTH} times as long")


def components(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it that may be a component."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def lengthened(component: dict[str, Any]) -> int:
    """How many times as long a text may become."""
    content = component.get("content")
    return len(content) if component.get("type") == "Replace" and isinstance(content, str) and content else 1


def check_strip(component: dict[str, Any]) -> None:
    """The library takes something off the end of a text that is empty, too."""
    if component.get("stop") != 0 or not 0 <= whole(component.get("start")) <= LENGTH:
        raise ValueError(f"its decoder strips {component.get('start')!r} and {component.get('stop')!r} letters")


def check_length(component: dict[str, Any]) -> None:
    if whole(component.get("length")) < 1:
        raise ValueError(f"its pre_tokenizer has pieces of the length {component.get('length')!r}")


def whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def check_pattern(component: dict[str, Any]) -> None:
    """Of Replace and Split: a text, or a regular expression that cannot run for ever."""
    pattern = component.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    if isinstance(expression, str) and (len(expression) > PATTERN or repeats(expression)):
        raise ValueError(f"the pattern {expression[:60]!r} may run for ever")


def repeats(expression: str) -> bool:
    """Is there a group that is repeated without end and has repetitions or choices inside?"""
    bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", expression, flags=re.DOTALL)  # neither escapes nor sets of letters
    opened: list[bool] = []  # of each open group: is there something of that kind in it?
    for place, letter in enumerate(bare):
        if letter == "(":
            opened.append(False)
        elif letter == ")" and opened:
            inside = opened.pop()
            endless = bool(ENDLESS.match(bare, place + 1))
            if inside and endless:
                return True
            if opened:
                opened[-1] |= inside or endless
        elif letter in "*+{|" and opened:
            opened[-1] = True
    return False


def check_template(component: dict[str, Any]) -> None:
    """Of TemplateProcessing: each special token that is used is described, as as many ids as texts."""
    known = component.get("special_tokens")
    known = known if isinstance(known, dict) else {}
    for name, token in known.items():
        ids, texts = (token.get(key) if isinstance(token, dict) else None for key in ("ids", "tokens"))
        if (
            not isinstance(ids, list)
            or not isinstance(texts, list)
            or len(ids) != len(texts)
            or token.get("id") != name
        ):
            raise ValueError(f"the special token {name[:60]!r} of its post_processor is {str(token)[:100]}")
    for key in ("single", "pair"):
        for piece in component.get(key) if isinstance(component.get(key), list) else []:
            used = piece.get("SpecialToken") if isinstance(piece, dict) else None
            name = used.get("id") if isinstance(used, dict) else None
            if used is not None and (not isinstance(name, str) or name not in known):
                raise ValueError(f"its post_processor adds {str(name)[:60]!r}, and says not what that is")


def check_characters(component: dict[str, Any]) -> None:
    """Of Precompiled, sentencepiece's table of letters: a trie as a double array (Aoe 1989) of 32-bit units, and the
    texts that it leads to, each ended by a zero.  The library follows the trie without looking where it leads."""
    try:
        data = base64.b64decode(component.get("precompiled_charsmap") or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError("its table of letters is not base64") from None
    if not data:
        return
    size = int.from_bytes(data[:4], "little")
    if size % 4 or not 0 < size < len(data) - 4:
        raise ValueError("its table of letters is damaged")
    units, texts = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64), data[4 + size :]
    leaf = units >> 31 == 1
    offset = (units >> 10) << ((units & 512) >> 6)
    children = np.arange(len(units)) ^ offset  # before the next letter is added, which changes the last eight bits
    starts = units[leaf] & 0x7FFFFFFF
    if ((children[~leaf] | 255) >= len(units)).any() or (starts >= len(texts)).any():
        raise ValueError("its table of letters leads outside")
    ends = children[~leaf & (units >> 8 & 1 == 1)]  # where a text is told
    inner = np.frombuffer(texts, np.uint8)[starts] & 0xC0 == 0x80  # of a letter of several bytes
    if not leaf[ends].all() or inner.any():
        raise ValueError("its table of letters leads to no text")


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "FixedLength": check_length,
    "Precompiled": check_characters,
    "Replace": check_pattern,
    "Split": check_pattern,
    "TemplateProcessing": check_template,
}
