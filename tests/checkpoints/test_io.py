"""The plugin: what it writes is whole or not there, sealed, plain, and read by everybody who reads torch's files."""

import errno
import hashlib
import os
import zipfile
from argparse import Namespace
from enum import Enum
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from tests.checkpoints.example import example
from zoo.checkpoints import AtomicCheckpointIO, newest, read_checkpoint
from zoo.checkpoints.plain import leaves
from zoo.checkpoints.seal import Sealing
from zoo.data import Images
from zoo.models import ViT
from zoo.tasks import Classify
from zoo.tokenizers import Patches


def save(path: Path, checkpoint: dict | None = None) -> Path:
    AtomicCheckpointIO().save_checkpoint(example() if checkpoint is None else checkpoint, path)
    return path


def equal(one: dict, other: dict) -> bool:
    """Are all values of the first in the second, bit for bit?"""
    there = dict(leaves(other, ""))
    return all(
        torch.equal(value, there[name]) if isinstance(value, torch.Tensor) else type(value) is type(there[name])
        for name, value in leaves(one, "")
    )


def test_everybody_who_reads_torchs_files_reads_these(tmp_path):
    path = save(tmp_path / "new" / "a.ckpt")
    for mapped in (False, True):
        assert equal(example(), torch.load(path, weights_only=True, mmap=mapped))
    assert zipfile.ZipFile(path).testzip() is None
    assert zipfile.ZipFile(path).comment.startswith(b"zoo:sha256:")
    with path.open("rb") as file:
        assert equal(example(), torch.load(file, weights_only=True))
    assert os.listdir(path.parent) == ["a.ckpt"]


def test_the_seal_is_the_sha256_of_what_torch_wrote(tmp_path):
    data, comment = save(tmp_path / "a.ckpt").read_bytes(), zipfile.ZipFile(tmp_path / "a.ckpt").comment
    body = data[: -len(comment) - 2] + b"\0\0"
    assert comment == b"zoo:sha256:" + hashlib.sha256(body).hexdigest().encode()
    (tmp_path / "unsealed.ckpt").write_bytes(body)
    assert zipfile.ZipFile(tmp_path / "unsealed.ckpt").testzip() is None


def test_what_is_read_is_what_was_written_and_says_from_where(tmp_path):
    path = save(tmp_path / "a.ckpt")
    found = read_checkpoint(path)
    assert equal(example(), found) and found["zoo"]["file"] == str(path) and found["zoo"]["schema"] == 2
    assert AtomicCheckpointIO().load_checkpoint(str(path), weights_only=False).keys() == found.keys()


def test_stale_files_of_the_same_name_are_swept(tmp_path):
    (tmp_path / ".a.ckpt.0123abcd.partial").write_text("half")
    (tmp_path / ".b.ckpt.0123abcd.partial").write_text("another's")
    save(tmp_path / "a.ckpt")
    assert sorted(os.listdir(tmp_path)) == [".b.ckpt.0123abcd.partial", "a.ckpt"]


def test_removing(tmp_path):
    plugin = AtomicCheckpointIO()
    plugin.remove_checkpoint(save(tmp_path / "a.ckpt"))
    plugin.remove_checkpoint(tmp_path / "a.ckpt")
    assert not os.listdir(tmp_path)


# ---- what fails says so


class Full:
    """A disk that takes so many bytes."""

    def __init__(self, file, room: int):
        self.file, self.room = file, room

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)

    def seek(self, *place):
        return self.file.seek(*place)


@pytest.mark.parametrize("room", [0, 100, 1000])
def test_a_full_disk_is_one_sentence_and_leaves_the_old_checkpoint(room, tmp_path, monkeypatch):
    path = save(tmp_path / "a.ckpt")
    monkeypatch.setattr("zoo.checkpoints.io.Sealing.__init__", sealing_on(room))
    with pytest.raises(OSError, match=r"^cannot write .*a\.ckpt: no space left on device$") as caught:
        save(path, example(step=4))
    assert caught.value.errno == errno.ENOSPC and "\n" not in str(caught.value)
    assert read_checkpoint(path)["global_step"] == 3 and os.listdir(tmp_path) == ["a.ckpt"]


def sealing_on(room: int):
    begin = Sealing.__init__
    return lambda self, file: begin(self, Full(file, room))


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^cannot write .*file/x/a\.ckpt: not a directory$"):
        save(tmp_path / "file" / "x" / "a.ckpt")


