"""Published families, one a file: classes whose constructors compose parts of ``zoo.nn``, and their published form."""

from zoo.models import (
    ast,
    bart,
    bert,
    clip,
    deberta,
    esm,
    gpt,
    gpt2,
    llama,
    mistral,
    roberta,
    t5,
    timm,
    transformer,
    vit,
    whisper,
)
from zoo.models.ast import AST
from zoo.models.bart import BART
from zoo.models.bert import BERT
from zoo.models.clip import CLIPText, CLIPVision
from zoo.models.deberta import DeBERTa, DeBERTa2
from zoo.models.esm import ESM
from zoo.models.gpt import GPT
from zoo.models.gpt2 import GPT2
from zoo.models.llama import LLaMA
from zoo.models.mistral import Mistral
from zoo.models.published import Architecture, Published, Size
from zoo.models.roberta import RoBERTa
from zoo.models.t5 import T5, T5Gated
from zoo.models.transformer import Transformer
from zoo.models.vit import ViT
from zoo.models.whisper import Whisper

PUBLISHED: tuple[Published, ...] = (
    bert.PUBLISHED,
    roberta.PUBLISHED,
    roberta.XLM,
    roberta.CAMEMBERT,
    deberta.PUBLISHED,
    deberta.SECOND_PUBLISHED,
    esm.PUBLISHED,
    gpt.PUBLISHED,
    gpt2.PUBLISHED,
    llama.PUBLISHED,
    mistral.PUBLISHED,
    t5.PUBLISHED,
    t5.PUBLISHED_GATED,
    t5.PUBLISHED_MULTILINGUAL,
    bart.PUBLISHED,
    transformer.MARIAN,
    transformer.FSMT,
    whisper.PUBLISHED,
    vit.PUBLISHED,
    timm.PUBLISHED,
    ast.PUBLISHED,
    clip.PUBLISHED,
)

__all__ = [
    "AST",
    "BART",
    "BERT",
    "ESM",
    "GPT",
    "GPT2",
    "T5",
    "CLIPText",
    "CLIPVision",
    "DeBERTa",
    "DeBERTa2",
    "LLaMA",
    "Mistral",
    "RoBERTa",
    "T5Gated",
    "Transformer",
    "ViT",
    "Whisper",
]
