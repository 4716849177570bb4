"""What the README says works: its Python runs, its part drops into a config, its commands and files exist."""

import re
from pathlib import Path

import pytest
import yaml

from zoo.listing import shipped, sweeps

README = Path(__file__).resolve().parent.parent / "README.md"
TEXT = README.read_text(encoding="utf8")
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("number", [i for i, code in enumerate(PYTHON) if not code.startswith("# my_parts.py")])
def test_its_python_runs(number, command):
    if PYTHON[number].startswith("# after the training above"):
        short = ("max_epochs=1", "limit_train_batches=2", "limit_val_batches=1", "check_val_every_n_epoch=1")
        assert command("fit", "--config", "vit_digits", *(f"--trainer.{word}" for word in short)).code == 0
    exec(compile(PYTHON[number], f"README.md, block {number}", "exec"), {"__name__": "readme"})


def test_its_part_drops_into_a_config(command, tmp_path):
    (part,) = [code for code in PYTHON if code.startswith("# my_parts.py")]
    (tmp_path / "my_parts.py").write_text(part)
    config = yaml.safe_load((tmp_path / "digits.yaml").read_text())
    config["model"]["init_args"] |= yaml.safe_load(next(text for text in YAML if "my_parts" in text))
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(config))
    answer = command("fit", "--config", "own", "--allow", "my_parts")
    assert answer.code == 0, answer.err
    (run,) = (tmp_path / "runs").glob("own-*")
    assert "my_parts.Average" in (run / "config.yaml").read_text()


def test_the_configs_that_it_names_are_shipped():
    named = set(re.findall(r"--config ([\w/]+)", TEXT)) - {"NAME"}
    assert named and named <= set(shipped())
    assert set(re.findall(r"configs/sweeps/(\w+)", TEXT)) <= set(sweeps())


@pytest.mark.skipif(not (README.parent / "docs").is_dir(), reason="the tests run beside an installed wheel")
def test_the_pages_and_pictures_that_it_shows_are_there():
    for path in re.findall(r"\]\((docs/[\w./]+)\)", TEXT):
        assert (README.parent / path).is_file(), path


def test_the_tree_is_the_tree():
    if not (README.parent / "zoo").is_dir():
        pytest.skip("the tests run beside an installed wheel")
    for path in re.findall(r"^(\w[\w/]*(?:\.py|/))  ", TEXT, re.MULTILINE):
        assert (README.parent / path).exists(), path
