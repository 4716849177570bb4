"""What the long tests give to ``python -m zoo``: a damaged file or its sound control, and the words that read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One attempt: ``file`` is what an error must name; a ``control`` must be read without one."""

    kind: str  # "image", "audio", "text", "tokenizer", "archive", ...
    name: str  # what is wrong, unique among its kind
    words: list[str]  # of ``python -m zoo``
    file: str
    control: bool = False
    may_load: bool = False  # nothing can tell the damage from what was meant, such as another shade of a pixel
    environment: Mapping[str, str] = field(default_factory=dict)
