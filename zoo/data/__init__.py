"""Data modules, each with an embedded default that needs no download, and batches that repeat exactly."""

from zoo.data.audio import Audio
from zoo.data.augment import Affine, Augment, CropFlip, Erase, Mixup, SpecAugment, Transform
from zoo.data.combined import Combined
from zoo.data.image import Images
from zoo.data.module import DataModule
from zoo.data.order import Loader, Order
from zoo.data.pairs import Pairs
from zoo.data.recording import read_audio
from zoo.data.text import Text
from zoo.data.tones import goertzel

__all__ = [
    "Affine",
    "Audio",
    "Augment",
    "Combined",
    "CropFlip",
    "DataModule",
    "Erase",
    "Images",
    "Loader",
    "Mixup",
    "Order",
    "Pairs",
    "SpecAugment",
    "Text",
    "Transform",
    "goertzel",
    "read_audio",
]
