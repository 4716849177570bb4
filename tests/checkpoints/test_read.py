"""What is damaged, foreign, hostile or newer is a sentence that begins with the file's name, and nothing in it runs."""

import json
import os
import pickle
import random
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from tests.checkpoints.example import example
from zoo.checkpoints import AtomicCheckpointIO, read_checkpoint
from zoo.checkpoints.schema import stamped


def refused(message: str, path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_checkpoint(path)
    said = str(caught.value)
    assert said.startswith(f"{path} ") and "\n" not in said and len(said) < 400


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.ckpt"


@pytest.fixture
def sealed(path) -> bytes:
    AtomicCheckpointIO().save_checkpoint(example(), path)
    return path.read_bytes()


def unsealed(path: Path, checkpoint: object) -> None:
    """As plain Lightning saves."""
    torch.save(checkpoint, path)


# ---- damage


def test_every_flipped_bit_is_refused(sealed, path):
    chance = random.Random(0)
    places = [*range(8), *(len(sealed) * 8 - 1 - place for place in range(100 * 8))]  # both ends, the seal among them
    for place in [*places, *chance.sample(range(len(sealed) * 8), 200)]:
        data = bytearray(sealed)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        refused("is no checkpoint|does not match its seal|has lost its seal|is a zip, but|is damaged", path)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_file_that_was_cut_off(share, sealed, path):
    path.write_bytes(sealed[: int(len(sealed) * share)])
    refused("is no checkpoint, or was cut off|has lost its seal", path)


def test_something_behind_the_end(sealed, path):
    path.write_bytes(sealed + b"x")
    refused("a.ckpt (is no checkpoint|has lost its seal)", path)


def test_a_flipped_weight_without_a_seal(path):
    unsealed(path, example())
    data = path.read_bytes()
    place = data.index(torch.arange(6.0).numpy().tobytes())
    path.write_bytes(data[:place] + b"\1" + data[place + 1 :])
    assert torch.load(path, weights_only=True)["state_dict"]["a"][0, 0] != 0  # nobody else notices
    refused(r"is damaged: \S+/data/\d+ does not have its checksum", path)


def test_a_stamped_checkpoint_without_a_seal_was_changed(path):
    unsealed(path, stamped(example()))
    refused("has lost its seal", path)


# ---- code, and other kinds of files


class Runs:
    """Code in a pickle."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("key", ["state_dict", "callbacks", "zoo", "hyper_parameters", "new"])
def test_code_is_not_run(key, path, tmp_path):
    unsealed(path, {**example(), key: Runs(tmp_path / "ran")})
    refused(r"holds posix\.system, which is code and not a plain value; it was not run", path)
    torch.save(Runs(tmp_path / "ran"), path, _use_new_zipfile_serialization=False)
    refused("is no checkpoint, or was cut off", path)
    path.write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    refused("is no checkpoint, or was cut off", path)
    assert not (tmp_path / "ran").exists()
    pickle.loads(path.read_bytes())
    assert (tmp_path / "ran").exists()  # it would have


def test_other_kinds_of_files(path, tmp_path):
    for data in (b"", b"hello", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), os.urandom(1000)):
        path.write_bytes(data)
        refused("is no checkpoint|is a zip, but no checkpoint", path)
    with tarfile.open(path, "w") as file:
        file.add(__file__, "storages")
    refused("is no checkpoint, or was cut off", path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "x")
    refused("is a zip, but no checkpoint", path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    refused("is a zip, but not one that torch writes", path)
    for value in ([1, 2], torch.ones(2), None):
        unsealed(path, value)
        refused("holds no checkpoint of Lightning but a", path)
    with pytest.raises(OSError):
        read_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "nowhere.ckpt")


def parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_a_zip_that_grows_when_it_is_read(path):
    unsealed(path, {**example(), "more": torch.zeros(10**6)})
    content = parts(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(name, data)
    assert path.stat().st_size < 10**5
    refused("is a zip, but not one that torch writes", path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_parts_of_the_same_name(path):
    unsealed(path, example())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(next(name for name in file.namelist() if name.endswith("data.pkl")), b"\x80\x02}.")
    refused("is a zip, but not one that torch writes", path)


def test_tensors_that_are_larger_than_the_file(path):
    checkpoint = example()
    checkpoint["optimizer_states"][0]["state"][0]["exp_avg"] = torch.zeros(1).expand(10**6, 10**6)
    unsealed(path, checkpoint)
    refused(r"has 'optimizer_states\.\[?0\]?\S*exp_avg', which is larger|exp_avg", path)
    checkpoint["optimizer_states"][0]["state"][0]["exp_avg"] = torch.zeros(2, device="meta")
    unsealed(path, checkpoint)
    refused("has no values for .*exp_avg", path)


def test_what_nests_without_end_is_read_without_recursion(path):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    wide: list = []
    for _ in range(60):
        wide = [wide, wide]
    circle: list = []
    circle.append(circle)
    unsealed(path, {**example(), "wide": wide, "circle": circle})
    assert read_checkpoint(path)["global_step"] == 3
    data = b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."  # a pickle of as many lists in lists
    content = parts(path)
    with zipfile.ZipFile(path, "w") as file:
        for name, old in content.items():
            file.writestr(name, data if name.endswith("data.pkl") else old)
    refused("holds no checkpoint of Lightning but a list|is damaged", path)


# ---- form


def test_a_newer_schema_is_refused_with_both_versions(path, tmp_path):
    unsealed(path, {**example(), "zoo": {"schema": 99, "version": "9.1.2"}})
    refused(r"has schema 99, written by zoo 9\.1\.2, and zoo \S+ reads schemas up to 2; update zoo", path)


WRONG = {
    "zoo=5": lambda c: c.update(zoo=5),
    "zoo without schema": lambda c: c.update(zoo={}),
    "schema 0": lambda c: c.update(zoo={"schema": 0}),
    "schema of another type": lambda c: c.update(zoo={"schema": "2"}),
    "no version": lambda c: c.pop("pytorch-lightning_version"),
    "version of another type": lambda c: c.update({"pytorch-lightning_version": 2}),
    "version that is none": lambda c: c.update({"pytorch-lightning_version": "new"}),
    "newer Lightning": lambda c: c.update({"pytorch-lightning_version": "99.0"}),
    "no weights": lambda c: c.pop("state_dict"),
    "weights in a list": lambda c: c.update(state_dict=[]),
    "a weight that is a number": lambda c: c["state_dict"].update(a=1),
    "a weight's name that is a number": lambda c: c["state_dict"].update({1: torch.ones(1)}),
    "no loops": lambda c: c.pop("loops"),
    "no fit loop": lambda c: c.update(loops={}),
    "loops of another type": lambda c: c.update(loops=3),
    "a loop of another type": lambda c: c["loops"].update(fit_loop=[]),
    "no step": lambda c: c.pop("global_step"),
    "a step that is a text": lambda c: c.update(global_step="3"),
    "a step that is a bool": lambda c: c.update(global_step=True),
    "a negative step": lambda c: c.update(global_step=-1),
    "an absurd step": lambda c: c.update(global_step=10**30),
    "a step that was not counted": lambda c: c.update(global_step=10**6),
    "an epoch that is a float": lambda c: c.update(epoch=1.5),
    "an absurd epoch": lambda c: c.update(epoch=2**60),
    "an absurd count": lambda c: counts(c).update(ready=-5),
    "a count that is a text": lambda c: counts(c).update(ready="many"),
    "no optimizer": lambda c: c.pop("optimizer_states"),
    "no callbacks": lambda c: c.pop("callbacks"),
    "optimizers in a dictionary": lambda c: c.update(optimizer_states={}),
    "an optimizer that is none": lambda c: c.update(optimizer_states=[None]),
    "an optimizer without groups": lambda c: c.update(optimizer_states=[{"state": {}}]),
    "a schedule that is a list": lambda c: c.update(lr_schedulers=[[]]),
    "callbacks in a list": lambda c: c.update(callbacks=[]),
    "hyper-parameters in a list": lambda c: c.update(hyper_parameters=[]),
}


def counts(checkpoint: dict) -> dict:
    loop = checkpoint["loops"]["fit_loop"]["epoch_loop.automatic_optimization.optim_progress"]
    return loop["optimizer"]["step"]["total"]


@pytest.mark.parametrize("name", WRONG)
def test_what_has_not_the_form_of_a_checkpoint(name, path):
    checkpoint = example()
    WRONG[name](checkpoint)
    unsealed(path, checkpoint)
    refused("a.ckpt (has|says|is|was) ", path)


def test_weights_alone_are_a_checkpoint_too(path):
    whole = example()
    unsealed(
        path, {key: whole[key] for key in ("epoch", "global_step", "state_dict", "loops", "pytorch-lightning_version")}
    )
    assert read_checkpoint(path)["zoo"]["schema"] == 2


def test_an_error_quotes_little(path):
    unsealed(path, {**example(), "global_step": "9" * 10**6})
    refused("global_step", path)
    unsealed(path, {**example(), "zoo": json.dumps({"x": "y" * 10**6})})
    refused("where its schema should stand", path)
