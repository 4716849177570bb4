"""Cross-entropy some rows at a time: the losses and gradients of all rows at once, and where it does not apply."""

import importlib
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zoo.nn import LayerNorm, Project, Shifted, TransformHead, cross_entropy

MODULE = importlib.import_module("zoo.nn.cross_entropy")
ROWS, DIM, VOCABULARY = 23, 16, 37
HEADS = {
    "plain": partial(Project, bias=False),
    "bias": Project,
    "scale": partial(Project, scale=0.3),
    "norm": partial(Project, norm=LayerNorm),
    "shifted": Shifted,
    "transform": TransformHead,
}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """So few logits are usually made at once."""
    monkeypatch.setattr(MODULE, "FEW", 0)


def case(kind: str = "bias", dtype: torch.dtype = torch.float64, rows: int = ROWS):
    head = HEADS[kind](DIM, VOCABULARY, None).to(dtype)
    if isinstance(head, Shifted):
        nn.init.normal_(head.bias)
    states = 3 * torch.randn(rows, DIM, dtype=dtype)
    return head, states.requires_grad_(), torch.randint(0, VOCABULARY, (rows,))


def torchs(head, states, target, smoothing: float = 0.0):
    logits = head(states)
    exact = logits if logits.dtype == torch.float64 else logits.float()
    loss = F.cross_entropy(exact, target, label_smoothing=smoothing, reduction="sum")
    return loss, (logits.argmax(-1) == target).sum()


def everything(way, head, states, target, smoothing: float = 0.0, scale: float = 0.1) -> list[torch.Tensor]:
    """Loss, how many are right, and all gradients."""
    weights = [weight for weight in (states, *head.parameters()) if weight.requires_grad]
    for weight in weights:
        weight.grad = None
    loss, right = way(head, states, target, smoothing)
    (scale * loss).backward()
    return [loss.detach(), right, *(weight.grad for weight in weights)]


