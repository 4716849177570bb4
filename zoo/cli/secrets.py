"""Keeps passwords and keys out of what a run writes down."""

from __future__ import annotations

import os
import re
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


def known() -> set[str]:
    """The secrets in the environment."""
    return {value for name, value in os.environ.items() if NAMES.search(name) and len(value) >= SHORTEST}
