"""What is written on from: prompts as they are typed, as lines of a file, or as files themselves."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.cli.errors import UserError
from zoo.data import read_audio
from zoo.data.files import lines
from zoo.data.picture import fit
from zoo.tokenizers import Ids, Tokenizer

STDIN = "the standard input"
KEYS = {"text": "prompt", "image": "image", "audio": "audio"}  # in a line of JSON, by what is read


@dataclass(frozen=True)
class Prompt:
    """A text, or the file of an image or a sound.  ``place`` says where a file has it, and ``fields`` what else stood
    there."""

    value: str | Path
    place: str = ""
    fields: dict[str, Any] = field(default_factory=dict)

    def raw(self, tokenizer: Tokenizer) -> Any:
        """What the tokenizer reads.  Raises ValueError for what is no such thing, or damaged."""
        if isinstance(self.value, Path):
            return fit(self.value, tokenizer) if tokenizer.modality == "image" else read_audio(self.value)
        return numbers(self.value) if isinstance(tokenizer, Ids) else self.value

    def told(self, error: ValueError) -> UserError:
        """What is wrong with this prompt, and where it stands."""
        place = str(self.value) if isinstance(self.value, Path) else self.place
        return UserError(str(error) if not place or place in str(error) else f"{place}: {error}")


def numbers(text: str) -> list[int]:
    """ "15 27" -> [15, 27], for a model without a tokenizer's file."""
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        said = f"there is no tokenizer.json beside this model, so it reads token ids, such as '15 27', and not {text!r}"
        raise ValueError(said) from None


def prompts(options: argparse.Namespace, modality: str) -> list[Prompt]:
    """All that the flags give to a model that reads ``modality``.  Raises UserError."""
    if options.prompt is not None:
        return [Prompt(encodable(text, "--prompt")) for text in options.prompt]
    if options.file is None:
        return [Prompt(Path(file)) for file in options.image or options.audio]
    name, folder = (STDIN, Path()) if options.file == "-" else (options.file, Path(options.file).parent)
    of_objects = options.key is not None or name.endswith((".jsonl", ".jsonl.gz"))
    key, found = options.key or KEYS[modality], []
    for number, line in enumerate(given_lines(options.file), 1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        fields = parsed(line, place) if of_objects else {key: line}
        text = encodable(taken(fields, key, place), place)
        value = text if modality == "text" else (folder if of_objects else Path()) / text
        found.append(Prompt(value, place, {name: value for name, value in fields.items() if name != key}))
    if not found:
        raise UserError(f"{name} has no prompts")
    return found


def given_lines(file: str) -> list[str]:
    if file != "-":
        return lines(Path(file))
    try:
        return sys.stdin.buffer.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{STDIN} is not UTF-8 text at byte {error.start}") from None


def parsed(line: str, place: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{place}: {line[:40]!r} is not an object {{...}}")
    return found


def taken(fields: dict[str, Any], key: str, place: str) -> str:
    if key not in fields:
        raise UserError(
            f"{place}: no key '{key}'; it has {', '.join(map(repr, fields))}; --key says which is the prompt"
        )
    if not isinstance(fields[key], str):
        raise UserError(f"{place}: '{key}' is {json.dumps(fields[key])[:40]} and no text")
    return fields[key]


def encodable(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place} is not Unicode text at letter {error.start}") from None
    return text
