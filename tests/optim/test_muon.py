"""Muon and AdamW as one optimizer: each is torch's own, and the whole is an optimizer as any other."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.long.resume import Few
from tests.long.stopping import Point, Training
from zoo.callbacks.cost import optimizer_bytes
from zoo.models import ViT
from zoo.optim import MuonAdamW
from zoo.tasks import Classify
from zoo.tasks.optimizer import fuse
from zoo.tokenizers import Patches


def weights() -> list[nn.Parameter]:
    chance = torch.Generator().manual_seed(0)
    shapes = ((12, 8), (6, 24), (5, 8), (7,))
    return [nn.Parameter(torch.randn(*shape, generator=chance)) for shape in shapes]


def train(parameters: list[nn.Parameter], optimizers: list[torch.optim.Optimizer], steps: int = 5) -> None:
    for step in range(steps):
        for i, weight in enumerate(parameters):
            weight.grad = torch.sin(weight.detach() * (i + 1) + step)
        for optimizer in optimizers:
            optimizer.step()


def ours(parameters: list[nn.Parameter], **arguments) -> MuonAdamW:
    groups = [{"params": parameters[:2], "muon": True}, {"params": parameters[2:], "weight_decay": 0.0}]
    return fuse(MuonAdamW(groups, lr=0.03, adamw_lr=0.002, **arguments))


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_each_parameter_moves_as_torch_moves_it(adjust):
    one, other = weights(), weights()
    train(one, [ours(one, weight_decay=0.2, adjust_lr_fn=adjust)])
    muon = torch.optim.Muon(other[:2], lr=0.03, weight_decay=0.2, adjust_lr_fn=adjust)
    train(other, [muon, torch.optim.AdamW(other[2:], 0.002, (0.9, 0.95), weight_decay=0.0, fused=True)])
    assert all(map(torch.equal, one, other)) and not torch.equal(one[0], weights()[0])


def test_the_step_of_a_matrix_has_singular_values_near_one():
    """The formula, spelled out by a singular value decomposition."""
    (matrix, *_) = one = weights()
    before, gradient = matrix.detach().clone(), torch.sin(matrix.detach())
    train(one, [ours(one, weight_decay=0.0, momentum=0.0)], 1)
    left, size, right = torch.linalg.svd((before - matrix.detach()) / 0.03 / (12 / 8) ** 0.5, full_matrices=False)
    assert size.min() > 0.5 and size.max() < 1.5
    u, _, v = torch.linalg.svd(gradient, full_matrices=False)
    assert torch.nn.functional.cosine_similarity((left @ right).flatten(), (u @ v).flatten(), 0) > 0.97


def test_what_it_remembers_comes_back():
    one, other = weights(), weights()
    whole, first = ours(one), ours(other)
    train(one, [whole]), train(other, [first])
    again = ours(other)
    again.load_state_dict(first.state_dict())
    assert {len(state) for state in again.state.values()} == {1, 3}  # a momentum; two moments and a count
    train(one, [whole]), train(other, [again])
    assert all(map(torch.equal, one, other))


def test_its_cost_is_known_before():
    parameters = weights()
    optimizer = ours(parameters)
    told = optimizer_bytes(optimizer)
    train(parameters, [optimizer], 1)
    kept = [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    assert told == sum(value.nbytes for value in kept) == 4 * (12 * 8 + 6 * 24 + 2 * (5 * 8 + 7))


def test_a_scaled_loss_moves_it_as_any_other():
    one, other = weights(), weights()
    first, second = ours(one), ours(other)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for parameters, optimizer, scale in ((one, first, 1.0), (other, second, 1024.0)):
        for weight in parameters:
            weight.grad = torch.cos(weight.detach()) * scale
        if scale == 1:
            optimizer.step()
        else:
            scaler.scale(torch.zeros(()))  # begins
            scaler.step(optimizer)
    assert all(map(torch.equal, one, other))
    scaler.update()
    other[0].grad.fill_(torch.inf)
    scaler.step(second)
    assert all(map(torch.equal, one, other))


@pytest.mark.filterwarnings("ignore")
def test_training_goes_on_bit_for_bit(tmp_path):
    def task():
        torch.manual_seed(0)
        vit = ViT(dim=8, depth=2, heads=2, grid=4, prefix=0, dropout=0.2)
        made = Classify(vit, Patches(8, 2, 1), classes=10, optimizer=partial(MuonAdamW, lr=0.01))
        made.set_layer_decay(0.7)
        return made

    made = Training(task, partial(Few, batch_size=9, seed=3), {"max_epochs": 2, "accumulate_grad_batches": 2})
    stops = (Point("on_train_batch_end", 3), Point("on_train_batch_end", 8))
    assert made.run(tmp_path, *stops).same(made.run(tmp_path)) == []


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"Muon moves matrices, and here is a tensor of shape \(7,\): leave it to"):
        MuonAdamW([{"params": weights(), "muon": True}])
    alone = weights()
    with pytest.raises(ValueError, match="no parameter group says muon: True"):
        train(alone, [MuonAdamW(alone)], 1)
