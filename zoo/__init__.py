"""Transformers of every family and modality, put together from parts and trained with Lightning.

Every public name is here too, and imported when first asked for: ``zoo.ViT`` is ``zoo.models.ViT``.
"""

import importlib

# Nothing else is imported here: the command line has yet to take the working directory off the path.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# Stated rather than collected, since collecting would import torch; tests/test_layout.py compares it with the truth.
_PUBLIC = {
    "zoo.nn": """
        ALiBi Activation AdaNorm And Attention Backbone Block Buckets Cache Causal ClassToken Context Convolved
        Disentangled EncoderDecoder FeedForward First FrequencyScaling Full GLU Gated Global HalfPrecision Head
        HeadFactory Init Last LayerNorm Learned Learned2d LinearScaling Llama3Scaling MLP Mask Mean Mixer NoNorm
        Norm Or Parallel Part Pool Pooler Position PositionProjections PostNorm PreNorm Prefix Project RMSNorm
        Residual Rotary Sandwich Shifted Sinusoidal Sinusoidal2d Slot TransformHead Window attend cross_entropy
        padding_positions plain_cross_entropy resize_grid segment_positions sinusoid sinusoid_2d
    """,
    "zoo.tokenizers": """
        BPE Batch Characters ConvFrames ConvStem Embed FeatureEmbed Fit FrameStem Frames Ids KaldiLogMel LinearEmbed
        LinearStem LogMel MeanNormalised PatchFrames Patches ResidueEmbed Resize Resizing Scores Spectrogram Stem
        Subword TextEmbed TextTokenizer Tokenizer Tokens Waveform WhisperLogMel
    """,
    "zoo.generation": """
        Beam Draft Drafter Force ForceLast Generation Greedy Lookup MinLength MinTotal NoRepeat OneOf Renormalise
        RepetitionPenalty Rule Sample Search Speculative Suppress SuppressFirst Writer Written
    """,
    "zoo.models": """
        AST BART BERT CLIPText CLIPVision DeBERTa DeBERTa2 ESM GPT GPT2 LLaMA Mistral RoBERTa T5 T5Gated Transformer
        ViT Whisper
    """,
    "zoo.optim": """
        MuonAdamW
    """,
    "zoo.hub": """
        create create_backbone load load_backbone load_tokenizer save
    """,
    "zoo.listing": """
        list
    """,
    "zoo.precision": """
        Int4Linear Int8Linear PackedLinear Precision for_inference prepared weight_bytes
    """,
    "zoo.memory": """
        keep_freed_memory
    """,
    "zoo.parts": """
        anatomy differences
    """,
    "zoo.checkpoints": """
        AtomicCheckpointIO newest read_checkpoint
    """,
    "zoo.parallel": """
        ModelParallel
    """,
    "zoo.tasks": """
        BLEU CER CausalLM ChrF Classify Constant Contrastive ExactMatch InverseSquareRoot MaskedLM Masking Multimodal
        RandomMasking Schedule Seq2Seq SpanMasking Task TextMetric Trapezoid WER WarmupCosine WarmupLinear
    """,
    "zoo.data": """
        Affine Audio Augment ColorJitter Combined CropFlip DataModule Erase Images Loader Mixup Order Pairs RandAugment
        SpecAugment Stream Text Transform TrivialAugment goertzel read_audio
    """,
    "zoo.callbacks": """
        ActivationCheckpointing CheckSpace Compile ExactResume FiniteGuard LayerDecay Pictures Progress ProgressLines
        SaveOnSignal Skipped Stopped Summary Throughput Watchdog
    """,
}
EXPORTS = {module: tuple(names.split()) for module, names in _PUBLIC.items()}
_HOME = {name: module for module, names in reversed(EXPORTS.items()) for name in names}

# ``list`` is left out: whoever imports everything keeps Python's own.
__all__ = ["EXPORTS", "__version__", *(name for name in _HOME if name != "list")]  # noqa: PLE0604


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module 'zoo' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
