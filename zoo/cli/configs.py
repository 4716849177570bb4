"""Finds a config by its name: in the current directory first, then among those that come with the library."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from zoo.listing import shipped

STAMP = re.compile(r"(-(validate|test|predict))?-\d{8}-\d{6}(-\d+)?$")  # what a run adds to its config's name
NULL = re.compile(r"--(model|data)\.([\w.]+)=null$")


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
    here = [path.stem for path in Path().glob("*.yaml")]
    close = difflib.get_close_matches(name, [*known, *here], n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else "'python -m zoo list configs' shows them."
    raise ValueError(f"no config file '{value}' here, and none of that name comes with the library; {hint}")


def is_run(words: list[str]) -> bool:
    """Does a command line begin with the directory of a run?"""
    return bool(words) and (Path(words[0]) / "config.yaml").is_file()


def expand_run(argv: list[str]) -> list[str]:
    """``test runs/NAME`` -> its config and best checkpoint; ``fit runs/NAME`` goes on from its last good one."""
    if not is_run(argv[1:]):
        return argv
    run = Path(argv[1])
    found = "last" if argv[0] == "fit" else checkpoint(run, "best", "last")
    return [argv[0], f"--config={run / 'config.yaml'}", *([f"--ckpt_path={found}"] if found else []), *argv[2:]]


def spell_nulls(argv: list[str]) -> list[str]:
    """``--model.tokenizer.stem=null`` -> the same as a config in a line: jsonargparse 4.53 hands the inner parsers of
    classes the word "None" instead."""
    found = []
    for word in argv:
        flag = NULL.match(word)
        if flag:
            keys = [key for key in flag[2].split(".") if key != "init_args"]
            inner = "".join(f"{{init_args: {{{key}: " for key in keys) + "null" + "}}" * len(keys)
            word = f"--config={{{flag[1]}: {inner}}}"
        found.append(word)
    return found


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
