"""Finds a config by its name: in the current directory first, then among those that come with the library."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
PLACES = (PACKAGE / "configs", PACKAGE.parent / "configs")  # an installed wheel, a checkout
STAMP = re.compile(r"(-(validate|test|predict))?-\d{8}-\d{6}(-\d+)?$")  # what a run adds to its config's name


def shipped() -> dict[str, Path]:
    """Name, such as ``vit_cifar`` or ``trainer/gpu`` -> file."""
    for place in PLACES:
        if place.is_dir():
            return {path.relative_to(place).with_suffix("").as_posix(): path for path in sorted(place.rglob("*.yaml"))}
    return {}


def resolve(value: str) -> str:
    """A path, or a name with or without ``.yaml``, -> the path; YAML text passes through.  Raises ValueError."""
    if "\n" in value or value.startswith("{") or Path(value).is_file():
        return value
    if Path(value + ".yaml").is_file():
        return value + ".yaml"
    known = shipped()
    name = value.removesuffix(".yaml").removesuffix(".yml").removeprefix("configs/")
    if name in known:
        return str(known[name])
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else "'python -m zoo list configs' shows them."
    raise ValueError(f"no config file '{value}' here, and none of that name comes with the library; {hint}")


def expand_run(argv: list[str]) -> list[str]:
    """``test runs/NAME`` -> its config and best checkpoint; ``fit runs/NAME`` goes on from its last one."""
    if len(argv) < 2 or not (Path(argv[1]) / "config.yaml").is_file():
        return argv
    run = Path(argv[1])
    found = checkpoint(run, *(("last", "best") if argv[0] == "fit" else ("best", "last")))
    return [argv[0], f"--config={run / 'config.yaml'}", *([f"--ckpt_path={found}"] if found else []), *argv[2:]]


def checkpoint(run: Path, *names: str) -> Path | None:
    """The first of a run's checkpoints by these names that exists."""
    return next((path for path in (run / "checkpoints" / f"{name}.ckpt" for name in names) if path.exists()), None)


def named(argv: list[str]) -> list[str]:
    """The values of ``--config`` and ``-c`` in a command line, in order."""
    found = [argv[i + 1] for i, word in enumerate(argv[:-1]) if word in ("-c", "--config")]
    return found + [word.split("=", 1)[1] for word in argv if word.startswith(("--config=", "-c="))]


def title(argv: list[str], default: str) -> str:
    """What a run with this command line is called: its first config, or the config that its first config came from."""
    for value in named(argv):
        path = Path(value)
        if "\n" in value or value.startswith("{") or path.parent.name in ("trainer", "logger"):
            continue
        return STAMP.sub("", path.absolute().parent.name) if path.name == "config.yaml" else path.stem
    return default
