"""``--ckpt_path last``: the newest good checkpoint of the run, or of the newest run of that name."""

import os
import shutil
from pathlib import Path

from zoo.checkpoints import read_checkpoint
from zoo.cli import last, run


def checkpoints(folder: Path) -> dict[str, int]:
    return {path.name: read_checkpoint(path)["global_step"] for path in folder.glob("checkpoints/*.ckpt")}


def test_a_run_goes_on_past_a_torn_checkpoint_and_says_so(command):
    assert command("fit", "--config", "digits").code == 0
    (folder,) = Path("runs").iterdir()
    torn = folder / "checkpoints" / "last.ckpt"
    os.truncate(torn, torn.stat().st_size // 2)
    answer = command("fit", str(folder), "--trainer.max_epochs=2")
    assert answer.code == 0, answer.err
    assert f"zoo: {torn} is no checkpoint, or was cut off -- passed by" in answer.err
    assert f"zoo: going on from {folder}/checkpoints/best.ckpt" in answer.err
    assert checkpoints(folder)["last.ckpt"] == 4


def test_the_newest_run_of_the_name_goes_on_in_place(command):
    command("fit", "--config", "digits")
    (first,) = Path("runs").iterdir()
    newer = first.with_name("digits-29991231-235959")
    shutil.copytree(first, newer)
    command("test", str(newer))  # leaves a directory of its own, which is no training
    answer = command("fit", "--config", "digits", "--ckpt_path", "last", "--trainer.max_epochs=2")
    assert answer.code == 0, answer.err
    assert checkpoints(newer)["last.ckpt"] == 4 and checkpoints(first)["last.ckpt"] == 2
    assert len(list(Path("runs").glob("digits-2*"))) == 2


def test_where_there_is_none_training_begins(command):
    answer = command("fit", "--config", "digits", "--ckpt_path=last")
    assert answer.code == 0, answer.err
    assert "zoo: there is no checkpoint of digits in runs yet: training begins" in answer.err
    assert len(list(Path("runs").iterdir())) == 1


def test_a_run_without_a_checkpoint_is_passed_by(command):
    command("fit", "--config", "digits")
    (first,) = Path("runs").iterdir()
    Path("runs/digits-29991231-235959").mkdir()
    assert last.find("digits", Path("runs"), "validate").parent.parent == first
    assert run.SHARED not in os.environ  # an evaluation has a directory of its own
