"""Published families, one a file: classes whose constructors compose parts of ``zoo.nn``, and their published form."""

from zoo.models import bert
from zoo.models.bart import BART
from zoo.models.bert import BERT
from zoo.models.gpt2 import GPT2
from zoo.models.llama import LLaMA
from zoo.models.published import Architecture, Published, Size
from zoo.models.t5 import T5, T5Gated
from zoo.models.transformer import Transformer
from zoo.models.vit import ViT
from zoo.models.whisper import Whisper

PUBLISHED: tuple[Published, ...] = (bert.PUBLISHED,)

__all__ = ["BART", "BERT", "GPT2", "T5", "LLaMA", "T5Gated", "Transformer", "ViT", "Whisper"]
