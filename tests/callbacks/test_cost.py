"""FLOPs, memory and rates, against sums by hand."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.plugins import Precision

import zoo
from zoo.callbacks import Throughput
from zoo.callbacks.cost import flops_per_sample, optimizer_bytes
from zoo.callbacks.progress import duration
from zoo.callbacks.summary import scaled
from zoo.tasks.optimizer import decay_groups

DIM, DEPTH, HEADS, HIDDEN, PATCHES, FEATURES = 16, 3, 4, 32, 16, 4


def cost(model: zoo.Task, data: zoo.DataModule) -> float:
    return flops_per_sample(model, SimpleNamespace(datamodule=data, precision_plugin=Precision()))


def task(**changes) -> zoo.Classify:
    backbone = zoo.ViT(DIM, DEPTH, HEADS, hidden=HIDDEN, grid=4, prefix=0)
    return zoo.Classify(backbone, zoo.Patches(8, 2, channels=1), classes=10, **changes)


def test_flops_are_those_of_every_product():
    linear = 2 * PATCHES * (FEATURES * DIM + DEPTH * (4 * DIM * DIM + 2 * DIM * HIDDEN)) + 2 * DIM * 10
    attention = DEPTH * 2 * 2 * PATCHES * PATCHES * DIM
    data = zoo.Images()
    data.task = task()
    assert cost(data.task, data) == 3 * (linear + attention)


def test_grouped_heads_count_as_often_as_there_are_queries():
    data = zoo.Text(length=8, tokenizer=zoo.BPE("docs-2048"))
    counts = []
    for kv_heads in (1, 4):
        decoder = zoo.LLaMA(DIM, 1, HEADS, kv_heads=kv_heads, hidden=HIDDEN)
        counts.append(cost(zoo.CausalLM(decoder, data.tokenizer), data))
    projections = 3 * 2 * 8 * 2 * DIM * (DIM - DIM // 4)  # what fewer keys and values save
    assert counts[1] - counts[0] == projections


def test_counting_uses_up_no_random_number_and_trains_nothing():
    data = zoo.Images(augment=zoo.Affine(degrees=10))
    data.task = model = task(dropout=0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    cost(model, data)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize(
    "make",
    [
        torch.optim.AdamW,
        torch.optim.SGD,
        lambda groups: torch.optim.SGD(groups, momentum=0.9),
        torch.optim.Adagrad,
        torch.optim.RMSprop,
    ],
)
def test_an_optimizers_memory_is_foretold(make):
    model = task()
    optimizer = make(decay_groups(model))
    foretold = optimizer_bytes(optimizer)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    kept = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor) and v.dim()]
    assert foretold == sum(value.nbytes for value in kept)


def test_an_optimizer_that_cannot_be_built_twice_is_passed_over():
    class Own(torch.optim.SGD):
        def __init__(self, params, model):
            super().__init__(params, lr=0.1)

    assert optimizer_bytes(Own(decay_groups(task()), None)) is None


def test_mfu_is_the_share_of_the_peak():
    callback = Throughput()
    callback.flops_per_sample, callback.peak, callback._before = 2e9, 1e12, (0, 0, 0.0)
    callback.samples, callback.tokens, callback.seconds = 300, 1200, 2.0
    rates = callback._rates()
    assert rates == {"samples_per_s": 150.0, "tokens_per_s": 600.0, "mfu": pytest.approx(0.3)}


def test_figures_are_readable():
    assert [scaled(value, "B") for value in (12, 8.794e5, 2.5e9)] == ["12 B", "879 kB", "2.5 GB"]
    assert duration(3723.9) == "1:02:03"


def test_a_log_gets_lines_with_the_time_that_is_left(command):
    config = ("--config", "digits", "--trainer.enable_progress_bar=true", "--trainer.max_epochs=2")
    answer = command("fit", *config, "--trainer.num_sanity_val_steps=2")
    assert answer.code == 0, answer.err
    (line,) = [line for line in answer.out.splitlines() if line.startswith("epoch ")]
    assert line.startswith("epoch 2, step 4/4, train/loss ") and "samples/s" in line and line.endswith("left 0:00:00")


def test_every_precision_is_counted(command):
    for precision in ("bf16-true", "bf16-mixed", "32-true"):
        answer = command("fit", "--config", "digits", f"--trainer.precision={precision}")
        assert answer.code == 0 and "83.9 kFLOP a sample" in answer.out, answer.err
