"""Two processes under every strategy: losses, updates and scores of one process, and its checkpoints, either way."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.parallel.cases import STEPS, TASKS, train, validate
from tests.parallel.member import CLIPPED, SOURCES, SPREAD, STRATEGIES
from zoo.checkpoints import newest, read_checkpoint
from zoo.tasks import CausalLM


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have left what they found."""
    folder = tmp_path_factory.mktemp("parallel")
    train("causal", folder, devices=1)[2].save_checkpoint(folder / "one.ckpt")
    root = str(Path(__file__).resolve().parent.parent.parent)
    shared = {"PYTHONPATH": root, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "NODE_RANK": "0"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    words = [sys.executable, "-m", "tests.parallel.member", str(folder)]
    members = []
    for rank in range(2):
        with open(folder / f"{rank}.log", "wb") as log:
            environment = {**os.environ, **shared, "LOCAL_RANK": str(rank)}
            members.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
    try:
        codes = [member.wait(timeout=900) for member in members]
    finally:
        for member in members:
            member.kill()
    assert codes == [0, 0], "\n".join((folder / f"{rank}.log").read_text()[-3000:] for rank in range(2))
    return folder


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def found(folder):
    return torch.load(folder / "found.pt")


@pytest.fixture(scope="module")
def alone(folder):
    """The same of one process, made once."""
    made = {}

    def answer(how, *words, **more):
        key = (how, *words, *more.values())
        if key not in made:
            made[key] = how(*words, folder, devices=1, **more)
        return made[key]

    return answer


@pytest.mark.parametrize("case", TASKS)
@pytest.mark.parametrize("strategy", SPREAD)
def test_losses_are_those_of_one_process(strategy, case, found, alone):
    losses = alone(train, case)[0]
    assert len(set(losses)) == STEPS  # it learns something
    assert found["losses", strategy, case] == pytest.approx(losses, abs=1e-5)


@pytest.mark.parametrize("case", CLIPPED)
@pytest.mark.parametrize("strategy", SPREAD)
def test_clipped_updates_and_names_are_those_of_one_process(strategy, case, found, alone):
    """By SGD, whose steps are as long as the gradient that is left by clipping at 0.1."""
    task = alone(train, case, optimizer="SGD")[1]
    state = found["weights", strategy, case]
    assert list(state) == list(task.state_dict())
    for name, value in task.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", ["classify", "seq2seq"])
@pytest.mark.parametrize("strategy", SPREAD)
def test_uneven_validation_and_what_is_written_score_the_same(strategy, case, found, alone):
    scores = alone(validate, case)
    assert found["scores", strategy, case] == pytest.approx(scores, rel=1e-5, abs=1e-5)
    assert case != "seq2seq" or "val/chrf" in scores


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_go_on_from_the_checkpoint_of_one_or_of_two(strategy, source, found, alone):
    losses = alone(train, "causal", steps=2 * STEPS)[0][STEPS:]
    assert found["gone on", strategy, source] == pytest.approx(losses, abs=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_goes_on_from_the_checkpoint_of_two(strategy, folder, alone):
    losses = alone(train, "causal", steps=2 * STEPS)[0][STEPS:]
    path = folder / f"{strategy}.ckpt"
    assert path.is_dir() == ("folder" in strategy)
    assert train("causal", folder, path=path, steps=2 * STEPS, devices=1)[0] == pytest.approx(losses, abs=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_checkpoint_of_two_is_loaded_without_arguments(strategy, folder, alone):
    path = folder / f"{strategy}.ckpt"
    task = CausalLM.load_from_checkpoint(path)
    assert task.head.out.weight is task.embed.table.weight and task.trained_steps == STEPS
    state = alone(train, "causal")[1].state_dict()
    assert read_checkpoint(path)["state_dict"].keys() == state.keys()
    for name, value in task.state_dict().items():
        torch.testing.assert_close(value, state[name], rtol=0, atol=1e-4)  # AdamW turns noise of 1e-9 into steps


def test_a_folder_is_refused_where_it_is_damaged_or_was_not_finished(folder, tmp_path):
    whole = folder / "fsdp in a folder.ckpt"
    copy = tmp_path / "last.ckpt"

    def again():
        subprocess.run(["cp", "-r", str(whole), str(copy)], check=True)
        return sorted(copy.glob("shards-*/*.distcp"))[0], copy / "meta.pt"

    assert len(list(whole.glob("shards-*"))) == 1  # those of the first save are gone
    for harm, words in (
        (lambda shard, meta: meta.unlink(), "Is a directory"),
        (lambda shard, meta: shard.unlink(), "lacks a part of"),
        (lambda shard, meta: shard.write_bytes(shard.read_bytes()[:-1]), "lacks a part of"),
        (lambda shard, meta: shard.write_bytes(flipped(shard)), "was damaged or changed"),
        (lambda shard, meta: meta.write_bytes(flipped(meta)), "does not match its seal"),
    ):
        harm(*again())
        with pytest.raises((ValueError, OSError), match=words):
            read_checkpoint(copy)
        subprocess.run(["rm", "-r", str(copy)], check=True)
    again()[1].unlink()
    good, refused = newest([copy, whole])
    assert good == whole and len(refused) == 1


def flipped(file: Path) -> bytes:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


def test_bfloat16_is_close(found, alone):
    assert found["bf16", "fsdp", "causal"] == pytest.approx(alone(train, "causal")[0], rel=0.02)


def test_compiled_blocks_that_are_computed_again_change_nothing(found, alone):
    assert found["compiled", "fsdp", "causal"] == pytest.approx(alone(train, "causal")[0], abs=1e-4)
