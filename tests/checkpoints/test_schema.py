"""Every schema that was ever released: its stored checkpoints are still read, tested and trained on from."""

import shutil
from pathlib import Path

import pytest
import torch

import zoo
from zoo.checkpoints import read_checkpoint
from zoo.checkpoints.plain import require_plain
from zoo.checkpoints.schema import MIGRATIONS, SCHEMA, migrate, schema_of
from zoo.cli.convert import from_checkpoint

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
STORED = sorted(FIXTURES.glob("checkpoint-schema-*.ckpt"))
KINDS = {"classify": "Classify", "causal": "CausalLM"}


def schema(path: Path) -> int:
    return int(path.stem.split("-")[2])


def kind(path: Path) -> str:
    return path.stem.split("-")[3]


def test_every_schema_is_stored_and_has_a_way_to_todays():
    assert {(schema(path), kind(path)) for path in STORED} == {(n + 1, name) for n in range(SCHEMA) for name in KINDS}
    assert set(MIGRATIONS) == set(range(1, SCHEMA))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_checkpoint_becomes_todays(path):
    stored = torch.load(path, weights_only=True)
    assert schema_of(stored) == schema(path)
    found = read_checkpoint(path)
    assert found["zoo"]["schema"] == SCHEMA and found["global_step"] == 2
    assert all(torch.equal(found["state_dict"][name], weight) for name, weight in stored["state_dict"].items())
    require_plain(found)
    assert migrate(dict(found))["zoo"]["schema"] == SCHEMA


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_checkpoint_is_a_task(path):
    weights = torch.load(path, weights_only=True)["state_dict"]
    for task in (from_checkpoint(path), getattr(zoo, KINDS[kind(path)]).load_from_checkpoint(path)):
        assert type(task).__name__ == KINDS[kind(path)]
        assert all(torch.equal(weight, weights[name]) for name, weight in task.state_dict().items())


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_training_goes_on_from_a_stored_checkpoint(path, command, tmp_path):
    shutil.copy(FIXTURES / f"{kind(path)}.yaml", tmp_path)
    rest = ("--trainer.enable_progress_bar=false", "--trainer.callbacks+=CheckSpace", "--trainer.max_epochs=2")
    answer = command("fit", "--config", kind(path), *rest, "--ckpt_path", str(path))
    assert answer.code == 0, answer.err
    (last,) = tmp_path.glob("runs/*/checkpoints/last.ckpt")
    assert torch.load(last, weights_only=True)["global_step"] == 4
    tested = command("validate", "--config", kind(path), rest[0], "--ckpt_path", str(path))
    assert tested.code == 0 and "val/loss" in tested.out, tested.err


# ---- what the command line says of others


def one_line(answer, path: Path, message: str) -> None:
    assert answer.code == 1
    assert answer.err.startswith(f"zoo: error: {path}") and message in answer.err, answer.err
    assert answer.err.count("\n") == 1 and "Traceback" not in answer.err


@pytest.mark.parametrize("verb", ["fit", "test"])
def test_weights_that_do_not_fit_are_told_with_the_files_name(verb, command, tmp_path):
    path = tmp_path / "other.ckpt"
    content = torch.load(FIXTURES / "checkpoint-schema-1-classify.ckpt", weights_only=True)
    content["state_dict"]["head.linear.weight"] = torch.ones(3)
    content["state_dict"] = {name: weight for name, weight in content["state_dict"].items() if "mixer" not in name}
    torch.save(content, path)
    shutil.copy(FIXTURES / "classify.yaml", tmp_path)
    one_line(command(verb, "--config", "classify", "--ckpt_path", str(path)), path, "does not fit")
    with pytest.raises(ValueError, match=r"other\.ckpt does not fit: Error\(s\) in loading state_dict") as caught:
        zoo.Classify.load_from_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_weights_alone_are_tested_and_not_trained_on_from(command, tmp_path):
    path = tmp_path / "weights.ckpt"
    content = torch.load(FIXTURES / "checkpoint-schema-1-classify.ckpt", weights_only=True)
    for name in ("callbacks", "optimizer_states", "lr_schedulers"):
        del content[name]
    torch.save(content, path)
    shutil.copy(FIXTURES / "classify.yaml", tmp_path)
    one_line(command("fit", "--config", "classify", "--ckpt_path", str(path)), path, "contains only the model")
    assert command("test", "--config", "classify", "--ckpt_path", str(path)).code == 0
