"""What published models read, a file a modality: tokenizers from the files beside the weights, and back."""

from zoo.models.inputs.audio import SpeechInputs
from zoo.models.inputs.image import ImageInputs, ImageTextInputs
from zoo.models.inputs.inputs import Config, Files, Inputs
from zoo.models.inputs.pair import TwoVocabularies
from zoo.models.inputs.spectrogram import SpectrogramInputs
from zoo.models.inputs.text import TextInputs, read_text, write_text

__all__ = ["Config", "Files", "ImageInputs", "ImageTextInputs", "Inputs", "SpectrogramInputs", "SpeechInputs"]
__all__ += ["TextInputs", "TwoVocabularies", "read_text", "write_text"]
