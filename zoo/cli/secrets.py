"""Keeps passwords and keys out of what a run writes down."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import Any

HIDDEN = "(hidden)"
NAMES = re.compile(  # of keys and of environment variables; special tokens such as pad_token are none
    r"(^|_)(api_?key|access_?key|private_key|secret\w*|password|passwd|credentials?)$"
    r"|^(.*_)?(hf|hub|github|gitlab|auth|access|api|bearer|refresh|session|wandb)_token$|^token$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+@")  # user:password@ of an address
SHORTEST = 8  # characters of a secret; shorter values of such variables would be found by chance


def without_secrets(value: Any, name: str = "") -> Any:
    """A config with what looks secret replaced: values of keys such as ``api_key`` or ``hf_token``, values that the
    environment holds under such names, and the user and password in addresses."""
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if NAMES.search(name) or any(secret in value for secret in known()):
        return HIDDEN
    return IN_ADDRESS.sub(HIDDEN + "@", value)


def on_command_line(argv: list[str]) -> bool:
    """Does a command line say something that ``without_secrets`` would hide?"""
    pairs = [("", word) for word in argv]
    pairs += [(name, value) for name, equals, value in (word.partition("=") for word in argv) if equals]
    pairs += pairwise(argv)
    return any(without_secrets(value, flag.lstrip("-").split(".")[-1]) != value for flag, value in pairs)


def known() -> set[str]:
    """The secrets in the environment."""
    return {value for name, value in os.environ.items() if NAMES.search(name) and len(value) >= SHORTEST}
