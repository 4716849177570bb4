"""``python -m zoo compare``."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import zoo
from tests.runs.conftest import curve, written  # noqa: F401 -- fixtures

FIT = ("fit", "--config", "digits", "--model.optimizer=AdamW")


def rows_of(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_two_trainings_differ_in_the_learning_rate_alone(command):
    for lr in ("0.01", "0.001"):
        answer = command(*FIT, f"--model.optimizer.lr={lr}")
        assert answer.code == 0, answer.err
    first, second = sorted(Path("runs").iterdir(), key=lambda path: (path / "config.yaml").stat().st_mtime_ns)
    answer = command("compare", str(first), str(second))
    assert answer.code == 0 and answer.err == ""
    rows = rows_of(answer.out)
    begin = rows.index(["what", "differs", "in", "the", "configs"])
    assert rows[begin + 2] == ["model.init_args.optimizer.init_args.lr", "0.01", "0.001"]
    assert rows[begin + 3] == []
    assert any(row[:2] == ["val/accuracy", "↑"] for row in rows)
    assert Image.open("compare.png").format == "PNG"
    assert "model.init_args.optimizer.init_args.lr" in Path("compare.html").read_text()
    alone = command("compare", str(first), "--out", "one/picture.html")
    assert alone.code == 0 and "differ" not in alone.out and first.name in alone.out
    assert {path.name for path in Path("one").iterdir()} == {"picture.png", "picture.html"}


def test_many_runs_turn_the_table(command, written, curve):  # noqa: F811
    for place in range(20):
        written(f"a_run_with_a_name-{place:02d}_that_is_long", curve(1 + place), {"lr": place, "model": {"depth": 2}})
    answer = command("compare", "runs")
    rows = rows_of(answer.out)
    assert ["07_that_is_long", "7"] in rows and ["lr"] in rows
    assert answer.out.count("model") == 0
    assert max(map(len, answer.out.splitlines())) <= 200


def test_tables_wider_than_the_screen_go_on_below(command, written, curve):  # noqa: F811
    keys = [f"a_key_with_a_name_{key}_" for key in range(20)]
    for place in range(12):
        written(f"run-{place}_has_a_name_that_is_long", curve(), {key: f"{place}:{key}" for key in keys})
    out = command("compare", "runs").out
    assert max(map(len, out.splitlines())) <= 200
    assert all(f"{place}:{key}" in out for place in range(12) for key in keys)
    assert sum(line.startswith(keys[0]) for line in out.splitlines()) == 2


def test_long_values_lose_their_middle(command, written, curve):  # noqa: F811
    for name in "ab":
        written(name, curve(), {"root": f"/data/{'x' * 100}/{name}.txt"})
    assert "/data/xxxxxxxxxxxxxx…xxxxxxxxxxxxx/a.txt" in command("compare", "runs").out


def test_equal_runs_and_runs_given_twice(command, written, curve):  # noqa: F811
    written("a-1", curve(), {"lr": 1})
    written("a-2", curve(), {"lr": 1})
    assert "the configs are equal" in command("compare", "runs").out
    assert "configs" not in command("compare", "runs/a-1", "runs/a-1").out


def test_what_has_no_metrics_is_left_out_and_named(command, written, curve):  # noqa: F811
    written("a", curve())
    written("b", [])
    answer = command("compare", "runs")
    assert answer.code == 0 and answer.err.startswith("zoo: left out: runs/b has no metrics")


@pytest.mark.parametrize("path", ["nothing", "runs/b", "digits.yaml", "."])
def test_mistakes_are_one_line(command, written, path):  # noqa: F811
    written("b", [])
    answer = command("compare", path)
    assert answer.code == 1 and answer.out == ""
    assert answer.err.startswith(f"zoo: error: {path}") and answer.err.count("\n") == 1


def test_without_matplotlib_there_is_still_the_page(command, written, curve, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written("a", curve())
    answer = command("compare", "runs")
    assert answer.code == 0 and "lightning-zoo[demo]" in answer.err
    assert Path("compare.html").exists() and not Path("compare.png").exists()


def test_torch_and_lightning_are_not_imported(written, curve, tmp_path):  # noqa: F811
    words = ["compare", str(written("a", curve())), "--out", str(tmp_path / "out")]
    code = "import sys; from zoo.__main__ import main; main(sys.argv[1:]); print(*sys.modules)"
    home = Path(zoo.__file__).parent.parent
    answer = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=home)
    loaded = {name.split(".")[0] for name in answer.stdout.splitlines()[-1].split()}
    assert "matplotlib" in loaded and not loaded & {"torch", "lightning", "wandb", "torchmetrics"}
