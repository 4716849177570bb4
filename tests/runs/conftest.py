"""Runs written by hand, so that a test knows what they hold."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Writer = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Writer:
    """``written(name, rows, config, summary)``: a run directory."""

    def write(name: str, rows: list[dict[str, Any]], config: Any = None, summary: Any = None) -> Path:
        path = tmp_path / "runs" / name
        path.mkdir(parents=True)
        with (path / "metrics.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            table.writeheader()
            table.writerows(rows)
        if config is not None:
            (path / "config.yaml").write_text(yaml.safe_dump(config))
        if summary is not None:
            (path / "summary.json").write_text(json.dumps(summary))
        return path

    return write


@pytest.fixture
def curve() -> Callable[..., list[dict[str, Any]]]:
    """``curve(floor)``: rows of a loss that falls to ``floor``, with every x-axis, evaluated at each tenth step."""

    def rows(floor: float = 1.0, steps: int = 50, seconds: float = 0.5) -> list[dict[str, Any]]:
        made = []
        for step in range(1, steps + 1):
            where = {
                "step": step,
                "samples": 8 * step,
                "tokens": 64 * step,
                "seconds": seconds * step,
                "flops": 1e9 * step,
            }
            made.append({**where, "epoch": step // 25, "lr": 0.1, "train/loss": floor + 10 / step})
            if step % 10 == 0:
                loss = floor + 11 / step
                made.append({**where, "epoch": step // 25, "val/loss": loss, "val/accuracy": 1 / loss})
        return made

    return rows
