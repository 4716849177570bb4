"""``fit`` and its kin: runs, their directories, and going on with one."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

import zoo
from zoo.callbacks import Compile
from zoo.cli import facts
from zoo.secrets import on_command_line, without_secrets

FIT = ("fit", "--config", "digits")


def runs(pattern: str = "*") -> list[Path]:
    return sorted(Path("runs").glob(pattern))


def test_a_run_has_one_directory_that_can_be_tested_and_resumed(command):
    answer = command(*FIT)
    assert answer.code == 0, answer.err
    assert "best val/accuracy" in answer.out
    (run,) = runs()
    assert run.name.startswith("digits-")
    assert {path.name for path in run.iterdir()} == {
        "checkpoints",
        "config.yaml",
        "metrics.csv",
        "pictures",
        "summary.json",
    }
    assert (run / "pictures" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    header = (run / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"train/loss", "val/loss", "val/accuracy", "samples_per_s", "tokens_per_s", "lr"} <= set(header)
    assert header[:6] == ["epoch", "step", "samples", "tokens", "seconds", "flops"]
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["model"]["class_path"] == "zoo.Classify"
    assert "classes" not in saved["model"]["init_args"]

    config, checkpoint = str(run / "config.yaml"), str(run / "checkpoints" / "best.ckpt")
    tested = command("test", str(run))  # short for the same --config and --ckpt_path
    assert tested.code == 0, tested.err
    assert "test/accuracy" in tested.out and len(runs("digits-test-*")) == 1
    resumed = command("fit", "--config", config, "--ckpt_path", checkpoint, "--trainer.max_epochs=2")
    assert resumed.code == 0, resumed.err
    assert len(runs("digits-2*")) == 2


def test_scores_are_readable_and_pictures_say_the_checkpoints_step(command):
    assert command(*FIT, "--trainer.default_root_dir=elsewhere").code == 0
    (run,) = Path("elsewhere").glob("digits-*")
    validated = command("validate", str(run))
    assert re.search(r"^val/accuracy +0\.\d{1,4}$", validated.out, re.MULTILINE)
    (other,) = Path("elsewhere").glob("digits-validate-*")
    assert {path.name for path in (other / "pictures").iterdir()} == {
        "confusion-step000002.png",
        "samples-step000002.png",
    }
    assert not runs()


def test_the_same_command_twice_makes_two_directories(command, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")  # even within a second
    assert command(*FIT).code == command(*FIT).code == 0
    assert [run.name for run in runs()] == ["digits-20260101-000000", "digits-20260101-000000-2"]


def test_verb_may_stand_last_and_configs_compose(command):
    Path("more.yaml").write_text("model: {init_args: {backbone: {init_args: {depth: 3}}}}\ntrainer: {max_epochs: 2}\n")
    words = ("--config", "digits", "--config", "more", "--config", "trainer/bf16.yaml", "--trainer.max_epochs=1", "fit")
    answer = command(*words)
    assert answer.code == 0, answer.err
    saved = yaml.safe_load((runs()[0] / "config.yaml").read_text())
    assert saved["model"]["init_args"]["backbone"]["init_args"]["depth"] == 3
    assert (saved["trainer"]["precision"], saved["trainer"]["max_epochs"]) == ("bf16-mixed", 1)


def test_classes_follow_from_the_data_unless_given(command):
    said = command(*FIT, "--model.classes=12", "--trainer.max_steps=1")
    assert said.code == 0 and "204" in said.out  # 12 x (16 + 1) parameters in the head
    saved = yaml.safe_load((runs()[0] / "config.yaml").read_text())
    assert saved["model"]["init_args"]["classes"] == 12
    assert command(*FIT, "--data.label=null").err.count("\n") <= 2


def test_a_task_without_classes_takes_data_with_classes(command):
    Path("masked.yaml").write_text(Path("digits.yaml").read_text().replace("Classify", "MaskedLM"))
    answer = command("fit", "--config", "masked")
    assert answer.code == 0, answer.err


def test_a_part_of_the_users_own_drops_into_a_slot(command):
    Path("own_part.py").write_text(
        "import torch\nfrom zoo.nn import FeedForward\n\n\n"
        "class Swish(FeedForward):\n"
        "    def __init__(self, dim: int, width: int = 8):\n"
        "        super().__init__()\n"
        "        self.up, self.down = torch.nn.Linear(dim, width), torch.nn.Linear(width, dim)\n\n"
        "    def forward(self, x, ctx, state=None):\n"
        "        return self.down(torch.nn.functional.silu(self.up(x)))\n"
    )
    config = yaml.safe_load(Path("digits.yaml").read_text())
    block = {"mixer": {"class_path": "Attention", "init_args": {"heads": 2}}, "ffn": {"class_path": "own_part.Swish"}}
    config["model"]["init_args"]["backbone"] = {
        "class_path": "Backbone",
        "init_args": {"dim": 16, "depth": 2, "block": {"class_path": "Block", "init_args": block}},
    }
    Path("own.yaml").write_text(yaml.safe_dump(config))
    allow = ("--allow", "own_part")
    answer = command("fit", "--config", "own", *allow)
    assert answer.code == 0, answer.err
    (run,) = runs()
    last = str(run / "checkpoints/last.ckpt")
    tested = command("test", "--config", str(run / "config.yaml"), "--ckpt_path", last, *allow)
    assert tested.code == 0, tested.err


def test_processes_of_a_run_share_its_directory(command, tmp_path):
    words = [*FIT, "--trainer.strategy=ddp", "--trainer.devices=2"]
    place = {**os.environ, "PYTHONPATH": str(Path(zoo.__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, "-m", "zoo", *words], capture_output=True, text=True, timeout=120, env=place)
    assert done.returncode == 0, done.stderr
    assert len(runs()) == 1 and (runs()[0] / "checkpoints" / "last.ckpt").is_file()


def test_compiled_blocks_keep_their_names():
    model = zoo.ViT(dim=8, depth=2, heads=2, grid=2)
    names = set(model.state_dict())
    Compile().on_fit_start(None, model)
    assert all(block._compiled_call_impl is not None for block in model.blocks)
    assert set(model.state_dict()) == names


def test_a_tokenizer_is_trained_from_files(command):
    Path("text.txt").write_text("the cat sat on the mat\n" * 50)
    answer = command("train-tokenizer", "text.txt", "--vocabulary", "300", "--out", "own.json")
    assert answer.code == 0 and Path("own.json").is_file(), answer.err
    tokenizer = zoo.BPE("own.json")
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"
    assert "nowhere.txt" in command("train-tokenizer", "nowhere.txt").err


def rows(run: Path) -> list[dict[str, str]]:
    with open(run / "metrics.csv") as file:
        return list(csv.DictReader(file))


def test_a_run_that_is_gone_on_with_stays_one_run(command):
    """What is typed wins over what the checkpoint remembers: here the learning rate and the patience."""
    stop = ("--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=val/loss")
    words = (*stop, "--model.optimizer.lr=0.01", "--model.schedule=Constant", "--model.schedule.warmup=0")
    assert command(*FIT, *words, "--trainer.callbacks.patience=3").code == 0
    (run,) = runs()
    before = rows(run)
    more = ("--model.optimizer.lr=0.002", "--trainer.max_epochs=2", "--trainer.callbacks.patience=7")
    answer = command("fit", str(run), *more)
    assert answer.code == 0, answer.err
    assert runs() == [run]
    after = rows(run)
    assert after[: len(before)] == before and len(after) == 2 * len(before)
    assert [int(float(row["samples"])) for row in after if row["lr"]] == [16, 32, 48, 64]
    assert [int(row["step"]) for row in after] == [1, 2, 2, 3, 4, 4]  # steps taken; the third and last are validations
    assert [float(row["lr"]) for row in after if row["lr"]] == pytest.approx([0.01, 0.01, 0.002, 0.002])
    assert "patience: 7" in (run / "config.yaml").read_text()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["state"] == "finished" and summary["verb"] == "fit"


def test_the_last_checkpoint_is_of_the_last_step(command):
    """Also where the last validation was long ago, or there was none."""
    assert command(*FIT, "--trainer.max_epochs=3", "--trainer.check_val_every_n_epoch=2").code == 0
    assert (
        command(*FIT, "--trainer.max_steps=3", "--trainer.max_epochs=9", "--trainer.check_val_every_n_epoch=9").code
        == 0
    )
    steps = [torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] for run in runs()]
    assert steps == [6, 3]


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_a_checkpoint_that_was_cut_off_is_named(verb, command):
    assert command(*FIT).code == 0
    (run,) = runs()
    path = run / "checkpoints" / "best.ckpt"
    path.write_bytes(path.read_bytes()[:3000])
    answer = command(verb, str(run), "--ckpt_path", str(path))
    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith(f"zoo: error: {path} is no checkpoint, or was cut off")


def test_a_run_that_had_ended_says_so_and_stays_as_it_was(command):
    assert command(*FIT).code == 0
    (run,) = runs()
    before = {path.name: path.read_bytes() for path in run.glob("*.*")}
    answer = command("fit", str(run))
    assert answer.code == 0 and "nothing to do: step 2 is the end" in answer.out
    assert {path.name: path.read_bytes() for path in run.glob("*.*")} == before


def test_patience_is_what_was_typed(command, monkeypatch):
    seen = []
    monkeypatch.setattr("zoo.tasks.Classify.on_train_epoch_end", lambda self: seen.append(self.trainer), raising=False)
    stop = ("--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=val/loss")
    assert command(*FIT, *stop, "--trainer.callbacks.patience=3").code == 0
    assert command("fit", str(runs()[0]), "--trainer.max_epochs=2", "--trainer.callbacks.patience=7").code == 0
    assert [trainer.early_stopping_callback.patience for trainer in seen] == [3, 7]


def test_weights_that_do_not_fit_are_refused_with_both_values_and_leave_no_trace(command):
    assert command(*FIT).code == 0
    (run,) = runs()
    config = (run / "config.yaml").read_text()
    answer = command("fit", str(run), "--model.backbone.dim=32", "--model.optimizer.lr=0.3")
    assert answer.code == 1
    assert "model.backbone.dim=32, and it was saved with 16" in answer.err and "lr" not in answer.err
    assert (run / "config.yaml").read_text() == config


def test_a_run_says_what_it_was_made_with(command):
    assert command(*FIT).code == 0
    (run,) = runs()
    summary = json.loads((run / "summary.json").read_text())
    task = zoo.Classify.load_from_checkpoint(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert summary["parameters"] == summary["trainable_parameters"] == sum(p.numel() for p in task.parameters())
    assert summary["data_fingerprint"] == zoo.Images().fingerprint
    assert summary["versions"]["torch"] == torch.__version__ and summary["processes"] == 1
    flops = [float(row["flops"]) / float(row["samples"]) for row in rows(run)]
    assert flops == pytest.approx([summary["flops_per_sample"]] * len(flops))
    assert summary["state"] == "finished" and summary["monitor"] == "val/accuracy" and summary["git"] is None


def test_the_revision_is_that_of_the_working_directory(command, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b")
    for words in (["init", "-q"], ["add", "digits.yaml"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert facts.revision() == head[:10]
    Path("digits.yaml").write_text("changed: 1\n")
    assert facts.revision() == head[:10] + "+changes"


def test_a_run_that_fails_says_so(command, monkeypatch):
    def broken(self, *rest):
        raise ValueError("the data are gone")

    monkeypatch.setattr("zoo.tasks.Classify.on_train_epoch_start", broken, raising=False)
    assert command(*FIT).code == 1
    assert json.loads((runs()[0] / "summary.json").read_text())["state"] == "failed"


def test_secrets_are_not_written_down(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    config = {
        "api_key": "x",
        "tokenizer": {"pad_token": "[PAD]", "file": "docs-2048"},
        "root": "s3://user:pw@host/path",
        "note": ["uses hf_abcdefgh"],
        "hf_token": None,
    }
    assert without_secrets(config) == {
        "api_key": "(hidden)",
        "tokenizer": {"pad_token": "[PAD]", "file": "docs-2048"},
        "root": "s3://(hidden)@host/path",
        "note": ["(hidden)"],
        "hf_token": None,
    }


def test_secrets_on_the_command_line_are_seen(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    for words in (["--data.api_key=x"], ["--data.api_key", "x"], ["--root=s3://a:b@c"], ["--labels=[hf_abcdefgh]"]):
        assert on_command_line(["fit", *words]), words
    assert not on_command_line(
        ["fit", "--config", "vit_digits", "--model.tokenizer.pad_token=[PAD]", "--data.root=a@b"]
    )
