"""Callbacks for Lightning's Trainer; each can be named in a config."""

from zoo.callbacks.compile import Compile
from zoo.callbacks.pictures import Pictures
from zoo.callbacks.progress import Progress, ProgressLines
from zoo.callbacks.summary import Summary
from zoo.callbacks.throughput import Throughput

__all__ = ["Compile", "Pictures", "Progress", "ProgressLines", "Summary", "Throughput"]
