"""Packed rows change no task's loss, nor its gradients."""

import pytest
import torch

from tests.tasks.conftest import backbone, both
from zoo.nn import Causal, ClassToken, Last, Mean, packing
from zoo.nn.packing import Layout
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, Seq2Seq
from zoo.tokenizers import BPE, Batch, Frames, LogMel, Waveform

TEXTS = ["a third and much longer line of text", "hm", "hello world", "so", "goodbye moon goodbye", "one more", "x"]
OTHERS = ["it is so", "a much longer sentence than that", "no", "yes", "perhaps, who knows", "not now", "good"]
SOUND = Frames(LogMel(rate=8000, mels=20, window=200, hop=80), stack=2)
TASKS = {
    "masked": (lambda: MaskedLM(backbone(), BPE()), 1),
    "causal": (lambda: CausalLM(backbone(Causal()), BPE()), 1),
    "classify": (lambda: Classify(backbone(), BPE(), 3, pool=ClassToken), 1),
    "classify by the last": (lambda: Classify(backbone(Causal()), BPE(), 3, pool=Last), 1),
    "contrastive": (lambda: Contrastive(backbone(), BPE(), pool=Mean), 2),
    "text to text": (lambda: Seq2Seq(both(), BPE()), 2),
    "sound to text": (lambda: Seq2Seq(both(), SOUND, BPE()), 2),
    "masked sound": (lambda: MaskedLM(backbone(), SOUND), 1),
}


def batch(task) -> Batch:
    generator = torch.Generator().manual_seed(0)
    sounds = [Waveform(torch.randn(1200 + 1500 * (i % 4) ** 2, generator=generator) * 0.1, 8000) for i in range(7)]
    raw = sounds if task.tokenizer == SOUND else TEXTS
    other = task.target_tokenizer
    target = None if other is None else other.collate([other.encode(text) for text in OTHERS])
    label = torch.tensor([0, 1, 2, 1, 0, 2, 2])
    return Batch(task.tokenizer.collate([task.tokenizer.encode(item) for item in raw]), target, label, torch.arange(7))


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_and_its_gradients_stay(name, monkeypatch):
    torch.manual_seed(0)
    make, times = TASKS[name]
    task, entered, found = make(), [], []
    data = batch(task)
    enter = Layout.enter
    monkeypatch.setattr(Layout, "enter", lambda self, x, ctx: entered.append(self) or enter(self, x, ctx))
    monkeypatch.setattr(packing, "LEAST", 0.0)
    for worth in (packing.WORTH, 0.0):
        monkeypatch.setattr(packing, "WORTH", worth)
        scores = task.step(data, training=True)
        task.zero_grad()
        (scores["loss"][0] / scores["loss"][1]).backward()
        gradients = [weight.grad.clone() for weight in task.parameters() if weight.grad is not None]
        found.append([*(value.detach().double() for pair in scores.values() for value in pair), *gradients])
    assert len(entered) == times and len(found[0]) == len(found[1])
    for packed, padded in zip(*found, strict=True):
        assert (packed - padded).abs().max() <= 1e-5 * max(1.0, float(padded.abs().max()))


def test_features_of_texts_of_different_lengths(monkeypatch):
    task = MaskedLM(backbone(), BPE()).eval()
    monkeypatch.setattr(packing, "LEAST", 0.0)
    with torch.no_grad():
        together = task.features(TEXTS)
        for text, vector in zip(TEXTS, together, strict=True):
            assert torch.allclose(vector, task.features([text])[0], atol=1e-5)
