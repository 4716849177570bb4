"""What published models read, a file a modality: tokenizers from the files beside the weights, and back."""

from zoo.processors.audio import SpeechProcessor
from zoo.processors.image import ImageProcessor, ImageTextProcessor
from zoo.processors.pair import TwoVocabularies
from zoo.processors.processor import Files, Processor
from zoo.processors.spectrogram import SpectrogramProcessor
from zoo.processors.text import TextProcessor, read_text, write_text

__all__ = [
    "Config",
    "Files",
    "ImageProcessor",
    "ImageTextProcessor",
    "Processor",
    "SpectrogramProcessor",
    "SpeechProcessor",
]
__all__ += ["TextProcessor", "TwoVocabularies", "read_text", "write_text"]
