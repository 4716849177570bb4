"""Published checkpoints: loaded, saved, and begun anew by the names of their sizes."""

from zoo.hub.load import load, load_backbone, load_tokenizer
from zoo.hub.new import new, new_backbone
from zoo.hub.save import save

__all__ = ["load", "load_backbone", "load_tokenizer", "new", "new_backbone", "save"]
