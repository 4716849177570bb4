"""What training will cost, before a weight is allocated: parameters, FLOPs, memory a device, and days."""

from zoo.planning.batch import Shape, shapes
from zoo.planning.devices import DEVICES, HERE, Device, device
from zoo.planning.parameters import active, by_part
from zoo.planning.rehearsal import Peak, Rehearsal, rehearse
from zoo.planning.strategies import Strategy, strategies
from zoo.planning.subject import Subject

__all__ = [
    "DEVICES",
    "HERE",
    "Device",
    "Peak",
    "Rehearsal",
    "Shape",
    "Strategy",
    "Subject",
    "active",
    "by_part",
    "device",
    "rehearse",
    "shapes",
    "strategies",
]
