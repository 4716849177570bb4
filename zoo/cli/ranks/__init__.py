"""Several processes on one machine: one more that starts them, watches over them, and ends them all when one fails."""

from zoo.cli.ranks.launch import processes
from zoo.cli.ranks.member import join, told
from zoo.cli.ranks.supervise import supervise

__all__ = ["join", "processes", "supervise", "told"]
