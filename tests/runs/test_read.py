"""Runs on disk: what is read, what is forgiven and what is refused."""

import math

import pytest

from zoo.runs import NoMetrics, read


def test_a_folder_is_one_run(written):
    rows = [{"step": 1, "train/loss": 2.5, "lr": 0.1}, {"step": 2, "train/loss": "nan"}, {"step": 3, "val/loss": "inf"}]
    path = written("a-1", rows, {"model": {"depth": 2}}, {"parameters": 12})
    (run,) = read(path)
    assert (run.name, run.path, run.config, run.summary) == ("a-1", path, {"model": {"depth": 2}}, {"parameters": 12})
    assert run.names == ["train/loss", "lr", "val/loss"]
    x, y = run.points("train/loss")
    assert x == [1, 2] and y[0] == 2.5 and math.isnan(y[1])
    assert run.points("val/loss") == ([3], [math.inf])
    assert run.points("val/loss", "tokens") == ([], [])
    assert run.reached("step") == 3 and run.reached("tokens") is None


def test_a_run_may_have_nothing_but_metrics(written):
    (run,) = read(written("old", [{"step": 1, "val/loss": 2}]))
    assert run.config == {} and run.summary == {}


def test_a_row_without_an_axis_is_where_the_row_before_was(written):
    (run,) = read(written("a", [{"step": 4, "tokens": 80, "train/loss": 1}, {"step": 5, "val/loss": 2}]))
    assert run.points("val/loss", "tokens") == ([80], [2])
    assert run.points("val/loss") == ([5], [2])


def test_a_folder_of_runs_gives_those_with_metrics(written):
    for name in ("b", "a"):
        written(name, [{"step": 1, "val/loss": 2}])
    empty = written("c", [], {"model": 1})
    (empty.parent / "notes").mkdir()
    with pytest.warns(UserWarning, match="runs/c has no metrics"):
        runs = read(empty.parent)
    assert [run.name for run in runs] == ["a", "b"]
    with pytest.raises(NoMetrics, match=r"runs/c has no metrics.*metrics\.csv"):
        read(empty)


def test_what_is_no_run_is_named(tmp_path, written):
    (tmp_path / "file.txt").write_text("x")
    for path, fault in (("nothing", "does not exist"), ("file.txt", "is no run"), (".", "holds no run with metrics")):
        with pytest.raises(ValueError, match=fault):
            read(tmp_path / path)


def test_a_line_that_was_not_finished_is_left_out(written):
    path = written("a", [{"step": 1, "val/loss": 2}, {"step": 2, "val/loss": 1}])
    with (path / "metrics.csv").open("a") as file:
        file.write("3")
    assert read(path)[0].points("val/loss") == ([1, 2], [2, 1])


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("metrics.csv", "step,val/loss\n1,2\n2\n3,4\n", "line 3 has 1 cells, and its head 2"),
        ("metrics.csv", "step,val/loss\n1,good\n", "'good'"),
        ("metrics.csv", b"step\n\xff\xfe\n", "damaged"),
        ("config.yaml", "model: {a: [1\n", "YAML"),
        ("config.yaml", "- 1\n", "list"),
        ("summary.json", '{"parameters": 1', "JSON"),
    ],
)
def test_a_damaged_file_is_named(written, file, text, fault):
    path = written("a", [{"step": 1, "val/loss": 2}], {}, {})
    (path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(path / file) in str(caught.value) and fault in str(caught.value)
    assert "\n" not in str(caught.value)
