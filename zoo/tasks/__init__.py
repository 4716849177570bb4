"""LightningModules: what is predicted from what, and how it is scored."""

from zoo.tasks.causal_lm import CausalLM
from zoo.tasks.classify import Classify
from zoo.tasks.contrastive import Contrastive
from zoo.tasks.masked_lm import MaskedLM
from zoo.tasks.masking import Masking, RandomMasking, SpanMasking
from zoo.tasks.metrics import BLEU, CER, WER, ChrF, ExactMatch, TextMetric
from zoo.tasks.multimodal import Multimodal
from zoo.tasks.schedule import Constant, InverseSquareRoot, Schedule, Trapezoid, WarmupCosine, WarmupLinear
from zoo.tasks.seq2seq import Seq2Seq
from zoo.tasks.task import Task

__all__ = [
    "BLEU",
    "CER",
    "WER",
    "CausalLM",
    "ChrF",
    "Classify",
    "Constant",
    "Contrastive",
    "ExactMatch",
    "InverseSquareRoot",
    "MaskedLM",
    "Masking",
    "Multimodal",
    "RandomMasking",
    "Schedule",
    "Seq2Seq",
    "SpanMasking",
    "Task",
    "TextMetric",
    "Trapezoid",
    "WarmupCosine",
    "WarmupLinear",
]
