"""Tiny batches of every modality, and backbones to learn them with."""

from functools import partial

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader

from zoo.nn import MLP, Attention, Backbone, Block, Causal, EncoderDecoder, Full, LayerNorm, Rotary
from zoo.tokenizers import BPE, Batch, Frames, LogMel, Patches, Waveform

SOUND = LogMel(rate=8000, mels=20, window=200, hop=80)
TOKENIZERS = {"text": BPE(), "image": Patches(8, 2, 1), "audio": Frames(SOUND, stack=2)}


def raw(modality: str) -> list:
    generator = torch.Generator().manual_seed(0)
    if modality == "text":
        return ["hello world hello world", "goodbye moon goodbye moon goodbye", "a third and longer line of text", "hm"]
    if modality == "image":
        return list(torch.randint(0, 255, (4, 1, 8, 8), dtype=torch.uint8, generator=generator))
    return [Waveform(torch.randn(3000 + 400 * i, generator=generator) * 0.1, 8000) for i in range(4)]


def tokens(modality: str):
    tokenizer = TOKENIZERS[modality]
    return tokenizer.collate([tokenizer.encode(item) for item in raw(modality)])


def batch(source: str, target: str | None = None) -> Batch:
    label = torch.tensor([0, 1, 2, 1])
    return Batch(tokens(source), tokens(target) if target else None, label, torch.arange(4))


def backbone(mask=Full(), dim: int = 32, **block) -> Backbone:
    layer = partial(Block, mixer=partial(Attention, heads=4, mask=mask), ffn=MLP, **block)
    return Backbone(dim, 2, layer, position=Rotary, last_norm=LayerNorm)


def both() -> EncoderDecoder:
    return EncoderDecoder(backbone(), backbone(Causal(), cross=partial(Attention, heads=4, cross=True)))


class Repeat(pl.LightningDataModule):
    """The same batch again and again."""

    def __init__(self, batch, count: int = 8):
        super().__init__()
        self.batches = [batch] * count

    def train_dataloader(self):
        return DataLoader(self.batches, batch_size=None)

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


@pytest.fixture
def trainer(tmp_path):
    def make(**overrides):
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        quiet |= {"enable_model_summary": False, "accelerator": "cpu", "log_every_n_steps": 4, "max_epochs": 3}
        return pl.Trainer(default_root_dir=tmp_path, use_distributed_sampler=False, **{**quiet, **overrides})

    return make
