"""``list``: what the library contains, as tables."""

from __future__ import annotations

import argparse

from rich.text import Text

from zoo.cli.tables import console, titled
from zoo.listing import ALL, rows

COLUMNS = {
    "configs": ("", "what", "measured"),
    "sweeps": ("", "what", "for 'wandb sweep'"),
    "families": ("", "what", "sizes (parameters)"),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m zoo list", description="What the library contains.", allow_abbrev=False)
    parser.add_argument("kind", nargs="?", choices=ALL, help="one kind only")
    parser.add_argument("filter", nargs="?", default="", help="show what contains these letters")
    options = parser.parse_args(argv[1:])
    sheet = console()
    for kind in [options.kind] if options.kind else ALL:
        found = [row for row in rows(kind) if options.filter.lower() in " ".join(row).lower()]
        table = titled(kind, *COLUMNS.get(kind, ("", "what")))
        for row in found:
            table.add_row(*map(Text, row))
        sheet.print(table if found else f"{kind}: none")
        sheet.print()
    return 0
