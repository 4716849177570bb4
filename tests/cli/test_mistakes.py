"""What is said about mistakes: one line that names the place and the nearest name, and an exit code."""

from pathlib import Path

import pytest

from tests.mistakes import TYPOS

FIT = ("fit", "--config", "digits")


def told(answer, code: int | None = None) -> str:
    """The one line that was said, after "zoo: error: "."""
    lines = [line for line in answer.err.splitlines() if line and not line.startswith("Restoring")]
    assert answer.code in ((1, 2) if code is None else (code,)), answer
    assert len(lines) <= 3 and lines[-1].startswith("zoo: error: "), answer.err
    return lines[-1].removeprefix("zoo: error: ")


@pytest.mark.parametrize("kind", TYPOS)
def test_a_typo_is_answered_with_place_and_suggestion(command, kind):
    text, line = TYPOS[kind]
    Path("bad.yaml").write_text(text)
    assert told(command(*FIT, "--config", "bad.yaml"), 2) == line
    assert not Path("runs").exists()


BACKBONE = "model: {init_args: {backbone: %s}}"
MISUSE = {  # what is written in a second config -> what must be said, and its exit code
    "trainer: {max_epochs: 1}\ntrainer: {max_epochs: 2}": ("bad.yaml:2: 'trainer' is given twice", 2),
    "trainer: {max_epochs: [1": ("bad.yaml:1: not YAML: did not find expected ',' or ']'", 2),
    BACKBONE % "{init_args: {heads: 5}}": ("heads=5 does not divide dim=16; choose a divisor, or give head_dim", 1),
    BACKBONE % "{init_args: {depth: two}}": ("bad.yaml:1: model.backbone.depth: expected int, got 'two'", 2),
    "data: {init_args: {root: nowhere}}": ("nowhere: is neither a file or folder nor a data set", 1),
    "trainer: {strategy: dpp}": ("bad.yaml:1: there is no strategy 'dpp'; did you mean 'ddp'?", 1),
    "trainer: {accelerator: gpu}": ("no GPU is available", 1),
    "model: {init_args: {backbone: {class_path: my_parts.Own}}}": (
        "bad.yaml:1: my_parts.Own is not among the classes that a config may name; if you trust it: --allow my_parts",
        2,
    ),
    "model: {init_args: {tokenizer: 3}}": ("tokenizer", 2),
    BACKBONE % "{class_path: zoo.load_backbone, init_args: {sourc: x}}": (
        "bad.yaml:1: load_backbone has no argument 'sourc'; did you mean 'source'?",
        2,
    ),
}


@pytest.mark.parametrize("text", MISUSE, ids=[text[:40] for text in MISUSE])
def test_misuse_is_told_in_one_line(command, text):
    Path("bad.yaml").write_text(text)
    line, code = MISUSE[text]
    assert line in told(command(*FIT, "--config", "bad.yaml"), code)


FLAGS = {  # a command line -> what must be said
    (
        "--config",
        "digitz",
    ): "no config file 'digitz' here, and none of that name comes with the library; did you mean 'digits'?",
    ("--config", "trainer/gpuu"): "did you mean 'trainer/gpu'?",
    ("--config", "digits", "--model.backbone.depht=1"): "ViT has no argument 'depht'; did you mean 'depth'?",
    ("--config", "digits", "--trainer.max_epoch=1"): "trainer has no argument 'max_epoch'; did you mean 'max_epochs'?",
    ("--config", "digits", "--trainer.epochs=1"): "trainer has no argument 'epochs'; did you mean 'max_epochs'?",
    ("--config", "digits", "--data", "Imagess"): "there is no class 'Imagess'; did you mean 'Images'?",
    ("--config", "digits", "--ckpt_path", "none.ckpt"): "none.ckpt",
    (
        "--config",
        "digits",
        "--model.optimizer.learning_rate=1",
    ): "AdamW has no argument 'learning_rate'; did you mean 'lr'?",
    ("--config", "digits", "--model.backbone.num_hidden_layers=2"): (
        "ViT has no argument 'num_hidden_layers'; did you mean 'depth'?"
    ),
    ("--config", "digits", "--model.tokenizer.img_size=8"): "Patches has no argument 'img_size'; did you mean 'size'?",
    ("--config", "digits", "--data.num_workers=2"): "Images has no argument 'num_workers'; did you mean 'workers'?",
    ("--config", "digits", "--tariner.max_epochs=1"): "there is no section 'tariner'; did you mean 'trainer'?",
    ("--config", "digits", "--trainer.logger=TensorBoardLogger"): (
        "TensorBoardLogger also needs save_dir: --trainer.logger.save_dir=..."
    ),
    ("digits",): "'digits' is neither an option nor the directory of a run; a config is given as --config digits",
    ("runs/nothing",): "there is no run 'runs/nothing'",
    (): "--model and --data must be given; a config does that: --config NAME",
}


@pytest.mark.parametrize("words", FLAGS, ids=[" ".join(words) for words in FLAGS])
def test_a_mistake_in_a_flag_is_told_in_one_line(command, words):
    assert FLAGS[words] in told(command("fit", *words))


def test_no_stem_is_the_same_word_in_yaml_and_on_the_command_line(command):
    assert command(*FIT, "--model.tokenizer.stem=null", "--trainer.max_steps=1").code == 0


def test_the_verb_may_come_last(command):
    assert command("--config", "digits", "--trainer.max_steps=1", "fit").code == 0


def test_an_unknown_verb_gets_a_suggestion(command):
    assert told(command("fitt"), 2) == "no verb 'fitt'; did you mean 'fit'?"


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
    said = told(command(*FIT, "--data.root=images", "--data.workers=1", "--data.val=0"), 1)
    assert "broken.png" in said and "Traceback" not in said
