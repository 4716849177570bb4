"""Gradients of a step's batches are those of one batch, whatever their lengths, and in whatever processes they are."""

from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader

from tests.callbacks.pair import together
from tests.long.resume import BATCHES, training
from tests.long.stopping import Point
from tests.tasks.conftest import TOKENIZERS, backbone
from zoo.nn import Causal
from zoo.tasks import CausalLM, Constant, MaskedLM, Task
from zoo.tasks.window import Window
from zoo.tokenizers import Batch

TEXT = TOKENIZERS["text"]
WORDS = ["a", "some more words", "four", "a much longer line, to make it uneven", "x y", "seven", "eight letters", "z"]


def batches(*shares: slice) -> list[Batch]:
    """Some of eight texts of different lengths in each batch."""
    return [Batch(TEXT(WORDS[share]), key=torch.arange(8)[share]) for share in shares]


ONE, FOUR = [slice(0, 8)], [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8)]


class Shares(pl.LightningDataModule):
    """Batches in turn, or those of each of two processes."""

    def __init__(self, *ranks: list[slice]):
        super().__init__()
        self.ranks = ranks

    def train_dataloader(self):
        rank = self.trainer.global_rank % len(self.ranks)
        return DataLoader(batches(*self.ranks[rank]), batch_size=None)


class Kept(torch.optim.SGD):
    """Moves nothing, and keeps the gradients of each step."""

    def step(self, closure):
        loss = closure()
        self.seen = [
            *vars(self).get("seen", []),
            torch.cat([w.grad.flatten() for group in self.param_groups for w in group["params"]]),
        ]
        return loss


def task(kind) -> Task:
    torch.manual_seed(0)
    mask = [Causal()] if kind is CausalLM else []
    return kind(backbone(*mask), TEXT, optimizer=partial(Kept, lr=0.0), schedule=Constant())


def gradients(made: Task, *ranks: list[slice], **arguments) -> list[torch.Tensor]:
    """Those of each step of an epoch, all in one vector."""
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    quiet |= {"enable_model_summary": False, "use_distributed_sampler": False, "max_epochs": 1}
    trainer = pl.Trainer(**quiet, **{"devices": 1, **arguments})
    trainer.fit(made, Shares(*ranks))
    return trainer.optimizers[0].seen


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """In float32, relative to the longest of all."""
    return torch.allclose(one, other, rtol=0, atol=1e-6 * float(one.abs().max()))


@pytest.mark.parametrize("kind", [MaskedLM, CausalLM])
def test_four_batches_are_one(kind):
    (whole,), (parts,) = gradients(task(kind), ONE), gradients(task(kind), FOUR, accumulate_grad_batches=4)
    assert whole.abs().max() > 1e-3 and close(whole, parts)


def test_the_last_step_of_an_epoch_may_have_fewer_batches():
    rest = gradients(task(MaskedLM), FOUR, accumulate_grad_batches=3)
    (alone,) = gradients(task(MaskedLM), FOUR[3:])
    (first,) = gradients(task(MaskedLM), [slice(0, 6)])
    assert len(rest) == 2 and close(first, rest[0]) and close(alone, rest[1])


def test_a_batch_in_which_nothing_counts_adds_nothing():
    window, weights = Window(), [0.0, 3.0, 1.0]
    bases = [window.add(torch.tensor(weight), i, 3) for i, weight in enumerate(weights)]
    total = sum(value / base for value, base in zip((0.0, 6.0, 2.0), bases, strict=True)) / 3
    assert total * window.factor(3) == 2
    window = Window()
    window.add(torch.tensor(0), 0, 2), window.add(torch.tensor(0), 1, 2)
    assert window.factor(2).isfinite()


def test_what_a_checkpoint_keeps_goes_on():
    whole, begun = Window(), Window()
    for i, weight in enumerate((5, 7)):
        whole.add(torch.tensor(weight), i, 3), begun.add(torch.tensor(weight), i, 3)
    again = Window.restored(begun.state())
    assert torch.equal(again.add(torch.tensor(4), 2, 3), whole.add(torch.tensor(4), 2, 3))
    assert torch.equal(again.factor(3), whole.factor(3)) and whole.factor(3) == 3 * 5 / 16
    unknown = Window.restored([])  # of a release that kept none: the batches before are taken for as heavy
    unknown.add(torch.tensor(4), 2, 3)
    assert unknown.factor(3) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_step_that_has_begun_is_gone_on_with_bit_for_bit(tmp_path):
    """Stopped between two batches of a step, of which the second is smaller."""
    made = training("classify", tmp_path, 0, accumulate=4)
    stops = (Point("on_train_batch_end", BATCHES - 1), Point("on_train_batch_end", 2 * BATCHES - 1))
    assert made.run(tmp_path, *stops).same(made.run(tmp_path)) == []


def in_two(folder: Path, name: str, ranks: list[list[slice]], batches: int) -> None:
    found = gradients(
        task(MaskedLM), *ranks, strategy="ddp", devices=2, accumulate_grad_batches=batches, gradient_clip_val=1e9
    )
    if torch.distributed.get_rank() == 0:
        torch.save(found, folder / name)


@pytest.mark.parametrize(
    ("ranks", "batches"),
    [([[slice(0, 3)], [slice(3, 8)]], 1), ([FOUR[:2], FOUR[2:]], 2), ([FOUR[::2], FOUR[1::2]], 2)],
)
def test_two_processes_are_one(ranks, batches, tmp_path):
    (whole,) = gradients(task(MaskedLM), ONE)
    assert together(in_two, tmp_path, "found.pt", ranks, batches) == [0, 0], (tmp_path / "log-0").read_text()
    (found,) = torch.load(tmp_path / "found.pt")
    assert close(whole, found)
