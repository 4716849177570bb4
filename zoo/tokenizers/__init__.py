"""Raw data to tokens and back, and what predicting a token means."""

from zoo.tokenizers.audio import ConvFrames, Frames, FrameStem, PatchFrames, Waveform
from zoo.tokenizers.bpe import BPE
from zoo.tokenizers.characters import Characters
from zoo.tokenizers.embed import FeatureEmbed, LinearEmbed
from zoo.tokenizers.image import ConvStem, Fit, LinearStem, Patches, Resize, Resizing, Stem
from zoo.tokenizers.residues import ResidueEmbed
from zoo.tokenizers.spectrogram import KaldiLogMel, LogMel, MeanNormalised, Spectrogram, WhisperLogMel
from zoo.tokenizers.subword import Subword
from zoo.tokenizers.text import Ids, TextEmbed, TextTokenizer
from zoo.tokenizers.tokenizer import Batch, Embed, Scores, Tokenizer, Tokens

__all__ = [
    "BPE",
    "Batch",
    "Characters",
    "ConvFrames",
    "ConvStem",
    "Embed",
    "FeatureEmbed",
    "Fit",
    "FrameStem",
    "Frames",
    "Ids",
    "KaldiLogMel",
    "LinearEmbed",
    "LinearStem",
    "LogMel",
    "MeanNormalised",
    "PatchFrames",
    "Patches",
    "ResidueEmbed",
    "Resize",
    "Resizing",
    "Scores",
    "Spectrogram",
    "Stem",
    "Subword",
    "TextEmbed",
    "TextTokenizer",
    "Tokenizer",
    "Tokens",
    "Waveform",
    "WhisperLogMel",
]
