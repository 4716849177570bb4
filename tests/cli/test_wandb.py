"""What Weights & Biases gets, read back from its offline files: two runs that differ in the learning rate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import zoo
from zoo.runs import Run, read

wandb = pytest.importorskip("wandb")
WANDB = ("fit", "--config", "digits", "--config", "logger/wandb.yaml")
AXES = {"samples", "tokens", "seconds", "flops"}


def flat(value, name=""):
    if not isinstance(value, dict):
        return {name: value}
    return {key: item for inner in value for key, item in flat(value[inner], f"{name}.{inner}").items()}


def recorded() -> list[Run]:
    """What is in the files once W&B's own process has ended, as it does with ours."""
    wandb.teardown()
    return read("wandb")


def folders() -> list[Path]:
    return sorted(Path("wandb").glob("offline-run-*"))


def test_two_runs_differ_in_what_was_changed_and_in_nothing_else(command):
    for lr in ("0.01", "0.02"):
        answer = command(
            *WANDB, f"--model.optimizer.lr={lr}", "--trainer.logger.group=rates", "--trainer.logger.tags=[a]"
        )
        assert answer.code == 0, answer.err
        assert "W&B, offline: wandb sync wandb/offline-run-" in answer.out and "wandb:" not in answer.err
    found = recorded()
    assert len(found) == len(folders()) == 2
    configs = [flat(run.config) for run in found]
    differing = {key for key in configs[0] | configs[1] if configs[0].get(key) != configs[1].get(key)}
    assert differing == {".model.init_args.optimizer.init_args.lr"}
    for run, path in zip(found, sorted(Path("runs").iterdir())):
        assert run.config == yaml.safe_load((path / "config.yaml").read_text())
        assert run.name == path.name
        assert run.summary["group"] == "rates" and run.summary["tags"] == ["a"] and run.summary["job_type"] == "fit"
        kept = read(path)[0].summary
        assert kept.pop("wandb_id") in {folder.name.split("-")[-1] for folder in folders()}
        assert {key: run.summary[key] for key in kept} == kept
        assert "max" in run.summary["val/accuracy"] and "min" in run.summary["val/loss"]
        scored = [(row["step"], row["val/loss"]) for row in run.metrics if "val/loss" in row]
        assert scored == [(row["step"], row["val/loss"]) for row in read(path)[0].metrics if "val/loss" in row]
        for name in ("train/loss", "val/loss", "val/accuracy"):
            (row,) = [row for row in run.metrics if name in row][-1:]
            assert row.keys() >= AXES
    for folder in folders():
        assert list(folder.glob("files/media/images/pictures/curves*.png"))


def test_a_run_that_is_gone_on_with_is_the_same_run(command):
    assert command(*WANDB).code == 0
    (path,) = Path("runs").iterdir()
    assert command("fit", str(path), "--trainer.max_epochs=2").code == 0
    (run,) = recorded()
    assert len({folder.name.split("-")[-1] for folder in folders()}) == 1
    assert [row["samples"] for row in run.metrics if "train/loss" in row] == [16, 32, 48, 64]


def test_two_processes_are_one_run(command):
    place = {**os.environ, "PYTHONPATH": str(Path(zoo.__file__).resolve().parent.parent)}
    words = [*WANDB, "--trainer.strategy=ddp", "--trainer.devices=2"]
    done = subprocess.run([sys.executable, "-m", "zoo", *words], capture_output=True, text=True, env=place)
    assert done.returncode == 0, done.stderr
    (run,) = recorded()
    assert run.summary["processes"] == 2
    assert [row["samples"] for row in run.metrics if "train/loss" in row] == [32, 64]


def test_without_a_key_the_run_is_recorded_offline_and_the_user_told(command, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setenv("NETRC", str(Path.cwd() / "netrc"))
    answer = command("fit", "--config", "digits", "--trainer.logger=WandbLogger")
    assert answer.code == 0, answer.err
    (line,) = [line for line in answer.err.splitlines() if "W&B" in line]
    assert "wandb login" in line and "WANDB_MODE=offline" in line
    assert len(recorded()) == 1


def test_a_secret_on_the_command_line_does_not_reach_it(command, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    labels = ",".join(["hf_abcdefgh", *"bcdefghij"])
    monkeypatch.setattr(sys, "argv", ["zoo"])
    assert command(*WANDB, f"--model.labels=[{labels}]").code == 0
    wandb.teardown()
    written = [path for place in ("wandb", "runs") for path in Path(place).rglob("*") if path.is_file()]
    assert written and not [path for path in written if b"hf_abcdefgh" in path.read_bytes()]
