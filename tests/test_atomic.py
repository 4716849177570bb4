"""Files that are replaced at once: the old content or the new, whatever stops the writer, and nothing left behind."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from zoo import atomic
from zoo.atomic import replaced, sweep, told, workshop, write_text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("mode", "content"), [("w", "é\r\n\n"), ("wb", b"\0\r\n")])
def test_a_file_is_replaced_as_it_is_written(mode, content, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replaced(path, mode) as file:
        file.write(content)
        file.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert names(tmp_path) == ["file"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replaced(path) as file:
        file.write("new")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file(mask, tmp_path):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "ours", "x")
        (tmp_path / "theirs").write_text("x")
    finally:
        os.umask(before)
    ours, theirs = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "theirs"))
    assert ours == theirs == 0o666 & ~mask


def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(atomic.os, "fsync", lambda number: calls.append(os.path.isdir(f"/proc/self/fd/{number}")))
    real = os.replace
    monkeypatch.setattr(atomic.os, "replace", lambda a, b: (calls.append("renamed"), real(a, b)))
    write_text(tmp_path / "file", "x")
    assert calls == [False, "renamed", True]


def test_a_link_is_replaced_and_not_what_it_points_to(tmp_path):
    (tmp_path / "best").write_text("best")
    (tmp_path / "last").symlink_to(tmp_path / "best")
    write_text(tmp_path / "last", "last")
    assert (tmp_path / "best").read_text() == "best" and not (tmp_path / "last").is_symlink()


def test_devices_and_pipes_are_written_to(tmp_path):
    write_text("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_text(tmp_path / "pipe", "through")
    reader.join()
    assert found == ["through"] and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_standard_output_stays_what_it_is(tmp_path):
    code = "from zoo.atomic import write_text; write_text('/dev/stdout', 'text')"
    with open(tmp_path / "out", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "text" and os.path.islink("/dev/stdout")


# ---- what is left behind


def left(folder, name="file"):
    """A file as a killed process leaves it."""
    path = folder / f".{name}.0123abcd.partial"
    path.write_text("half")
    return path


def test_a_sweep_takes_what_was_left_and_nothing_that_is_being_written(tmp_path):
    left(tmp_path), left(tmp_path, "other")
    (tmp_path / ".saving.0123abcd.partial").mkdir()
    (tmp_path / ".saving.0123abcd.partial" / "weights").write_text("half")
    for name in ("file", ".hidden", "x.partial", ".x.partial"):
        (tmp_path / name).write_text("mine")
    with replaced(tmp_path / "file") as file, workshop(tmp_path) as work:
        sweep(tmp_path)
        file.write("new")
        (work / "x").write_text("x")
        assert len(names(tmp_path)) == 6
    assert names(tmp_path) == [".hidden", ".x.partial", "file", "x.partial"]
    assert (tmp_path / "file").read_text() == "new"


def test_a_sweep_for_one_name(tmp_path):
    kept = [left(tmp_path, "other"), left(tmp_path, "[f]ile")]
    left(tmp_path)
    sweep(tmp_path, "file")
    assert names(tmp_path) == sorted(path.name for path in kept)
    sweep(tmp_path / "nowhere")


def test_an_error_is_told_in_a_sentence():
    error = told(OSError(28, "No space left on device"), "cannot write x", "make room")
    assert str(error) == "cannot write x: no space left on device; make room" and error.errno == 28
    assert type(told(PermissionError(13, "Permission denied"), "x")) is PermissionError
