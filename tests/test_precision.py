"""Prepared weights against the same sums in float64, with the errors that rounding allows."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import zoo
from zoo.nn import GLU, Attention, Shifted
from zoo.precision import Int4Linear, Int8Linear, PackedLinear, for_inference, prepare, weight_bytes
from zoo.precision.layers import Prepared, StoredInt4, StoredInt8, overflows
from zoo.precision.prepare import works
from zoo.tokenizers import Tokens

EVERY = ("fp32", "bf16", "int8", "int4")
SIZES = {"dim": 64, "depth": 2, "heads": 4}
FAR = {"fp32": 1e-5, "bf16": 0.02, "int8": 0.03, "int4": 0.2}  # root mean square of a difference, of the outputs
CLOSE = {"fp32": 1e-6, "bf16": 0.01, "int8": 0.01, "int4": 0.05}  # a difference in a sum, of |x| |w|


def linear(inputs: int = 64, outputs: int = 50, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias)
    layer.weight.data[0] *= 20  # rows of different size
    return layer


def exact(layer: nn.Linear, x: Tensor) -> Tensor:
    bias = 0 if layer.bias is None else layer.bias.detach().double()
    return x.double() @ layer.weight.detach().double().T + bias


def close(y: Tensor, layer: nn.Linear, x: Tensor, precision: str) -> bool:
    size = x.norm(dim=-1, keepdim=True) * layer.weight.detach().norm(dim=1) + 1
    return bool(((y - exact(layer, x)).abs() <= CLOSE[precision] * size).all())


def new(layer: nn.Module, precision: str) -> nn.Module:
    return for_inference(copy.deepcopy(layer), precision)


@pytest.mark.parametrize("precision", EVERY)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (1, 1), (5,), (2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_any_leading_shape(precision, shape, bias):
    layer, x = linear(bias=bias), torch.randn(*shape, 64)
    y = new(layer, precision)(x.bfloat16() if precision == "bf16" else x)
    assert y.shape == (*shape, 50) and y.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert close(y, layer, x, precision)


@pytest.mark.parametrize("precision", EVERY)
@pytest.mark.parametrize("batch", [1, 2])
def test_inputs_whose_rows_do_not_lie_one_after_another(precision, batch):
    layer, x = linear(), torch.randn(batch, 64, 5).mT
    assert close(new(layer, precision)(x), layer, x, precision)


def test_float32_is_the_same_up_to_the_order_of_sums():
    layer, x = linear(96), torch.randn(2, 96, 7).mT  # whose rows do not lie one after another
    y, truth = new(layer, "fp32")(x), exact(layer, x)
    assert (y - truth).abs().max() <= 1e-6 * truth.abs().max()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 6])
def test_eight_bits_are_off_by_half_a_step_of_each_row(rows, bias):
    layer = linear(bias=bias)
    x = torch.randn(rows, 64) * torch.logspace(-3, 3, rows)[:, None]  # a large row must not make small ones coarse
    weight = layer.weight.detach().double().abs()
    off_weight = weight.amax(1, keepdim=True) / 127 / 2
    off_input = x.double().abs().amax(1, keepdim=True) * 2 / (127 if overflows_here() else 255) / 2
    bound = off_input * (weight + off_weight).sum(1) + x.double().abs().sum(1, keepdim=True) @ off_weight.T
    error = (new(layer, "int8")(x) - exact(layer, x)).abs()
    assert (error <= 1.02 * bound).all()  # the zero is moved to a step of its own, and sums are rounded
    assert error.max() > 0


def overflows_here() -> bool:
    return works(Int8Linear) and overflows()


def test_zeros_stay_zeros():
    layer, x = linear(), torch.randn(3, 64)
    x[1] = 0
    layer.weight.data[5] = 0
    for precision in EVERY:
        y = new(layer, precision)(x)
        assert torch.allclose(y[1].float(), layer.bias, rtol=0.01) and torch.allclose(
            y[:, 5].float(), layer.bias[5], rtol=0.01
        )


@pytest.mark.parametrize("make", [Int4Linear, StoredInt4])
def test_four_bits_are_sixteen_steps_from_the_least_to_the_largest_of_32(make):
    if not works(make):
        pytest.skip("no such kernel here")
    layer = linear(bias=False)
    given, found = layer.weight.detach().view(50, 2, 32), make(layer)(torch.eye(64)).T.reshape(50, 2, 32)
    largest = given.abs().amax(2, keepdim=True)
    step = (given.amax(2, keepdim=True) - given.amin(2, keepdim=True)) / 15
    error = (found - given).abs()
    assert (error <= step / 2 + largest * 2**-7).all()  # scale, zero and result have 8 bits
    assert error.max() > 0.4 * step.max()  # no finer than it says
    assert all(len(group.unique()) <= 16 for group in found.flatten(0, 1))


def test_four_bits_multiply_inputs_of_eight_bits_of_mantissa():
    layer, x = linear(), torch.randn(7, 64)
    stored = StoredInt4(layer).weights().double()
    truth = x.double() @ stored.T + layer.bias.detach().double()
    room = x.double().abs() @ stored.abs().T * 2**-6
    assert ((new(layer, "int4")(x) - truth).abs() <= room).all()


def test_stored_weights_are_those_of_the_kernels():
    layer, x = linear(), torch.randn(4, 64)
    step = layer.weight.detach().abs().amax(1, keepdim=True) / 127
    assert ((StoredInt8(layer).weights() - layer.weight).abs() <= step * 0.501).all()
    for make in (StoredInt8, StoredInt4):
        assert close(make(layer)(x), layer, x, make.precision)
        there = make(layer).to("meta")  # unlike the kernels' own, they go anywhere
        assert there(x.to("meta")).shape == (4, 50)


def logits(name: str, task: nn.Module) -> Tensor:
    torch.manual_seed(1)
    ids = Tokens(torch.randint(0, 90, (2, 6)))
    if name == "vit-b16":
        return task(Tokens(torch.randn(2, 4, 768)))
    if name in ("t5-small", "whisper-tiny"):
        source = ids if name == "t5-small" else Tokens(torch.randn(2, 12, 80))
        return task.head(task(source, ids))
    return task.head(task(ids))


def task_of(name: str) -> nn.Module:
    few = zoo.Ids(96, bos=1)
    more = {
        "gpt2": {"tokenizer": few},
        "llama-7b": {"tokenizer": few, "hidden": 96},
        "t5-small": {"tokenizer": few, "target_tokenizer": few},
        "whisper-tiny": {"target_tokenizer": few},
        "vit-b16": {"grid": 2},
    }
    return zoo.create(name, **SIZES, **more[name]).eval()


@pytest.mark.parametrize("precision", EVERY)
@pytest.mark.parametrize("name", ["gpt2", "llama-7b", "t5-small", "whisper-tiny", "vit-b16"])
def test_whole_tasks_stay_close(name, precision):
    task = task_of(name)
    with torch.no_grad():
        before = logits(name, task)
        assert for_inference(task, precision) is task
        after = logits(name, task).float()
    assert (after - before).norm() <= FAR[precision] * before.norm()
    assert not task.training and not any(weight.requires_grad for weight in task.parameters())
    if works(PackedLinear, torch.bfloat16 if precision == "bf16" else torch.float32):
        assert not any(type(part) is nn.Linear for part in task.modules())


@pytest.mark.parametrize("stem", [zoo.ConvStem, None])
def test_what_comes_from_outside_is_cast_to_bfloat16(stem, monkeypatch):
    monkeypatch.setattr(prepare, "works", lambda *given: False)  # plain layers, as on a device without kernels
    pixels = zoo.Patches(size=8, patch=4, channels=1, stem=stem)
    task = zoo.Classify(tokenizer=pixels, backbone=zoo.ViT(**SIZES, grid=2, prefix=0), classes=3, pool=zoo.Mean)
    assert for_inference(task, "bf16")(Tokens(torch.randn(2, 4, 16))).dtype == torch.bfloat16


def test_a_table_that_a_head_shares_stays_with_the_embedding():
    task = task_of("gpt2")
    table = task.embed.table.weight
    assert task.head.out.weight is table
    values = table.detach().clone()
    for_inference(task, "int4")
    assert task.embed.table.weight is table and torch.equal(table, values)
    assert task.head.out.precision == "int8" and task.backbone.blocks[0].ffn.fn.up.precision == "int4"


@pytest.mark.parametrize("precision", ["bf16", "int8", "int4"])
def test_old_weights_are_gone(precision):
    task = task_of("llama-7b")
    layers = [part for part in task.modules() if isinstance(part, nn.Linear)]
    rest = weight_bytes(task) - sum(one.weight.nbytes for one in layers if one.weight is not task.embed.table.weight)
    old = [weakref.ref(one.weight) for one in layers if one.weight is not task.embed.table.weight]
    numbers, rows = sum(one.weight.numel() for one in layers), sum(one.out_features for one in layers)
    del layers
    for_inference(task, precision)
    gc.collect()
    assert old and not any(one() is not None for one in old)
    bits = {"bf16": 16, "int8": 8, "int4": 8}[precision]  # in 4 bits the head, which has 8, is most of it
    rest //= 2 if precision == "bf16" else 1
    assert weight_bytes(task) - rest <= numbers * bits / 8 + 16 * rows


def test_bytes_are_counted_once():
    task = task_of("gpt2")
    assert weight_bytes(task) == sum(4 * weight.numel() for weight in task.parameters())
    layer = linear(64, 64)
    assert [weight_bytes(new(layer, precision)) for precision in EVERY] == [
        64 * 64 * 4 + 256,
        64 * 64 * 2 + 128,
        64 * 64 + 64 * (16 if works(Int8Linear) else 8),
        64 * 64 * 5 // 8 + 256,
    ]


def test_one_layer_in_two_places_stays_one():
    layer = linear()
    both = for_inference(nn.ModuleDict({"a": layer, "b": nn.Sequential(layer)}), "int8")
    assert isinstance(both["a"], Prepared) and both["a"] is both["b"][0]


@pytest.mark.parametrize("precision", EVERY)
def test_copies_and_pickles_compute_the_same(precision):
    layer, x = new(linear(), precision), torch.randn(3, 64)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(again(x), layer(x)) and repr(again) == repr(layer)


def test_a_processor_without_kernels_keeps_plain_layers_or_stores_integers(monkeypatch):
    monkeypatch.setattr(prepare, "works", lambda *given: False)
    layer, x = linear(), torch.randn(3, 64)
    for precision, made in zip(EVERY, (nn.Linear, nn.Linear, StoredInt8, StoredInt4), strict=True):
        found = new(layer, precision)
        assert type(found) is made
        assert close(found(x.to(found.weight.dtype) if made is nn.Linear else x), layer, x, precision)


def test_a_kernel_that_torch_lacks_does_not_work(monkeypatch):
    def gone(layer: nn.Linear) -> nn.Module:
        return torch.ops.mkldnn.there_is_no_such_operator(layer.weight)

    assert not works(gone)
    assert not works(lambda layer: nn.Linear(32, 16))  # nor one that gives other numbers


def test_random_numbers_are_left_alone():
    layer = linear()
    works.cache_clear()
    before = torch.get_rng_state()
    for precision in EVERY:
        new(layer, precision)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_shifted_head_adds_its_bias_to_any_layer():
    head, x = Shifted(16, 9), torch.randn(4, 16)
    head.bias.copy_(torch.arange(9.0))
    assert torch.allclose(head(x), F.linear(x, head.out.weight, head.bias), atol=1e-6)
    assert (for_inference(head, "int8")(x) - F.linear(x, torch.zeros(9, 16), head.bias)).abs().max() < 4


def test_what_is_prepared_is_for_inference_alone():
    with pytest.raises(ValueError, match="'fp16' is none of fp32, bf16, int8, int4"):
        for_inference(linear(), "fp16")
    for precision in EVERY:
        layer = new(nn.Sequential(linear()), precision)
        if type(layer[0]) is nn.Linear:
            continue  # on a processor without the kernel
        with pytest.raises(ValueError, match=f"prepared for inference in {precision} cannot be trained"):
            layer.train()
        with pytest.raises(ValueError, match=f"^{precision} weights have no published form; save the task that"):
            layer.state_dict()
        with pytest.raises(ValueError, match=f"in {precision} pass no gradients"):
            layer(torch.randn(2, 64, requires_grad=True))
        with pytest.raises(ValueError, match=f"prepared in {precision} already; load them again to have them in int4"):
            for_inference(layer, "int4")
        if not isinstance(layer[0], (StoredInt8, StoredInt4)):
            with pytest.raises(ValueError, match=f"on a CPU in {precision} cannot go to meta; move the module first"):
                layer.to("meta")
        assert layer.to("cpu").eval() is layer


@pytest.mark.parametrize("precision", EVERY)
def test_layers_that_read_the_same_are_one_multiplication(precision):
    """Each has its own rows of it, whoever asks in which order, and for whatever input."""
    part, x, other = Attention(64, 4, kv_heads=2, bias="qv"), torch.randn(2, 3, 64), torch.randn(5, 64)
    again, calls = new(part, precision), []
    joint = again.q.joint
    joint.layer.register_forward_hook(lambda *_: calls.append(1))
    given = {"x": x.bfloat16(), "other": other.bfloat16()} if precision == "bf16" else {"x": x, "other": other}
    for name in ("q", "k", "v"):
        assert close(getattr(again, name)(given["x"]), getattr(part, name), x, precision)
    assert len(calls) == 1 and joint._input is None  # nothing is kept
    for name in ("v", "q", "q", "k"):
        assert close(getattr(again, name)(given["other"]), getattr(part, name), other, precision)
        assert close(again.k(given["x"]), part.k, x, precision)
    crossing, gated = (new(made, precision) for made in (Attention(64, 4, cross=True), GLU(64)))
    assert crossing.k.joint is crossing.v.joint and not hasattr(crossing.q, "joint")
    assert gated.gate.joint is gated.up.joint and not hasattr(gated.down, "joint")
