"""AST (Gong et al. 2021): the Audio Spectrogram Transformer, a ViT over overlapping patches of a spectrogram."""

from functools import partial

from zoo.convert import Leading, Rows, pairs
from zoo.models.published import Derived, Published, Size, classifier
from zoo.models.vit import KEYS, LAYERS, ViT
from zoo.nn import Activation, ClassToken, LayerNorm, Project
from zoo.processors import SpectrogramProcessor
from zoo.settings import Config


class AST(ViT):
    """The model of AudioSet by default: 128 bands and 1024 frames of 10 ms, patches of 16 x 16 every 10.

    ``grid`` is the number of patches along frequency and time; two class tokens stand before them
    (``ClassToken(count=2)``); the tokenizer is ``Frames(KaldiLogMel(frames=1024), stem=PatchFrames)``.  The rest is as
    in ``ViT``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        grid: list[int] | tuple[int, int] = (12, 101),
        act: Activation = "gelu",
        bias: bool = True,
        eps: float = 1e-12,
        dropout: float = 0.0,
    ):
        super().__init__(dim, depth, heads, hidden, list(grid), 2, eps, dropout, 0.0, act, bias)


# The files of transformers' AST.

SIDES = pairs("num_mel_bins frequency_stride max_length time_stride")
BASE = {"patch_size": 16, "num_mel_bins": 128, "max_length": 1024, "frequency_stride": 10, "time_stride": 10}
AUDIOSET = {"id2label": {str(i): f"LABEL_{i}" for i in range(527)}}


def load_grid(config: Config) -> list[int]:
    patch = config["patch_size"]
    if not isinstance(patch, int):
        raise ValueError(f"patch_size={patch!r} is not supported; a patch has as many bands as frames")
    return [(config[side] - patch) // config[stride] + 1 for side, stride in SIDES]


def save_grid(value: list[int], config: Config) -> None:
    """The least bands and frames that have so many patches, unless those that stand there have."""
    for number, present, (side, stride) in zip(value, load_grid(config), SIDES):
        if number != present:
            config[side] = (number - 1) * config[stride] + config["patch_size"]


def head(config: Config) -> partial:
    return partial(Project, norm=partial(LayerNorm, eps=config["layer_norm_eps"]))


NAMES = pairs("classifier.layernorm head.norm classifier.dense head.out")
CLASSES = classifier(NAMES, partial(ClassToken, count=2), head, prefix="audio_spectrogram_transformer.")

PUBLISHED = Published(
    "audio-spectrogram-transformer",
    AST,
    {**KEYS, "grid": Derived(load_grid, save_grid)},
    {"ASTForAudioClassification": CLASSES},
    trunk=(
        Rows(("embeddings.cls_token", "embeddings.distillation_token"), "pool.weight"),
        ("embeddings.patch_embeddings.projection", "embed.projection"),
        Leading("embeddings.position_embeddings", "backbone.position.weight"),
        *LAYERS,
    ),
    processor=SpectrogramProcessor(),
    base=BASE,
    sizes={"ast-base": Size(86_594_063, AUDIOSET)},
)