def close(found, wanted, tolerance: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        if other.numel():
            assert float((one - other).abs().max()) <= tolerance * (1 + float(other.abs().max()))


@pytest.mark.parametrize("logits", [10**6, 300, 1], ids=["at once", "some rows", "row by row"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", HEADS)
def test_losses_and_gradients_are_those_of_all_rows_at_once(kind, smoothing, logits, monkeypatch):
    monkeypatch.setattr(MODULE, "ON_CPU", logits)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        parts = case(kind, dtype)
        close(everything(cross_entropy, *parts, smoothing), everything(torchs, *parts, smoothing), tolerance)


@pytest.mark.parametrize("kind", HEADS)
def test_autocast_rounds_products_alone(kind, monkeypatch):
    monkeypatch.setattr(MODULE, "ON_CPU", 300)
    parts = case(kind, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = (everything(way, *parts, 0.1) for way in (cross_entropy, torchs))
    assert found[0].dtype == torch.float32
    close([found[0], *found[2:]], [wanted[0], *wanted[2:]], 2**-7)


def test_weights_in_bfloat16_get_gradients_in_bfloat16(monkeypatch):
    monkeypatch.setattr(MODULE, "ON_CPU", 300)
    parts = case("bias", torch.bfloat16)
    close(everything(cross_entropy, *parts), everything(torchs, *parts), 2**-6)


def test_gradients_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(MODULE, "ON_CPU", 150)
    head, states, target = case(rows=9)
    weights = [states, head.out.weight, head.out.bias]
    gradients = everything(cross_entropy, head, states, target, 0.1, scale=1.0)[2:]
    for weight, gradient in zip(weights, gradients, strict=True):
        direction, values = torch.randn_like(weight), []
        with torch.no_grad():
            for step in (1e-6, -2e-6, 1e-6):  # there, to the other side, and back
                weight += step * direction
                values.append(float(torchs(head, states, target, 0.1)[0]))
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(float((gradient * direction).sum()), rel=1e-6)


@pytest.mark.parametrize("frozen", ["states", "weight", "both"])
def test_what_is_frozen_gets_no_gradient(frozen):
    head, states, target = case()
    states.requires_grad_(frozen == "weight")
    head.out.weight.requires_grad_(frozen == "states")
    close(everything(cross_entropy, head, states, target), everything(torchs, head, states, target), 1e-12)
    assert (states.grad is None, head.out.weight.grad is None) == (frozen != "weight", frozen != "states")


def test_no_rows_have_no_loss_and_no_gradient():
    head, states, target = case(rows=0)
    found = everything(cross_entropy, head, states, target, 0.1)
    assert all(float(value.abs().sum()) == 0 for value in found)


def test_gradients_add_up_over_batches():
    head, states, target = case()
    wanted = everything(torchs, head, states, target, scale=1.0)[3]
    head.zero_grad()
    for part in (slice(0, 5), slice(5, None)):
        cross_entropy(head, states[part], target[part])[0].backward()
    close([head.out.weight.grad], [wanted], 1e-12)


def test_equal_logits_count_as_argmax_counts_them():
    head, states, target = case("plain", torch.float32)
    nn.init.zeros_(head.out.weight)
    target[:4] = 0
    assert int(cross_entropy(head, states, target)[1]) == int((target == 0).sum()) >= 4
    with torch.no_grad():
        head.out.weight[5:7] = 1.0  # 5 and 6 are equal everywhere: the largest where states add up to more than 0
        target[:], up = 5, states.sum(1) > 0
        assert 0 < int(cross_entropy(head, states, target)[1]) == int(up.sum())
        assert int(cross_entropy(head, states, target + 1)[1]) == 0


def test_large_logits_do_not_overflow():
    head, states, target = case(dtype=torch.float32)
    with torch.no_grad():
        states *= 1e4
    close(everything(cross_entropy, head, states, target), everything(torchs, head, states, target), 1e-5)


def test_a_second_backward_is_refused():
    loss, _ = cross_entropy(*case())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute it again for another backward"):
        loss.backward()


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor that is made has."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.size = max([self.size, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))])
        return out


@pytest.mark.parametrize("training", [True, False])
def test_the_logits_are_never_all_there(training, monkeypatch):
    monkeypatch.setattr(MODULE, "ON_CPU", 10 * VOCABULARY)
    parts = case(rows=100)
    with Largest() as ours, torch.set_grad_enabled(training):
        loss, _ = cross_entropy(*parts)
    with Largest() as theirs:
        wanted, _ = torchs(*parts)
    assert ours.size <= 100 * DIM < theirs.size == 100 * VOCABULARY  # the states, and the logits
    assert torch.allclose(loss, wanted) and loss.requires_grad == training


# ---- where all predictions are made at once


class Loud(Project):
    """Replaces ``forward`` alone."""

    def forward(self, x):
        return 2 * super().forward(x)


class Adapted(nn.Linear):
    """Stands for LoRA, quantised layers and the like."""

    def forward(self, x):
        return super().forward(x) + 1


def test_a_head_of_another_form_is_called():
    loud = Loud(DIM, VOCABULARY).double()
    own = nn.Sequential(nn.Linear(DIM, VOCABULARY)).double()
    adapted = case()[0]
    adapted.out = Adapted(DIM, VOCABULARY).double()
    for head in (loud, own, adapted):
        _, states, target = case()
        assert MODULE.fused(head, states) is None
        close(everything(cross_entropy, head, states, target)[2:], everything(torchs, head, states, target)[2:], 1e-5)


def test_whoever_listens_to_a_head_hears_it():
    for part in ("", "out"):
        head, states, target = case()
        heard = []
        head.get_submodule(part).register_forward_hook(lambda *_, heard=heard: heard.append(1))
        cross_entropy(head, states, target)
        assert heard


def test_float16_and_few_logits_are_made_at_once(monkeypatch):
    head, states, _ = case(dtype=torch.float32)
    assert MODULE.fused(head, states) is not None
    with torch.autocast("cpu", torch.float16):
        assert MODULE.fused(head, states) is None
    monkeypatch.setattr(MODULE, "FEW", ROWS * VOCABULARY + 1)
    assert MODULE.fused(head, states) is None


def test_a_model_that_is_compiled_as_a_whole_is_compiled():
    head, states, target = case()
    compiled = torch.compile(
        lambda head, states: cross_entropy(head, states, target)[0], backend="eager", fullgraph=True
    )
    assert torch.allclose(compiled(head, states).double(), torchs(head, states, target)[0])
