import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from tests.callbacks.ragged import batches, task, trained
from zoo import ActivationCheckpointing, Block


class Runs(pl.Callback):
    """How often each block runs in a training."""

    def on_fit_start(self, trainer, pl_module) -> None:
        self.blocks = [part for part in pl_module.modules() if isinstance(part, Block)]
        self.counts = [0] * len(self.blocks)
        for place, block in enumerate(self.blocks):
            block.register_forward_pre_hook(lambda *rest, place=place: self.note(place))

    def note(self, place: int) -> None:
        self.counts[place] += 1


@pytest.mark.parametrize("every, expected", [(1, [2, 2, 2]), (2, [2, 1, 2]), (3, [2, 1, 1])])
def test_every_so_many_th_block_runs_again_and_training_is_the_same(every, expected):
    data, runs = batches(1), Runs()
    plain, same = task(), task()
    for module in (plain, same):
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.1
    torch.manual_seed(1)
    losses = trained(plain, data)
    torch.manual_seed(1)
    assert trained(same, data, ActivationCheckpointing(every), runs) == losses
    assert runs.counts == expected
    for (name, one), two in zip(plain.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(one, two), name


def test_it_ends_with_training():
    module = task()
    trained(module, batches(1), ActivationCheckpointing())
    runs = Runs()
    runs.on_fit_start(None, module)
    module(batches(1)[0].input).sum().backward()
    assert runs.counts == [1, 1, 1]


def test_what_cannot_be_is_said():
    with pytest.raises(ValueError, match="every=0"):
        ActivationCheckpointing(0)
    with pytest.raises(ValueError, match="LightningModule has no zoo.Backbone"):
        ActivationCheckpointing().on_fit_start(None, pl.LightningModule())
