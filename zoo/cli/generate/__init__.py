"""``generate``: a checkpoint writes on from prompts, or about them: text, images and sound."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from zoo.cli.arguments import near
from zoo.cli.configs import is_run
from zoo.cli.errors import UserError, guarded, quiet
from zoo.cli.generate.flags import arguments, refusal
from zoo.cli.waiting import waiting


def main(argv: list[str]) -> int:
    parser = arguments()
    options = parser.parse_args(argv[1:])
    wrong = refusal(options)
    if wrong:
        parser.error(wrong)
    quiet()
    return guarded(lambda: generate(options))


def generate(options: argparse.Namespace) -> None:
    """Raises UserError."""
    require_present(options)
    with waiting("loading torch"):
        from zoo.cli.generate.job import job
    try:
        job(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read this has enough, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def same(one: str, other: str) -> bool:
    """Do both name one file?  - is none."""
    return "-" not in (one, other) and Path(one).resolve() == Path(other).resolve()


def require_present(options: argparse.Namespace) -> None:
    """Raise UserError where a file or folder that is named is not there."""
    if options.run is not None and not is_run([options.run]):
        raise UserError(missing_run(options.run))
    if options.published is not None and is_run([options.published]):
        raise UserError(f"{options.published} is a run and no published checkpoint; give it without --from")
    files = [options.ckpt_path, *(options.image or []), *(options.audio or [])]
    if options.file != "-":
        files.append(options.file)
    for file in files:
        if file is not None and not Path(file).is_file():
            raise UserError(f"no file {file}")
    if None not in (options.file, options.out) and same(options.file, options.out):
        raise UserError(f"--out={options.out} would be written over the prompts; give another name")
    if options.out not in (None, "-") and not Path(options.out).absolute().parent.is_dir():
        raise UserError(f"--out={options.out}: there is no folder {Path(options.out).parent}")


def missing_run(run: str) -> str:
    path = Path(run)
    if path.is_file() and path.suffix == ".ckpt":
        return f"{run} is a checkpoint and no run; give it as --ckpt_path {run}"
    if (path / "config.json").is_file():
        return f"{run} is a published checkpoint and no run; give it as --from {run}"
    if path.exists():
        return f"{run} is no run: it has no config.yaml"
    known = sorted(str(file.parent) for file in path.parent.glob("*/config.yaml"))
    begun = [name for name in known if name.startswith(run)]
    return f"there is no run '{run}'" + (f"; did you mean '{begun[-1]}'?" if begun else near(run, known, ""))
