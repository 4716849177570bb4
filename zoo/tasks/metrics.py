"""Scores over many batches and many processes, and the field's measures of generated text."""

from collections.abc import Sequence

import jiwer
import sacrebleu
import torch
import torch.distributed
from torch import Tensor

from zoo.described import Described
from zoo.tokenizers import Scores


class Meter:
    """Sums of scores and weights, kept on the device until somebody asks for the means."""

    def __init__(self):
        self.sums: dict[str, tuple[Tensor, Tensor]] = {}  # in double precision
        self.texts: list[tuple[str, str]] = []  # (hypothesis, reference)

    @torch.no_grad()
    def add(self, scores: Scores) -> None:
        """In place, since this is done at every step."""
        for name, (total, weight) in scores.items():
            kept = self.sums.get(name) or zeros(total)
            if kept[0].device != total.device:  # it was read from a checkpoint
                kept = (kept[0].to(total.device), kept[1].to(total.device))
            self.sums[name] = kept
            kept[0].add_(total)
            kept[1].add_(weight.to(total.device))

    def state(self) -> dict[str, list[float]]:
        """The sums and weights as plain numbers; the device is waited for once."""
        if not self.sums:
            return {}
        device = next(iter(self.sums.values()))[0].device
        values = torch.stack([value.to(device) for pair in self.sums.values() for value in pair]).tolist()
        return {name: values[2 * i : 2 * i + 2] for i, name in enumerate(self.sums)}

    @classmethod
    def restored(cls, *states: dict[str, list[float]]) -> "Meter":
        """One that goes on with the sums of others, together."""
        meter = cls()
        for state in states:
            pairs = {name: torch.tensor(pair, dtype=torch.double, device="cpu") for name, pair in state.items()}
            meter.add({name: (pair[0], pair[1]) for name, pair in pairs.items()})
        return meter

    def gather(self) -> "Meter":
        """The meter of all processes together; every one must call this."""
        if not distributed():
            return self
        parts = every([(self.state(), self.texts)])
        whole = Meter.restored(*(sums for sums, _ in parts))
        whole.texts = [text for _, texts in parts for text in texts]
        return whole

    def means(self) -> dict[str, float]:
        return {name: total / weight for name, (total, weight) in self.state().items() if weight}


def zeros(like: Tensor) -> tuple[Tensor, Tensor]:
    """A sum and a weight to begin with, on the device of a score."""
    first, second = torch.zeros(2, dtype=torch.double, device=like.device)
    return first, second


def distributed() -> bool:
    """Are there other processes of this run?"""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def every(items: list, group: torch.distributed.ProcessGroup | None = None) -> list:
    """The items of all processes, or of those of a group, together; every one must call this."""
    if not distributed():
        return items
    parts: list = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(parts, items, group)
    return [item for part in parts for item in part]


class TextMetric(Described):
    """What a ``metrics`` slot takes: compares generated texts with their references."""

    name = ""

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        raise NotImplementedError


class BLEU(TextMetric):
    """Corpus BLEU, 0 to 100 (Papineni et al. 2002), by sacrebleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp."""

    name = "bleu"

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return sacrebleu.corpus_bleu(list(hypotheses), [list(references)]).score


class ChrF(TextMetric):
    """Character n-gram F-score, 0 to 100 (Popovic 2015), by sacrebleu."""

    name = "chrf"

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return sacrebleu.corpus_chrf(list(hypotheses), [list(references)]).score


class WER(TextMetric):
    """Word error rate: word edits by words of the reference, 0 is perfect."""

    name = "wer"

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return float(jiwer.wer(list(references), list(hypotheses)))


class CER(TextMetric):
    """Character error rate: character edits by characters of the reference, 0 is perfect."""

    name = "cer"

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return float(jiwer.cer(list(references), list(hypotheses)))


class ExactMatch(TextMetric):
    """The share of texts that are right to the letter."""

    name = "exact_match"

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return sum(h == r for h, r in zip(hypotheses, references, strict=True)) / max(1, len(references))
