"""Runs that are over: read from disk or from W&B's offline files, compared, and drawn.  Neither torch nor Lightning."""

from zoo.runs.curves import draw
from zoo.runs.metrics import Best, best, direction
from zoo.runs.read import NoMetrics, Run, read

__all__ = ["Best", "NoMetrics", "Run", "best", "direction", "draw", "read"]
