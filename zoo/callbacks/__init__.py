"""Callbacks for Lightning's Trainer; each can be named in a config."""

from zoo.callbacks.checkpointing import ActivationCheckpointing
from zoo.callbacks.compile import Compile
from zoo.callbacks.finite import FiniteGuard
from zoo.callbacks.layer_decay import LayerDecay
from zoo.callbacks.pictures import Pictures
from zoo.callbacks.progress import Progress, ProgressLines
from zoo.callbacks.resume import ExactResume
from zoo.callbacks.signals import SaveOnSignal, Stopped
from zoo.callbacks.skipped import Skipped
from zoo.callbacks.space import CheckSpace
from zoo.callbacks.summary import Summary
from zoo.callbacks.throughput import Throughput
from zoo.callbacks.watchdog import Watchdog

__all__ = [
    "ActivationCheckpointing",
    "CheckSpace",
    "Compile",
    "ExactResume",
    "FiniteGuard",
    "LayerDecay",
    "Pictures",
    "Progress",
    "ProgressLines",
    "SaveOnSignal",
    "Skipped",
    "Stopped",
    "Summary",
    "Throughput",
    "Watchdog",
]
