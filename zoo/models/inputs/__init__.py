"""What published models read, a file a modality: tokenizers from the files beside the weights, and back."""

from zoo.models.inputs.inputs import Config, Files, Inputs
from zoo.models.inputs.text import TextInputs, read_text, write_text

__all__ = ["Config", "Files", "Inputs", "TextInputs", "read_text", "write_text"]
