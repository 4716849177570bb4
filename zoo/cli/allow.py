"""``--allow`` and ``--allow_remote``: what the user trusts beyond the library, said on the command line alone."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from jsonargparse import set_parsing_settings

from zoo import EXPORTS, allowed
from zoo.cli.arguments import PACKAGES
from zoo.cli.errors import USAGE, UserError
from zoo.cli.schema_classes import paths

REMOTE = "--allow_remote"
HELP = {
    PACKAGES: "a package whose classes a config may name, in the working directory or installed; may be given again",
    REMOTE: "read a checkpoint from an address such as s3://...; what it holds is never run",
}


class Noted(argparse.Action):
    """A flag that was read before the parser begins; no config may set it."""

    def __init__(self, option_strings: list[str], dest: str, **given: Any):
        super().__init__(option_strings, argparse.SUPPRESS, default=argparse.SUPPRESS, **given)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        pass


def add_to(parser: Any) -> None:
    """Gives a parser the two flags."""
    parser.add_argument(PACKAGES, action=Noted, metavar="PACKAGE", help=HELP[PACKAGES])
    parser.add_argument(REMOTE, action=Noted, nargs=0, help=HELP[REMOTE])


def given(argv: list[str]) -> list[str]:
    """The packages that a command line allows: ``--allow a --allow=b,c``."""
    found = [word.split("=", 1)[1] for word in argv if word.startswith(f"{PACKAGES}=")]
    found += [argv[i + 1] for i, word in enumerate(argv[:-1]) if word == PACKAGES]
    return found


def begin(packages: list[str] | None) -> None:
    """Lets values name what the library offers and what is allowed ("a" or "b,c"), and nothing else.  Where something
    is, the working directory is searched too, after everything that is installed.  Raises UserError."""
    before, names = allowed.trusted(), [name for some in packages or () for name in some.split(",")]
    allowed.forget()
    try:
        allowed.allow(*names)
    except ValueError as error:
        raise UserError(f"{PACKAGES}: {error}", USAGE) from None
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    set_parsing_settings(
        config_read_mode_urls_enabled=False,
        config_read_mode_fsspec_enabled=False,  # which LightningCLI turns on
        instantiate_subclass_spec_in_any=False,
        import_path_denylist=["*", *before, *(module for module, may in allowed.OPEN.items() if not may)],
        import_path_allowlist=[*(module for module, may in allowed.OPEN.items() if may), *ours(), *names],
    )


def ours() -> list[str]:
    """Every name of what the library offers, imported so that short names are found."""
    values = [getattr(importlib.import_module(module), name) for module, names in EXPORTS.items() for name in names]
    return [path for value in values for path in paths(value)]
