"""Published checkpoints: loaded, saved, and begun anew by the names of their sizes."""

from zoo.hub.create import create, create_backbone
from zoo.hub.load import load, load_backbone, load_tokenizer
from zoo.hub.save import save

__all__ = ["create", "create_backbone", "load", "load_backbone", "load_tokenizer", "save"]
