"""Data that are damaged or hostile, and their sound controls, for the command line to read."""

from tests.long.archives import damaged_archives
from tests.long.media import damaged_audio, damaged_images
from tests.long.texts import damaged_texts
from tests.long.vocabularies import damaged_tokenizers

__all__ = ["damaged_archives", "damaged_audio", "damaged_images", "damaged_texts", "damaged_tokenizers"]
