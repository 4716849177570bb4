"""Files of weights and JSON: what is damaged, hostile or missing is one sentence that names it."""

import json
import os
import pickle
import re
import struct
import subprocess
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from zoo import files
from zoo.files import folder, read_weights, write
from zoo.tokenizers.reading import read_json


def refused(message: str, path: Path, read=read_weights) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


# ---- safetensors


def header(content: dict) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text


def whole(folder: Path) -> bytes:
    save_file({"a": torch.ones(3), "b": torch.zeros(2, 2)}, folder / "model.safetensors")
    return (folder / "model.safetensors").read_bytes()


HUGE = {"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}
OVERLAP = {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:30],
        lambda data: data[:-3],
        lambda data: struct.pack("<Q", 2**60) + data[8:],
        lambda data: struct.pack("<Q", 2**64 - 1) + data[8:],
        lambda data: header(HUGE) + b"\0" * 16,
        lambda data: header(OVERLAP) + b"\0" * 8,
        lambda data: data.replace(b"F32", b"F99"),
        lambda data: data.replace(b"[3]", b"[4]"),
        lambda data: data.replace(b"[3]", b"[-]"),
        lambda data: b"\x80\x04" + data,
    ],
)
def test_a_damaged_safetensors_file(damage, tmp_path):
    data = whole(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(damage(data))
    refused(r"model\.safetensors is no whole safetensors file \(", tmp_path)


# ---- torch files


class Runs:
    """Code in a pickle."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_pickle_is_not_run(zipped, tmp_path):
    content = {"a": torch.ones(3), "b": Runs(tmp_path / "ran")}
    torch.save(content, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    refused(r"pytorch_model\.bin holds posix\.system, which is code and not a tensor; it was not run", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Runs(tmp_path / "ran"), protocol=2))
    refused(r"pytorch_model\.bin", tmp_path)
    assert not (tmp_path / "ran").exists()
    pickle.loads((tmp_path / "pytorch_model.bin").read_bytes())
    assert (tmp_path / "ran").exists()  # a plain pickle would have run it


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("data", [b"", b"hello world", b"\x80\x02]", b"PK\x03\x04", pickle.dumps({"a": 1})])
def test_a_damaged_torch_file(data, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(data)
    refused(r"pytorch_model\.bin", tmp_path)
    torch.save({"a": torch.ones(100)}, tmp_path / "pytorch_model.bin")
    cut = (tmp_path / "pytorch_model.bin").read_bytes()[:-40]
    (tmp_path / "pytorch_model.bin").write_bytes(cut)
    refused(r"pytorch_model\.bin is damaged", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "holds no dictionary of tensors but a list"),
        (torch.ones(2), "holds no dictionary of tensors but a Tensor"),
        ({"a": torch.ones(2), "epoch": 3}, "'epoch' is a int"),
        ({"a": {"b": torch.ones(2)}}, "'a' is a dict"),
        ({3: torch.ones(2)}, "3 is a Tensor"),
        ({"a": np.float32(3)}, "numpy"),
        ({"args": Namespace(x=1), "model": {"a": torch.ones(2)}}, r"holds argparse\.Namespace"),
        (torch.nn.Linear(2, 2), r"holds torch\.nn"),
        ({"a": torch.eye(3).to_sparse()}, "the tensor 'a' is sparse"),
        ({"a": torch.ones(2, device="meta")}, "the tensor 'a' is sparse, quantized or empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:Validating sparse")
def test_a_torch_file_of_other_things(content, message, tmp_path):
    torch.save(content, tmp_path / "pytorch_model.bin")
    refused(r"pytorch_model\.bin.*" + message, tmp_path)


@pytest.mark.parametrize("wrapper", ["model", "state_dict"])
def test_a_torch_file_may_have_its_tensors_inside(wrapper, tmp_path):
    torch.save({"epoch": 3, wrapper: {"a": torch.ones(3)}}, tmp_path / "pytorch_model.bin")
    assert torch.equal(read_weights(tmp_path).state["a"], torch.ones(3))


# ---- shards


def sharded(folder: Path, places: object) -> Path:
    save_file({"a": torch.ones(3)}, folder / "one.safetensors")
    save_file({"b": torch.zeros(2)}, folder / "two.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(places))
    return folder


def test_shards(tmp_path):
    found = read_weights(sharded(tmp_path, {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    assert set(found.state) == {"a", "b"} and found.files["b"] == tmp_path / "two.safetensors"


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([], "index.json holds no object but a list"),
        ({}, "index.json has no 'weight_map'"),
        ({"weight_map": ["one.safetensors"]}, "has no 'weight_map'"),
        ({"weight_map": {"a": 3}}, "has no 'weight_map'"),
        ({"weight_map": {"a": "three.safetensors"}}, r"three\.safetensors is missing, though .*index\.json needs it"),
        (
            {"weight_map": {"a": "../one.safetensors"}},
            r"names the file '\.\./one\.safetensors', which is not beside it",
        ),
        ({"weight_map": {"a": "/etc/passwd"}}, "names the file '/etc/passwd'"),
        ({"weight_map": {"a": ".."}}, r"\.\. is missing"),
        ({"weight_map": {"a": ""}}, "names the file ''|is missing"),
        ({"weight_map": {"a": "sub/one.safetensors"}}, "names the file 'sub/one.safetensors'"),
        ({"weight_map": {"c": "one.safetensors"}}, r"one\.safetensors has no tensor 'c', though .*index\.json says so"),
        (
            {"weight_map": {"a": "two.safetensors", "b": "one.safetensors"}},
            r"two\.safetensors has no tensor 'a', though",
        ),
    ],
)
def test_a_hostile_index(places, message, tmp_path):
    refused(message, sharded(tmp_path, places))


def test_a_damaged_index_and_a_damaged_shard(tmp_path):
    sharded(tmp_path, {"weight_map": {"a": "one.safetensors"}})
    (tmp_path / "one.safetensors").write_bytes(b"")
    refused(r"one\.safetensors is no whole safetensors file", tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{")
    refused(r"index\.json is not JSON", tmp_path)


# ---- JSON, directories and the hub


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "holds no object but a list"),
        (b"3", "holds no object but a int"),
        (b"null", "holds no object but a NoneType"),
        (b"", "is not JSON"),
        (b'{"a": ', "is not JSON"),
        (b'\xff\xfe{"a": 3}', "is not UTF-8: byte 0"),
        (b'{"a": ' * 100_000, "is not JSON"),
    ],
)
def test_json_that_is_none(content, message, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    refused(r"config\.json " + message, tmp_path / "config.json", read_json)
    refused("has no missing.json", tmp_path / "missing.json", read_json)


def test_a_directory_without_weights(tmp_path):
    refused("has no weights: neither model.safetensors nor pytorch_model.bin", tmp_path)


@pytest.mark.parametrize("source", ["a/b/c", "https://example.org/x", "a b", "a//b", "x\n", "a/\u00df?"])
def test_what_is_neither_a_directory_nor_an_id(source):
    refused("is neither a directory with a config.json nor the id of a model", source, folder)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "x").touch()
    refused("is neither a directory", tmp_path / "x", folder)


@pytest.mark.parametrize("source", ["nobody/nothing-at-all", "no-such-model"])
def test_offline_an_id_is_an_oserror(source):
    with pytest.raises(OSError, match=f"no directory '{source}' here, and .* could not be downloaded") as caught:
        folder(source)
    assert "\n" not in str(caught.value)


# ---- writing


PUBLISHED = {"model.safetensors", "config.json", "SHA256SUMS"}


def state(value: float) -> dict[str, torch.Tensor]:
    return {name: torch.full((40,), float(value)) for name in "abcde"}


def values(folder: Path) -> set[float]:
    return {float(value) for tensor in read_weights(folder).state.values() for value in tensor}


def test_small_shards_and_stale_ones(tmp_path, monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(files, "SHARD", 400)
        write(tmp_path, {"one": 1}, {}, state(1))
    assert len(list(tmp_path.glob("model-*-of-00003.safetensors"))) == 3
    assert values(tmp_path) == {1} and not (tmp_path / "model.safetensors").exists()
    write(tmp_path, {}, {"tokenizer.json": "é"}, state(2))
    assert {file.name for file in tmp_path.iterdir()} == {*PUBLISHED, "tokenizer.json"}
    assert values(tmp_path) == {2} and (tmp_path / "tokenizer.json").read_text("utf8") == "é"
    monkeypatch.setattr(files, "SHARD", 400)
    torch.save({}, tmp_path / "pytorch_model.bin")
    write(tmp_path, {}, {}, state(3))
    assert values(tmp_path) == {3} and not list(tmp_path.glob("pytorch*"))


@pytest.mark.parametrize("place", [0, 1])
def test_an_interrupted_write_leaves_whole_files(place, tmp_path, monkeypatch):
    write(tmp_path, {"same": True}, {}, state(1))
    fail_to_replace(place, monkeypatch)
    with pytest.raises(OSError, match=r"cannot write .*: the disk is gone"):
        write(tmp_path, {"same": True}, {}, state(2))
    assert values(tmp_path) == {1 + place} and read_json(tmp_path / "config.json") == {"same": True}
    assert {file.name for file in tmp_path.iterdir()} == {"model.safetensors", "config.json"}


def fail_to_replace(place, monkeypatch):
    """The files before that place are moved, no other."""
    calls = []

    def replace(a, b):
        calls.append(b)
        if len(calls) > place:
            raise OSError("the disk is gone")
        os.rename(a, b)

    monkeypatch.setattr(files.os, "replace", replace)


@pytest.mark.parametrize("place", [0, 1])
def test_new_weights_never_stand_beside_an_old_config(place, tmp_path, monkeypatch):
    write(tmp_path, {"theta": 1}, {}, state(1))
    fail_to_replace(place, monkeypatch)
    with pytest.raises(OSError, match="the disk is gone"):
        write(tmp_path, {"theta": 2}, {}, state(2))
    refused("has no config.json", tmp_path / "config.json", read_json)


@pytest.mark.parametrize("place", range(5))
def test_shards_of_two_models_are_never_mixed(place, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SHARD", 400)
    write(tmp_path, {}, {}, state(1))
    fail_to_replace(place, monkeypatch)
    with pytest.raises(OSError, match="the disk is gone"):
        write(tmp_path, {}, {}, state(2))
    if place < 4:  # three shards and their index
        refused("has no weights", tmp_path)
    else:
        assert values(tmp_path) == {2}


# ---- sums


def test_sha256sum_reads_the_sums(tmp_path):
    write(tmp_path, {}, {}, state(1))
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "model.safetensors: OK\n"


def test_a_changed_bit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SHARD", 400)
    write(tmp_path, {}, {}, state(1))
    shard = tmp_path / "model-00002-of-00003.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    refused(r"model-00002-of-00003\.safetensors is not the file whose sum stands in .*SHA256SUMS: .*remove", tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    assert len(values(tmp_path)) == 2  # what nobody would have noticed
    write(tmp_path, {}, {}, state(3))
    assert values(tmp_path) == {3}


def test_sums_of_other_files_and_lines_of_another_kind_say_nothing(tmp_path):
    write(tmp_path, {}, {}, state(1))
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff\n" + b"0" * 64 + b"  other.safetensors\n0  model.safetensors\n")
    assert values(tmp_path) == {1}


def test_weights_are_written_over_the_file_that_they_are_mapped_from(tmp_path):
    write(tmp_path, {}, {}, state(1))
    mapped = load_file(tmp_path / "model.safetensors")
    for _ in range(2):
        write(tmp_path, {}, {}, mapped)
    assert values(tmp_path) == {1} and re.match(r"\{\}", (tmp_path / "config.json").read_text())
