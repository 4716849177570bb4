"""The arguments of the verbs that train nothing: no abbreviations, and mistakes answered in one line."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import NoReturn

CHOICES = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)")
UNKNOWN = re.compile(r"unrecognized arguments: (--?[\w-]+)")

PACKAGES = "--allow"
PACKAGES_HELP = "a package whose classes the checkpoint may name, in the working directory or installed"


class Arguments(argparse.ArgumentParser):
    """``python -m zoo VERB``; the lines of ``epilog`` stay as they are."""

    def __init__(self, verb: str, description: str | None, epilog: str | None = None):
        super().__init__(
            f"python -m zoo {verb}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        if found := CHOICES.search(message):
            known = re.findall(r"[\w-]+", found[2])
            message = f"there is no '{found[1]}'" + near(found[1], known, f"; there is {', '.join(known)}")
        elif found := UNKNOWN.search(message):
            message = f"there is no argument '{found[1]}'" + near(found[1], list(self._option_string_actions), "")
        print(f"zoo: error: {message} ('{self.prog} --help' says more)", file=sys.stderr)
        raise SystemExit(2)


def near(word: str, known: list[str], otherwise: str) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else otherwise
