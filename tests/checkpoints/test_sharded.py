"""Checkpoints that are folders: the old one or the new one, whenever writing stops, and no code in what is read."""

import pickle
import subprocess
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.checkpoints.example import example
from zoo.checkpoints import AtomicCheckpointIO, read_checkpoint
from zoo.checkpoints.io import write
from zoo.checkpoints.sharded import joined, parted, write_folder


@pytest.fixture
def alone(tmp_path):
    """A group of one process."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def numbered(value: float) -> dict:
    made = example()
    made["state_dict"] = {name: torch.full_like(weight, value) for name, weight in made["state_dict"].items()}
    return made


def value(path: Path) -> float:
    return float(next(iter(read_checkpoint(path)["state_dict"].values())).flatten()[0])


def test_it_comes_back_whole(alone, tmp_path):
    made, path = example(), tmp_path / "last.ckpt"
    write_folder(made, path, write)
    read = read_checkpoint(path)
    assert read["optimizer_states"][0]["param_groups"] == made["optimizer_states"][0]["param_groups"]
    plain, tensors = parted(made)
    _, again = parted(read)
    assert tensors.keys() == again.keys() and all(torch.equal(tensors[name], again[name]) for name in tensors)
    assert {weight.device.type for weight in read_checkpoint(path, "meta")["state_dict"].values()} == {"meta"}
    empty = read_checkpoint(path, empty=True)
    assert empty["callbacks"]["ModelCheckpoint"]["best"] == 0.5 and empty["state_dict"]["a"].is_meta
    joined(plain, tensors)
    assert plain.keys() == made.keys() and plain["state_dict"].keys() == made["state_dict"].keys()


@pytest.mark.parametrize("before", ["nothing", "a folder", "a file"])
def test_the_old_or_the_new_one_is_there_wherever_writing_stops(before, alone, tmp_path):
    path = tmp_path / "last.ckpt"
    if before == "a folder":
        write_folder(numbered(1.0), path, write)
    elif before == "a file":
        write(numbered(1.0), path)

    def stopped(*rest):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(numbered(2.0), path, stopped)
    assert not path.exists() if before == "nothing" else value(path) == 1.0
    write_folder(numbered(3.0), path, write)
    assert value(path) == 3.0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["last.ckpt", "store"]  # what was begun is gone
    assert len(list(path.glob("shards-*"))) == 1


def test_a_file_takes_the_place_of_a_folder_and_both_are_removed(alone, tmp_path):
    path, io = tmp_path / "last.ckpt", AtomicCheckpointIO()
    write_folder(numbered(1.0), path, write)
    io.save_checkpoint(numbered(2.0), path)
    assert path.is_file() and value(path) == 2.0
    write_folder(numbered(3.0), path, write)
    assert io.load_checkpoint(path)["state_dict"].keys() == numbered(3.0)["state_dict"].keys()
    io.remove_checkpoint(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


class Harm:
    def __reduce__(self):
        return subprocess.run, (["true"],)


def test_code_in_the_list_of_shards_is_not_run(alone, tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    write_folder(example(), path, write)
    (listing,) = path.glob("shards-*/.metadata")
    content = pickle.dumps(Harm())
    listing.write_bytes(content + bytes(listing.stat().st_size - len(content)))
    monkeypatch.setattr(subprocess, "run", lambda *words: pytest.fail("it was run"))
    with pytest.raises(ValueError, match="has a list of shards that cannot be read: UnpicklingError"):
        read_checkpoint(path, "meta")
