"""``--ckpt_path last``: the newest good checkpoint of a run, or of the newest run of the same name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zoo.checkpoints import newest
from zoo.cli import configs, run

WORD = "last"


def find(name: str, root: Path, verb: str) -> Path | None:
    """The checkpoint from which to go on: of the run in whose directory this process works already, else of the newest
    run ``root/NAME-DATE-TIME`` that has one; ``fit`` then works in that run's directory.  None where there is none.

    Each file that is damaged is passed by, and told.
    """
    here = os.environ.get(run.SHARED)
    for folder in [Path(here)] if here else earlier(name, root):
        found, refused = newest(sorted((folder / "checkpoints").glob("*.ckpt")))
        for why in refused:
            tell(f"{why} -- passed by")
        if found:
            if refused:
                tell(f"going on from {found}")
            if verb == "fit":
                os.environ[run.SHARED] = str(folder)
            return found
    tell(f"there is no checkpoint of {here or name} in {here or root} yet: training begins")
    return None


def earlier(name: str, root: Path) -> list[Path]:
    """The runs of training of a config's name below a directory, the newest first."""
    stamps = {path: configs.STAMP.fullmatch(path.name.removeprefix(name)) for path in root.glob(f"{name}-*")}
    trained = [path for path, stamp in stamps.items() if stamp and not stamp[1]]
    return sorted(trained, key=lambda path: path.name, reverse=True)


def tell(what: str) -> None:
    if run.first():
        print(f"zoo: {what}", file=sys.stderr)
