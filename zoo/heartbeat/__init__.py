"""What one process of several tells whoever watches over them: that it goes on, that it is done, or why it failed."""

from zoo.heartbeat.place import Frame, call_chain, compiles_or_debugs, place, read_dump, waits
from zoo.heartbeat.pulse import SIZE, Heart, Pulse, beat, heart, read_pulse
from zoo.heartbeat.told import Told, read_told

__all__ = [
    "SIZE",
    "Frame",
    "Heart",
    "Pulse",
    "Told",
    "beat",
    "call_chain",
    "compiles_or_debugs",
    "heart",
    "place",
    "read_dump",
    "read_pulse",
    "read_told",
    "waits",
]
