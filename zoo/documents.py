"""YAML read within limits: a document that would exhaust memory, says a thing twice or names code is a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

LARGEST = 1_000_000  # bytes of a document
NODES = 100_000  # values in it, each counted as often as aliases repeat it
ALIASES = 20
DEPTH = 40
WITHIN = 3  # texts that are documents, one in the other
DIGITS = 300  # of a number; Python takes minutes for a million

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a hundred times as fast, where PyYAML was built with it
NUMBER = re.compile(r"[-+]?\d[\w:.]*")
NESTED = re.compile(r"[\[{&]")  # what a text must hold to be a document with limits of its own


class Limit(ValueError):
    """A document that breaks one of the limits, in one sentence."""


@dataclass
class Level:
    """A list or mapping that is being read."""

    anchor: str | None
    keys: set[str] | None  # those of a mapping so far; None for a list
    key_is_next: bool
    nodes: int = 1


def read_text(path: str | Path) -> str:
    """A file's text.  Raises ValueError, which names it, where it is too large or no UTF-8, OSError where it cannot be
    read."""
    with open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise Limit(f"{Path(path).name} is larger than {LARGEST:,} bytes, which no config is")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{Path(path).name}:{line}: no text in UTF-8: save the file in this encoding") from None
    return text.removeprefix("\ufeff")


def read(path: str | Path) -> Any:
    """What a YAML file holds.  Raises ValueError, which names the file and the line."""
    return parse(read_text(path), Path(path).name)


def parse(text: str, name: str = "") -> Any:
    """What a document holds.  Raises ValueError, which begins with ``name``."""
    check(text, name)
    return load(text, name)


def load(text: str, name: str = "", loader: type = LOADER) -> Any:
    """What a document that has been checked holds.  Raises ValueError for what is no value, such as a 13th month."""
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(syntax(error, name, text)) from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name + ': ' if name else ''}not YAML: {str(error).splitlines()[0]}") from None


def check(text: str, name: str = "", within: int = 0) -> None:
    """Raises ValueError, which begins with ``name`` and the line, for what is not YAML, for a key that is given twice,
    of which YAML would keep the last in silence, for tags, and beyond the limits of this file.  ``within`` so many
    documents the text stands."""
    if len(text) > LARGEST:
        raise Limit(f"{name or 'the value'} is larger than {LARGEST:,} bytes, which no config is")
    count = Count(text, name, within)
    try:
        for event in yaml.parse(text, LOADER):
            count.take(event)
    except yaml.YAMLError as error:
        raise ValueError(syntax(error, name, text)) from None
    except UnicodeEncodeError:
        raise ValueError(f"{name + ': ' if name else ''}no text in UTF-8") from None


def syntax(error: yaml.YAMLError, name: str, text: str) -> str:
    """What is wrong with a document, with the file and the line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = min(error.problem_mark.line, text.rstrip().count("\n"))  # the end is not on a line of its own
        return f"{place(name, line)}not YAML: {error.problem}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"{name + ': ' if name else ''}not YAML: the character {error.character:#x} is none of a text"
    return f"{name + ': ' if name else ''}not YAML: {str(error).splitlines()[0]}"


def place(name: str, line: int) -> str:
    """``line`` counts from 0; a value on the command line has no name, and is one line."""
    return f"{name}:{line + 1}: " if name else f"line {line + 1}: " if line else ""


@dataclass
class Count:
    """Follows a document event by event; nothing is built, so that what it says costs nothing."""

    text: str
    name: str
    within: int
    levels: list[Level] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # what each anchor stands for, in nodes
    aliases: int = 0
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self.refuse(event, "a second document begins here; a config is one")
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag is not None:
            self.refuse(event, f"the tag {event.tag!r} is none of a config: leave it out")
        if isinstance(event, yaml.AliasEvent):
            self.alias(event)
        if isinstance(event, yaml.ScalarEvent):
            self.scalar(event)
        if isinstance(event, yaml.CollectionStartEvent):
            self.begin(event)
        if isinstance(event, yaml.CollectionEndEvent):
            level = self.levels.pop()
            self.ended(event, level.nodes, level.anchor)

    def refuse(self, event: yaml.Event, why: str) -> NoReturn:
        raise Limit(place(self.name, event.start_mark.line) + why)

    def alias(self, event: yaml.AliasEvent) -> None:
        self.aliases += 1
        if self.aliases > ALIASES:
            self.refuse(event, f"more than {ALIASES} aliases; write the values out")
        if event.anchor is None or event.anchor not in self.sizes:
            known = any(level.anchor == event.anchor for level in self.levels)
            self.refuse(event, f"*{event.anchor} stands within itself" if known else f"there is no &{event.anchor}")
        self.ended(event, self.sizes[event.anchor], None)

    def scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        if not event.style and len(text) > DIGITS and NUMBER.fullmatch(text):
            self.refuse(event, f"a number of {len(text):,} digits")
        if self.levels and self.levels[-1].key_is_next:
            self.key(event, text)
        elif NESTED.search(text) and text != self.text:
            self.nested(event)
        self.ended(event, 1, event.anchor)

    def nested(self, event: yaml.ScalarEvent) -> None:
        """A text that may be a document: the parser reads texts as YAML where a slot takes more than texts."""
        if self.within == WITHIN:
            self.refuse(event, f"a config within a text, {WITHIN} times over")
        try:
            check(event.value, within=self.within + 1)
        except Limit as error:
            self.refuse(event, str(error))
        except ValueError:
            return

    def key(self, event: yaml.ScalarEvent, text: str) -> None:
        known = self.levels[-1].keys
        assert known is not None
        if text in known:
            self.refuse(event, f"'{text[:60]}' is given twice")
        known.add(text)

    def begin(self, event: yaml.CollectionStartEvent) -> None:
        if self.levels and self.levels[-1].key_is_next:
            self.refuse(event, "a key must be a word")
        if len(self.levels) >= DEPTH:
            self.refuse(event, f"nested more than {DEPTH} levels deep")
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.levels.append(Level(event.anchor, set() if mapping else None, mapping))

    def ended(self, event: yaml.Event, nodes: int, anchor: str | None) -> None:
        """A value is whole."""
        if anchor is not None:
            self.sizes[anchor] = nodes
        if nodes > NODES or (self.levels and self.levels[-1].nodes + nodes > NODES):
            self.refuse(event, f"more than {NODES:,} values")
        if self.levels:
            self.levels[-1].nodes += nodes
            if self.levels[-1].keys is not None:
                self.levels[-1].key_is_next = not self.levels[-1].key_is_next


def scalars(node: yaml.Node | None, is_key: bool = False) -> Iterator[tuple[yaml.ScalarNode, bool]]:
    """Every word of a document from the top down, and whether it is a key."""
    if isinstance(node, yaml.ScalarNode):
        yield node, is_key
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from scalars(item)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from scalars(key, True)
            yield from scalars(value)
