"""W&B's offline files, written by W&B itself."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from zoo.runs import NoMetrics, read
from zoo.runs.compare import facts, settings

wandb = pytest.importorskip("wandb")


def start(folder: Path, **arguments):
    look = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    return wandb.init(mode="offline", dir=str(folder), project="zoo", settings=look, **arguments)


def finish(run) -> Path:
    """The run's own folder, once W&B's other process has written all of it."""
    path = Path(run.dir).parent
    run.finish()
    wandb.teardown()
    return path


def record(folder: Path, steps: range, lr: float = 0.1, **arguments) -> Path:
    """A run as Lightning records one; the result is its own folder."""
    run = start(folder, **arguments)
    init_args = {"lr": lr, "depth": 2}
    run.config.update({"model": {"class_path": "zoo.ViT", "init_args": init_args}, "run_directory": "runs/x"})
    run.summary["versions"] = {"torch": "2.14" if lr == 0.1 else "2.15"}
    for step in steps:
        picture = wandb.Image(np.zeros((4, 4, 3), np.uint8)) if step == steps[0] else math.nan
        run.log({"val/loss": 10.0 - step, "odd": picture, "epoch": 0, "trainer/global_step": step})
    return finish(run)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """``wandb/`` with two runs, of which the second was resumed from the step 3."""
    root = tmp_path_factory.mktemp("offline")
    record(root, range(5), name="first", id="one", tags=["a", "b"], group="g", job_type="train")
    early = record(root, range(5), lr=0.2, name="second", id="two")
    early.rename(early.with_name("offline-run-early-two"))  # a folder's name has no more than the second of its start
    record(root, range(3, 7), lr=0.2, name="second", id="two", resume="allow")
    return root / "wandb"


def test_a_run_is_read_back(folder):
    run = next(run for run in read(folder) if run.name == "first")
    assert run.points("val/loss") == ([0, 1, 2, 3, 4], [10, 9, 8, 7, 6])
    assert run.config == {
        "model": {"class_path": "zoo.ViT", "init_args": {"lr": 0.1, "depth": 2}},
        "run_directory": "runs/x",
    }
    assert run.summary["versions"] == {"torch": "2.14"} and run.summary["state"] == "finished"
    assert (run.summary["tags"], run.summary["group"], run.summary["job_type"]) == (["a", "b"], "g", "train")
    assert run.names == ["val/loss", "odd"]
    assert run.points("odd")[0] == [1, 2, 3, 4] and all(map(math.isnan, run.points("odd")[1]))


def test_one_folder_and_one_file_are_one_run(folder):
    (file,) = folder.glob("*/run-one.wandb")
    assert [run.name for path in (file, file.parent) for run in read(path)] == ["first", "first"]


def test_a_resumed_run_is_one_run_without_what_it_repeats(folder):
    runs = read(folder)
    assert [run.name for run in runs] == ["second", "first"] or [run.name for run in runs] == ["first", "second"]
    second = next(run for run in runs if run.name == "second")
    assert second.points("val/loss")[0] == [0, 1, 2, 3, 4, 5, 6]


def test_runs_are_compared_as_those_on_disk(folder):
    first, second = sorted(read(folder), key=lambda run: run.name)
    assert settings([first, second]) == {"model.init_args.lr": ["0.1", "0.2"]}
    assert facts([first, second]) == {"versions.torch": ["2.14", "2.15"]}


def test_rows_without_steps_are_counted(tmp_path):
    for part in range(2):
        run = start(tmp_path, id="same", resume="allow")
        for value in (1.0, 2.0):
            run.log({"loss": value + 10 * part})
        path = finish(run)
        path.rename(path.with_name(f"offline-run-{part}-same"))
    assert read(tmp_path / "wandb")[0].points("loss") == ([0, 1, 2, 3], [1, 2, 11, 12])


def test_a_file_that_was_cut_off_gives_what_is_whole(folder, tmp_path):
    (file,) = folder.glob("*/run-one.wandb")
    whole, copy = file.read_bytes(), tmp_path / "run-cut.wandb"
    seen = set()
    for length in range(len(whole), 7, -max(1, len(whole) // 60)):
        copy.write_bytes(whole[:length])
        try:
            seen.add(len(read(copy)[0].metrics))
        except NoMetrics:
            seen.add(0)
    assert {0, 5} <= seen <= set(range(6)) and len(seen) > 2


def test_a_record_may_be_longer_than_a_block(tmp_path):
    text = "".join(map(str, range(30_000)))
    run = start(tmp_path, config={"text": text})
    run.log({"loss": 1.0})
    (found,) = read(finish(run))
    assert len(text) > 3 * 32768 and found.config == {"text": text} and found.points("loss")[1] == [1]


def test_a_damaged_file_is_named(folder, tmp_path):
    (file,) = folder.glob("*/run-one.wandb")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    copy = tmp_path / "run-x.wandb"
    copy.write_bytes(data)
    with pytest.raises(ValueError, match=r"run-x\.wandb is damaged at byte \d+"):
        read(copy)
    copy.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"run-x\.wandb is no W&B recording"):
        read(copy)


def test_without_wandb_one_sentence_says_so(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb.proto.wandb_internal_pb2", None)
    with pytest.raises(ImportError, match=r"pip install 'lightning-zoo\[wandb\]'"):
        read(folder)
