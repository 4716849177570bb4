"""Data modules, each with an embedded default that needs no download, and batches that repeat exactly."""

from zoo.data.audio import Audio
from zoo.data.augment import Affine, Augment, CropFlip, Erase, Mixup, SpecAugment, Transform
from zoo.data.combined import Combined
from zoo.data.image import Images
from zoo.data.module import DataModule
from zoo.data.order import Loader, Order
from zoo.data.pairs import Pairs
from zoo.data.randaugment import ColorJitter, RandAugment, TrivialAugment
from zoo.data.recording import read_audio
from zoo.data.stream import Stream
from zoo.data.text import Text
from zoo.data.tones import goertzel

__all__ = [
    "Affine",
    "Audio",
    "Augment",
    "ColorJitter",
    "Combined",
    "CropFlip",
    "DataModule",
    "Erase",
    "Images",
    "Loader",
    "Mixup",
    "Order",
    "Pairs",
    "RandAugment",
    "SpecAugment",
    "Stream",
    "Text",
    "Transform",
    "TrivialAugment",
    "goertzel",
    "read_audio",
]
