"""Keeps passwords and keys out of what a run writes down and says."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import Any

import yaml

from zoo import documents

HIDDEN = "(hidden)"
NAMES = re.compile(  # of keys and of environment variables; special tokens such as pad_token are none
    r"(^|_)(api_?key|(access|private|signing|encryption|ssh|account)_?key|secret\w*|passw(or)?d|passphrase|pwd"
    r"|credentials?|authorization|connection_string)$"
    r"|^(.*_)?(hf|hub|github|gitlab|auth|access|api|bearer|refresh|session|wandb)_?token$|^token$",
    re.IGNORECASE,
)
PARTS = re.compile(  # of a text
    r"(?<=://)[^/@\s]+@"  # user:password@ of an address
    r"|(?<=[?&;])(?P<name>[\w-]+)=(?P<value>[^&;\s'\"]+)"  # what follows an address
    r"|\bBearer\s+[\w.~+/=-]{8,}"
    r"|\b(?:hf_|sk-|ghp_|github_pat_|glpat-|xox[abp]-|AKIA|wandb_v1_)[\w-]{16,}"  # as some services make them
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*-----|$)"
)
SHORTEST = 8  # characters of a secret; shorter values of such variables would be found by chance


def without_secrets(value: Any, name: str = "") -> Any:
    """A config with what looks secret replaced: values of keys such as ``api_key`` or ``hf_token``, at any depth below
    them, values that the environment holds under such names, passwords in addresses, and keys of well-known forms."""
    if isinstance(value, dict):
        secret = name if NAMES.search(name) else ""
        return {key: without_secrets(item, secret or str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str):
        return HIDDEN if value and NAMES.search(name) else hidden(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)  # a token may be the number of a word
    return HIDDEN if number and NAMES.search(name) and not name.lower().endswith("token") else value


def hidden(text: str) -> str:
    """A text with what is secret in it replaced: a whole text that holds a secret of the environment."""
    if any(secret in text for secret in known()):
        return HIDDEN
    return PARTS.sub(replacement, text)


def replacement(found: re.Match[str]) -> str:
    if found["name"]:
        return f"{found['name']}={HIDDEN}" if NAMES.search(found["name"].replace("-", "_")) else found[0]
    return HIDDEN + ("@" if found[0].endswith("@") else "")


def told(text: str) -> str:
    """What may be printed: the words around a secret of the environment stay."""
    for secret in known():
        text = text.replace(secret, HIDDEN)
    return PARTS.sub(replacement, text)


def on_command_line(argv: list[str]) -> bool:
    """Does a command line say something that ``without_secrets`` would hide?"""
    pairs = [("", word) for word in argv]
    pairs += [(name, value) for name, equals, value in (word.partition("=") for word in argv) if equals]
    pairs += pairwise(argv)
    for flag, text in pairs:
        value = nested(text)
        if without_secrets(value, flag.lstrip("-").rstrip("+").split(".")[-1]) != value:
            return True
    return False


def nested(text: str) -> Any:
    """A config in a line as what it holds, another word as it is."""
    if "{" not in text and ": " not in text:
        return text
    try:
        documents.check(text)
        return yaml.load(text, documents.LOADER)
    except (ValueError, yaml.YAMLError):
        return text


def known() -> set[str]:
    """The secrets in the environment."""
    return {value for name, value in os.environ.items() if NAMES.search(name) and len(value) >= SHORTEST}
