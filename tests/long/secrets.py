"""``python -m tests.long.secrets``: passwords and keys wherever a run could meet them, an offline W&B run, and a search
of every byte that it left."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conftest import DIGITS
from tests.long.process import run
from tests.long.report import Report

PART = '''
import lightning.pytorch as pl


class Notify(pl.Callback):
    """A part of the user's own that needs to be let in somewhere."""

    def __init__(self, url: str = "", api_key: str = "", password: int = 0, options: dict | None = None):
        self.told = url, api_key, password, options
'''
CANARIES = {  # where it is -> the secret itself
    "a key on the command line": "CANARY-argv-key-1",
    "a key in a config on the command line": "CANARY-inline-key-2",
    "a password in an address": "CANARY-url-password-3",
    "a key in the address itself": "CANARY-url-query-4",
    "a password below a key that says so": "CANARY-nested-5",
    "a number": "600013060006",
    "a value of the environment that a label repeats": "CANARY-environment-7",
    "the key of W&B": "CANARYwandb8" + "8" * 28,
    "a note to W&B": "hf_CANARYnote9999999999999",
    "the address of the git repository": "CANARY-git-remote-10",
}


def plant(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Files in a folder; the words of a run that meets every secret, and its environment."""
    secret = list(CANARIES.values())
    (folder / "digits.yaml").write_text(DIGITS)
    (folder / "notify.py").write_text(PART)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (
        ["init", "-q"],
        ["remote", "add", "origin", f"https://me:{secret[9]}@example.org/x.git"],
        ["add", "digits.yaml"],
        ["commit", "-qm", "a"],
    ):
        subprocess.run([*git, *command], check=True)
    labels = ",".join([secret[6], *"bcdefghij"])
    options = f"{{database: {{password: {secret[4]}}}, credentials: [{{user: {secret[4]}}}]}}"
    words = [
        *("fit", "--config", "digits", "--config", "logger/wandb", "--allow", "notify"),
        "--trainer.callbacks+=notify.Notify",
        f"--trainer.callbacks.api_key={secret[0]}",
        f"--trainer.callbacks.url=https://me:{secret[2]}@example.org/x?api_key={secret[3]}&page=1",
        f"--trainer.callbacks.password={secret[5]}",
        f"--trainer.callbacks.options={options}",
        f"--config={{trainer: {{callbacks+: [{{class_path: notify.Notify, init_args: {{api_key: {secret[1]}}}}}]}}}}",
        f"--trainer.logger.notes=told by {secret[8]}",
        f"--trainer.logger.tags=[a, '{secret[6]}']",
        f"--model.labels=[{labels}]",
    ]
    return words, {"WANDB_MODE": "offline", "WANDB_API_KEY": secret[7], "MY_ACCESS_TOKEN": secret[6]}


def found(folder: Path) -> dict[str, list[str]]:
    """The files that a run left which hold a secret, by where the secret was."""
    left = [path for name in ("runs", "wandb") for path in (folder / name).rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in left) and any(path.suffix == ".ckpt" for path in left)
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in left}
    holding = {
        what: [name for name, content in contents.items() if secret.encode() in content]
        for what, secret in CANARIES.items()
    }
    return {what: names for what, names in holding.items() if names}


def main(argv: list[str] | None = None) -> int:
    argparse.ArgumentParser(prog="python -m tests.long.secrets", description=__doc__).parse_args(argv)
    report = Report("secrets through an offline W&B run")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words, environment = plant(folder)
        code = run(words, folder, folder / "said.txt", {**os.environ, **environment})
        said = (folder / "said.txt").read_text()
        report.row("exit code", code, 0)
        if code:
            print(said)
            return report.close()
        places = found(folder)
        for what in CANARIES:
            report.row(what, ", ".join(places.get(what, [])) or "nowhere", "nowhere")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
