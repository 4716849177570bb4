"""The command line: runs, their directories, what W&B gets, and what is said about mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import zoo
from zoo.callbacks import Compile

FIT = ("fit", "--config", "digits")


def runs(pattern: str = "*") -> list[Path]:
    return sorted(Path("runs").glob(pattern))


# ---- without torch


def test_help_list_and_version_do_not_import_torch():
    code = "import sys; from zoo.__main__ import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    for words in (["--help"], ["list"], ["list", "families", "vit"], ["--version"]):
        out = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
        assert out.splitlines()[-1] == "False", words


def test_list_shows_configs_and_classes(command):
    families = command("list", "families")
    assert "ViT" in families.out and "Dosovitskiy" in families.out and "GPT2" in families.out
    assert "trainer/gpu" in command("list", "configs").out
    filtered = command("list", "families", "gpt").out
    assert "GPT2" in filtered and "ViT" not in filtered


def test_unknown_verb_gets_a_suggestion(command):
    answer = command("fitt")
    assert answer.code == 2 and "did you mean 'fit'?" in answer.err


# ---- runs


def test_a_run_has_one_directory_that_can_be_tested_and_resumed(command):
    answer = command(*FIT)
    assert answer.code == 0, answer.err
    assert "best val/accuracy" in answer.out
    (run,) = runs()
    assert run.name.startswith("digits-")
    assert {path.name for path in run.iterdir()} == {"config.yaml", "metrics.csv", "checkpoints"}
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    header = (run / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"train/loss", "val/loss", "val/accuracy", "samples_per_s", "tokens_per_s", "lr"} <= set(header)
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
    answer = command("fit", "--config", "own")
    assert answer.code == 0, answer.err
    (run,) = runs()
    tested = command("test", "--config", str(run / "config.yaml"), "--ckpt_path", str(run / "checkpoints/last.ckpt"))
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


# ---- W&B


def test_wandb_gets_the_whole_config_each_time(command):
    pytest.importorskip("wandb")
    for lr in ("0.01", "0.02"):
        answer = command(*FIT, "--trainer.logger=WandbLogger", f"--model.optimizer.lr={lr}")
        assert answer.code == 0, answer.err
    folders = sorted(Path("wandb").glob("offline-run-*"), key=lambda path: path.stat().st_mtime)
    assert len(folders) == len(runs()) == 2
    found = []
    for folder in folders:
        inspect = [Path(sys.executable).parent / "wandb", "leet", "inspect", "--summary", "--json", folder]
        record = json.loads(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)
        saved = yaml.safe_load((Path(record["config"].pop("run_directory")) / "config.yaml").read_text())
        assert record["config"] == saved
        assert record["name"] in {run.name for run in runs()}
        assert "max" in record["summary"]["val/accuracy"]
        found.append(record["config"]["model"]["init_args"]["optimizer"]["init_args"]["lr"])
    assert found == [0.01, 0.02]


def test_wandb_without_a_key_says_what_to_do(command, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setenv("NETRC", str(Path.cwd() / "netrc"))
    answer = command(*FIT, "--trainer.logger=WandbLogger")
    assert answer.code == 1 and "wandb login" in answer.err and "Traceback" not in answer.err
    assert not runs()


# ---- mistakes

BACKBONE = "model: {init_args: {backbone: %s}}"
MISTAKES = {  # what is written in a second config -> what must be said
    "trainer: {max_epoch: 1}": ("bad.yaml:1", "'max_epoch'", "'max_epochs'"),
    "\nmodle: {class_path: Classify}": ("bad.yaml:2", "'modle'", "'model'"),
    BACKBONE % "{init_args: {dimm: 8}}": ("bad.yaml:1", "ViT", "'dimm'", "'dim'"),
    BACKBONE % "{class_path: ViTT}": ("bad.yaml:1", "'ViTT'", "'ViT'"),
    BACKBONE % "{init_args: {heads: 5}}": ("heads=5", "16"),
    BACKBONE % "{init_args: {depth: two}}": ("depth", "int", "'two'"),
    "model: {init_args: {optimizer: {class_path: AdamW, init_args: {learning_rate: 1}}}}": ("'learning_rate'", "'lr'"),
    "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {moniter: x}}]}": ("'moniter'", "'monitor'"),
    "trainer: {callbacks: [{class_path: EarlyStoping}]}": ("'EarlyStoping'", "'EarlyStopping'"),
    "trainer: {max_epochs: two}": ("trainer.max_epochs", "int", "'two'"),
    "trainer: {max_epochs: 1}\ntrainer: {max_epochs: 2}": ("bad.yaml:2", "'trainer'", "twice"),
    "trainer: {max_epochs: [1": ("bad.yaml:1", "not YAML"),
    "data: {init_args: {root: nowhere}}": ("nowhere",),
    "data: {init_args: {batchsize: 3}}": ("Images", "'batchsize'", "'batch_size'"),
    "trainer: {strategy: dpp}": ("dpp",),
}


@pytest.mark.parametrize("text", MISTAKES, ids=[text.strip()[:40] for text in MISTAKES])
def test_a_mistake_in_a_config_is_told_in_one_line(command, text):
    Path("bad.yaml").write_text(text)
    answer = command(*FIT, "--config", "bad.yaml")
    assert_told(answer, MISTAKES[text])


FLAGS = {
    ("--config", "digitz"): ("'digitz'",),
    ("--config", "trainer/gpuu"): ("'trainer/gpu'",),
    ("--config", "digits", "--model.backbone.depht=1"): ("'depht'", "'depth'"),
    ("--config", "digits", "--trainer.max_epoch=1"): ("'max_epoch'", "'max_epochs'"),
    ("--config", "digits", "--data", "Imagess"): ("'Imagess'", "'Images'"),
    ("--config", "digits", "--ckpt_path", "none.ckpt"): ("none.ckpt",),
    ("digits",): ("'digits'", "--config digits"),
    (): ("--model", "--config"),
}


@pytest.mark.parametrize("words", FLAGS, ids=[" ".join(words) for words in FLAGS])
def test_a_mistake_in_a_flag_is_told_in_one_line(command, words):
    assert_told(command("fit", *words), FLAGS[words])


def assert_told(answer, names):
    lines = [line for line in answer.err.splitlines() if line and not line.startswith("Restoring")]
    assert answer.code in (1, 2)
    assert len(lines) <= 3 and lines[-1].startswith("zoo: error: "), answer.err
    assert all(name in lines[-1] for name in names), answer.err
    assert not runs() or answer.code == 1


def test_a_bug_keeps_its_traceback(command, monkeypatch):
    def broken(self, batch, training):
        raise AssertionError("ours")

    monkeypatch.setattr("zoo.tasks.Classify.step", broken)
    with pytest.raises(AssertionError, match="ours"):
        command(*FIT)


def test_an_error_in_a_worker_is_its_last_line(command):
    Path("images").mkdir()
    for name in ("a", "b"):
        (Path("images") / name).mkdir()
        (Path("images") / name / "broken.png").write_bytes(b"no image")
    answer = command(*FIT, "--data.root=images", "--data.workers=1", "--data.val=0")
    assert answer.code == 1 and "broken.png" in answer.err.splitlines()[-1] and "Traceback" not in answer.err
