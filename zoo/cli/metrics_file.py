"""metrics.csv: everything that a run logged, a row a call, in the run directory."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment

from zoo.atomic import replaced, told

FIRST = ("epoch", "step")


class MetricsFile(Logger):
    """Rows are appended as they come, so that a run that is killed keeps them; a metric that is new makes the file
    anew with one column more.  A run that is gone on with keeps the rows that its checkpoint knows of."""

    def __init__(self, path: Path, counted_from: int = 0):
        """``counted_from`` is added to Lightning's steps: 1 in training, where it numbers the step that has just been
        taken from 0, and here stands how many have been taken."""
        super().__init__()
        self.path, self.counted_from = path, counted_from
        self.columns: list[str] = []
        self.count = 0  # of rows

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def log_dir(self) -> str:
        return str(self.path.parent)

    @property
    @rank_zero_experiment
    def experiment(self) -> MetricsFile:
        return self

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """They are in config.yaml."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {**metrics, "step": None if step is None else step + self.counted_from}
        new = [name for name in row if name not in self.columns]
        if new:
            rows = self.rows()
            self.columns = [*FIRST, *(name for name in [*self.columns, *new] if name not in FIRST)]
            self.write(rows)
        try:
            with open(self.path, "a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.columns).writerow(row)
        except OSError as error:
            raise told(error, f"cannot write {self.path}") from error
        self.count += 1

    @rank_zero_only
    def rewind(self, step: int, count: int | None = None) -> None:
        """Forget the rows behind the first ``count``, or behind ``step`` where a checkpoint does not say how many there
        were: training goes on from there."""
        rows = [row for row in self.rows() if count is not None or float(row["step"] or 0) <= step][:count]
        self.count = len(rows)
        if not rows:
            self.path.unlink(missing_ok=True)
            return
        self.columns = list(rows[0])
        self.write(rows)

    def rows(self) -> list[dict[str, str]]:
        if not self.path.is_file():
            return []
        with open(self.path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def write(self, rows: list[dict[str, str]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(self.path) as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
