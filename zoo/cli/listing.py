"""``list``: what the library contains, as tables."""

from __future__ import annotations

from rich.text import Text

from zoo.cli.arguments import Arguments, near
from zoo.cli.tables import console, titled
from zoo.listing import ALL, rows

COLUMNS = {
    "configs": ("", "what", "measured"),
    "sweeps": ("", "what", "for 'wandb sweep'"),
    "families": ("", "what", "sizes (parameters)"),
}


def main(argv: list[str]) -> int:
    parser = Arguments("list", "What the library contains.")
    parser.add_argument("kind", nargs="?", default="", help=f"{', '.join(ALL)}; any other word is a filter")
    parser.add_argument("filter", nargs="?", default="", help="show what contains these letters")
    options = parser.parse_args(argv[1:])
    kinds, letters = ([options.kind], options.filter) if options.kind in ALL else (ALL, options.kind)
    if options.kind not in ALL and options.filter:
        parser.error(f"there is no kind '{options.kind}'" + near(options.kind, list(ALL), ""))
    sheet, empty = console(), True
    for kind in kinds:
        found = [row for row in rows(kind) if letters.lower() in " ".join(row).lower()]
        if not found:
            continue
        table, empty = titled(kind, *COLUMNS.get(kind, ("", "what"))), False
        for row in found:
            table.add_row(*map(Text, row))
        sheet.print(table)
        sheet.print()
    if empty:
        names = {row[0] for kind in kinds for row in rows(kind)}
        parser.error(f"nothing contains '{letters}'" + near(letters, sorted(names), ""))
    return 0
