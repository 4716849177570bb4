"""Callbacks for Lightning's Trainer; each can be named in a config."""

from zoo.callbacks.compile import Compile
from zoo.callbacks.throughput import Throughput

__all__ = ["Compile", "Throughput"]
