"""Every shipped config trains a step, validates and tests; and states what it is, its command and what was measured."""

import json
import wave
from pathlib import Path

import pytest
import torch
from PIL import Image

import zoo
from zoo.checkpoints import AtomicCheckpointIO
from zoo.listing import shipped
from zoo.tasks import Task

RECIPES = {name: path for name, path in shipped().items() if "/" not in name}
PARTIAL = {"vit_cifar_cpu", "fsdd_unheard", "gpt_shakespeare_muon"}  # laid over the config whose name it begins with
SHORT = ["--trainer.fast_dev_run=1", "--trainer.enable_progress_bar=false", "--trainer.accelerator=cpu"]


def images(root: Path) -> None:
    for split in ("train", "test"):
        for number, name in enumerate(("cat", "dog", "frog")):
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(4):
                pixels = torch.randint(0, 255, (32, 32, 3), dtype=torch.uint8).numpy()
                Image.fromarray(pixels).save(folder / f"{number}{i}.jpg")


def sounds(root: Path) -> None:
    for split in ("train", "test"):
        for name in ("0", "1"):
            (root / split / name).mkdir(parents=True)
            for i in range(3):
                with wave.open(str(root / split / name / f"{i}.wav"), "wb") as file:
                    file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
                    file.writeframes(torch.randint(-9999, 9999, (4000,), dtype=torch.int16).numpy().tobytes())


def translations(root: Path) -> None:
    root.mkdir()
    for split in ("train", "val", "test_2016_flickr"):
        (root / f"{split}.en").write_text("a man\ntwo dogs run\n" * 4, encoding="utf8")
        (root / f"{split}.de").write_text("ein Mann\nzwei Hunde rennen\n" * 4, encoding="utf8")


def emoji(root: Path) -> None:
    root.mkdir()
    rows = [{"image": f"{i}.png", "text": f"face number {i}"} for i in range(8)]
    for row in rows:
        Image.fromarray(torch.randint(0, 255, (64, 64, 3), dtype=torch.uint8).numpy()).save(root / row["image"])
    (root / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def shakespeare(root: Path) -> None:
    root.write_text("First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 40, encoding="utf8")


DATA = {
    "clip_emoji": emoji,
    "vit_cifar": images,
    "vit_cifar_cpu": images,
    "vit_cifar_finetune": images,
    "fsdd": sounds,
    "fsdd_unheard": sounds,
    "multi30k": translations,
    "gpt_shakespeare": shakespeare,
    "gpt_shakespeare_muon": shakespeare,
}


@pytest.fixture
def come_back(monkeypatch, tmp_path) -> list[str]:
    """The hyper-parameters of a task that is fitted come back from a checkpoint as they were; the answer is of whom."""
    seen = []

    def on_fit_start(task: Task) -> None:
        kept = dict(task.hparams)
        AtomicCheckpointIO().save_checkpoint({"hyper_parameters": kept}, tmp_path / "kept.ckpt")
        assert torch.load(tmp_path / "kept.ckpt", weights_only=True)["hyper_parameters"] == kept
        seen.append(type(task).__name__)

    monkeypatch.setattr(Task, "on_fit_start", on_fit_start, raising=False)
    return seen


@pytest.mark.parametrize("name", RECIPES)
def test_it_trains_a_step(name, command, tmp_path, come_back):
    words = ["--config", name]
    if name in PARTIAL:
        words = ["--config", name.rsplit("_", 1)[0], *words]
    if name in DATA:
        DATA[name](tmp_path / "data")
        words.append(f"--data.init_args.root={tmp_path / 'data'}")
    if name == "multi30k":
        files = [str(tmp_path / "data" / f"train.{language}") for language in ("en", "de")]
        assert command("train-tokenizer", *files, "--vocabulary=280", "--out=multi30k.json").code == 0
    if name == "vit_cifar_finetune":
        timm = pytest.importorskip("timm")
        torch.save(timm.create_model("vit_tiny_patch16_224").state_dict(), "weights.pth")
        words += ["--model.backbone.init_args.weights=weights.pth", "--data.batch_size=2"]
        words += ["--trainer.limit_val_batches=1"]
    if name == "gpt2":  # of a small shape, on shards that were made as its head says
        (tmp_path / "corpus.txt").write_text("To be, or not to be: that is the question.\n" * 200, encoding="utf8")
        assert command("tokenize", "corpus.txt", "--tokenizer=docs-2048", "--val=0.2", "--output=shards").code == 0
        words += ["--model.tokenizer=BPE", "--model.tokenizer.file=shards/tokenizer.json", "--data.length=16"]
        words += ["--model.backbone.dim=16", "--model.backbone.depth=1", "--model.backbone.heads=2"]
    if name == "search_minilm":
        zoo.save(zoo.Contrastive(zoo.BERT(16, 1, 2, length=256), zoo.BPE("docs-2048")), tmp_path / "small")
        words += ["--model.backbone.source=small", "--model.tokenizer.source=small"]
    answer = command("fit", *words, *SHORT)
    assert answer.code == 0, answer.err
    assert len(come_back) == 1


@pytest.mark.parametrize("name", shipped())
def test_its_head_says_what_it_is(name):
    lines = shipped()[name].read_text(encoding="utf8").splitlines()
    assert lines[0].startswith("# ") and len(lines[0]) < 160
    assert any(line.startswith("# python -m zoo fit --config") for line in lines)
    if name in RECIPES:
        (measured,) = [line for line in lines if line.startswith("# measured: ")]
        assert len(measured) > 20, f"{name} was never measured"


def test_hyper_parameters_are_plain_json(command, tmp_path):
    answer = command("fit", "--config", "digits", "--trainer.max_steps=1")
    assert answer.code == 0, answer.err
    (checkpoint,) = Path("runs").glob("digits-*/checkpoints/last.ckpt")
    kept = torch.load(checkpoint, weights_only=True)["hyper_parameters"]
    assert json.loads(json.dumps(kept)) == kept