class Colour(str, Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Path("x"), "pathlib.PosixPath"),
        (Colour.RED, "Colour"),
        (np.float32(3), "numpy.float32"),
        (Namespace(a=1), "argparse.Namespace"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (torch.float32, "torch.dtype"),
        ({1, 2}, "builtins.set"),
        (print, "builtins.builtin_function_or_method"),
    ],
)
def test_hyper_parameters_are_plain(value, name, tmp_path):
    checkpoint = example()
    checkpoint["hyper_parameters"]["parts"] = [{"deep": value}]
    with pytest.raises(
        ValueError, match=rf"a\.ckpt: hyper_parameters\.parts\[0\]\.deep is a .*{name}, which"
    ) as caught:
        save(tmp_path / "a.ckpt", checkpoint)
    assert "\n" not in str(caught.value) and not os.listdir(tmp_path)


@pytest.mark.parametrize("value", [Path("x"), np.float32(3), Namespace(a=1), print])
def test_elsewhere_what_torch_would_refuse_to_read_is_refused_before_it_is_lost(value, tmp_path):
    checkpoint = example()
    checkpoint["callbacks"]["mine"] = {"state": value}
    with pytest.raises(ValueError, match=r"callbacks\.mine\.state is a "):
        save(tmp_path / "a.ckpt", checkpoint)


@pytest.mark.parametrize("value", [{1, 2}, torch.float32, torch.Size([1]), b"x", 1j, (1, "a"), torch.ones(1)])
def test_elsewhere_what_torch_reads_is_kept(value, tmp_path):
    checkpoint = example()
    checkpoint["callbacks"]["mine"] = {"state": value}
    assert read_checkpoint(save(tmp_path / "a.ckpt", checkpoint))["callbacks"]["mine"]["state"] == value


def test_urls(tmp_path):
    plugin = AtomicCheckpointIO()
    with pytest.raises(ValueError, match=r"http://127\.0\.0\.1/a\.ckpt is a URL; checkpoints are read from this"):
        plugin.load_checkpoint("http://127.0.0.1/a.ckpt")
    with pytest.raises(ValueError, match="s3://b/a.ckpt is a URL; checkpoints are saved in a directory"):
        plugin.save_checkpoint(example(), "s3://b/a.ckpt")
    url = f"file://{save(tmp_path / 'a.ckpt')}"
    assert AtomicCheckpointIO(allow_remote=True).load_checkpoint(url)["zoo"]["file"] == url
    (tmp_path / "a.ckpt").write_bytes(b"x")
    with pytest.raises(ValueError, match=f"{url} is no checkpoint, or was cut off"):
        AtomicCheckpointIO(allow_remote=True).load_checkpoint(url)
    with pytest.raises(OSError, match="file:///nowhere could not be read"):
        AtomicCheckpointIO(allow_remote=True).load_checkpoint("file:///nowhere")


# ---- the newest


def test_the_newest_good_one(tmp_path):
    paths = [save(tmp_path / f"{step}.ckpt", example(step)) for step in (5, 9, 7)]
    assert newest(paths) == (tmp_path / "9.ckpt", [])
    (tmp_path / "9.ckpt").write_bytes((tmp_path / "9.ckpt").read_bytes()[:-1])
    found, refused = newest([*paths, tmp_path / "gone.ckpt"])
    assert found == tmp_path / "7.ckpt" and len(refused) == 2
    assert "9.ckpt" in refused[0] and "gone.ckpt cannot be read: No such file" in refused[1]
    os.utime(save(tmp_path / "again.ckpt", example(7)), (2**31, 2**31))
    assert newest([tmp_path / "again.ckpt", *paths])[0] == tmp_path / "again.ckpt"
    assert newest([]) == (None, [])


# ---- in anybody's Trainer


def trainer(folder: Path, plugins: list, steps: int) -> pl.Trainer:
    saver = ModelCheckpoint(folder, save_last=True, every_n_train_steps=1)
    rest = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(max_steps=steps, callbacks=[saver], plugins=plugins, limit_val_batches=0, **rest)


def task() -> Classify:
    return Classify(ViT(dim=8, depth=1, heads=2, grid=2, prefix=0), Patches(size=8, patch=4, channels=1), classes=10)


@pytest.mark.parametrize("reader", [[], [AtomicCheckpointIO()]], ids=["lightning", "ours"])
@pytest.mark.parametrize("writer", [[], [AtomicCheckpointIO()]], ids=["lightning", "ours"])
@pytest.mark.filterwarnings("ignore")
def test_training_goes_on_with_and_without_the_plugin(writer, reader, tmp_path):
    trainer(tmp_path, writer, 2).fit(task(), Images())
    resumed = trainer(tmp_path, reader, 3)
    resumed.fit(task(), Images(), ckpt_path=tmp_path / "last.ckpt")
    assert resumed.global_step == 3
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 3
    again = Classify.load_from_checkpoint(tmp_path / "last.ckpt")
    theirs = pl.LightningModule.load_from_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    assert all(map(torch.equal, again.parameters(), theirs.parameters()))
