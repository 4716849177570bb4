"""Published families, one a file: classes whose constructors compose parts of ``zoo.nn``, and their published form."""

from zoo.models import ast, bart, bert, clip, deberta, esm, gpt, gpt2, llama, mistral, roberta, t5, timm, vit, whisper
from zoo.models.ast import AST
from zoo.models.bart import BART
from zoo.models.bert import BERT
from zoo.models.clip import CLIPText, CLIPVision
from zoo.models.deberta import SECOND_PUBLISHED, DeBERTa, DeBERTa2
from zoo.models.esm import ESM
from zoo.models.gpt import GPT
from zoo.models.gpt2 import GPT2
from zoo.models.llama import LLaMA
from zoo.models.mistral import Mistral
from zoo.models.published import Architecture, Published, Size
from zoo.models.roberta import CAMEMBERT, XLM, RoBERTa
from zoo.models.t5 import PUBLISHED_GATED, PUBLISHED_MULTILINGUAL, T5, T5Gated
from zoo.models.transformer import FSMT, MARIAN, Transformer
from zoo.models.vit import ViT
from zoo.models.whisper import Whisper

FIRST = (bert, roberta, deberta, esm, gpt, gpt2, llama, mistral, t5, bart, whisper, vit, timm, ast, clip)
MORE = (XLM, CAMEMBERT, SECOND_PUBLISHED, PUBLISHED_GATED, PUBLISHED_MULTILINGUAL, MARIAN, FSMT)
PUBLISHED: tuple[Published, ...] = (*(module.PUBLISHED for module in FIRST), *MORE)

__all__ = ["AST", "BART", "BERT", "ESM", "GPT", "GPT2", "T5", "CLIPText", "CLIPVision", "DeBERTa", "DeBERTa2", "LLaMA"]
__all__ += ["Mistral", "RoBERTa", "T5Gated", "Transformer", "ViT", "Whisper"]
