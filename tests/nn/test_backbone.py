"""The backbone: order of its parts, turns, padding, packing, copies, compilation, and its description in plain data."""

import copy
import pickle
from functools import partial

import pytest
import torch
from jsonargparse import ArgumentParser
from torch import nn

from zoo.described import describe
from zoo.nn import (
    GLU,
    MLP,
    AdaNorm,
    ALiBi,
    Attention,
    Backbone,
    Block,
    Buckets,
    Causal,
    Context,
    EncoderDecoder,
    Global,
    Init,
    LayerNorm,
    Learned,
    Llama3Scaling,
    Parallel,
    Position,
    PostNorm,
    PreNorm,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Window,
    padding_positions,
    segment_positions,
)

D = 16


def backbone(mask=Causal(), position=Rotary, depth: int = 2, **arguments) -> Backbone:
    block = partial(Block, mixer=partial(Attention, heads=4, mask=mask), ffn=partial(MLP, act="gelu_tanh"))
    model = Backbone(D, depth, block, position=position, last_norm=LayerNorm, **arguments)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def test_order_of_the_parts():
    model, x = backbone(position=partial(Learned, length=9), first_norm=RMSNorm), torch.randn(2, 5, D)
    expected = model.first_norm(x + model.position.weight[:5])
    for block in model.blocks:
        expected = block(expected, Context(Position(), torch.arange(5), torch.arange(5)))
    assert torch.allclose(model(x), model.last_norm(expected), atol=1e-5)


def test_blocks_take_turns():
    local, full = (partial(Block, mixer=partial(Attention, heads=2, mask=mask)) for mask in (Window(3), Causal()))
    model = Backbone(D, 5, [local, local, full])
    assert [block.mixer.fn.mask for block in model.blocks] == [Window(3)] * 2 + [Causal()] + [Window(3)] * 2


def test_dropout_acts_on_the_input():
    model = Backbone(D, 0, [], dropout=0.5)
    y = model(torch.ones(2, 50, D))
    assert set(y.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("position", [Rotary, ALiBi, partial(Buckets, heads=4), partial(Learned, length=9), Sinusoidal])
def test_padding_is_never_read(position):
    model, x = backbone(mask=Window(3) | Global(1), position=position), torch.randn(2, 7, D)
    padding = torch.arange(7) < torch.tensor([[7], [4]])
    y = model(x, padding=padding)
    assert y.isfinite().all()
    assert torch.allclose(y[1, :4], model(x[1:, :4])[0], atol=1e-5)
    x[1, 4:] = 9.0
    assert torch.equal(model(x, padding=padding)[padding], y[padding])


@pytest.mark.parametrize(
    "position", [Rotary, ALiBi, partial(Buckets, heads=4, causal=True), partial(Learned, length=9)]
)
@pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3), Causal() & (Window(2) | Global(1))], ids=repr)
def test_left_padding_with_its_positions(mask, position):
    model, x = backbone(mask, position), torch.randn(2, 7, D)
    padding = torch.arange(7) >= torch.tensor([[0], [3]])
    positions = padding_positions(padding)
    assert positions.tolist() == [[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 1, 2, 3]]
    y = model(x, padding=padding, positions=positions)
    assert torch.allclose(y[1, 3:], model(x[1:, 3:])[0], atol=1e-5)
    assert torch.allclose(y[0], model(x[:1])[0], atol=1e-5)


@pytest.mark.parametrize("position", [Rotary, ALiBi, partial(Buckets, heads=4), partial(Learned, length=9), Sinusoidal])
@pytest.mark.parametrize("mask", [Causal(), Window(3), Causal() & Window(2), Window(2) | Global(1)], ids=repr)
def test_packed_documents_are_separate(mask, position):
    model, x = backbone(mask, position), torch.randn(2, 8, D)
    segments = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2], [4, 4, 4, 4, 4, 4, 1, 1]])
    positions = segment_positions(segments)
    assert positions.tolist() == [[0, 1, 2, 0, 1, 0, 1, 2], [0, 1, 2, 3, 4, 5, 0, 1]]
    y = model(x, segments=segments, positions=positions)
    for b, start, end in [(0, 0, 3), (0, 3, 5), (0, 5, 8), (1, 0, 6), (1, 6, 8)]:
        assert torch.allclose(y[b, start:end], model(x[b : b + 1, start:end])[0], atol=1e-5)


def test_a_conditioned_backbone():
    model = Backbone(D, 2, partial(Block, mixer=partial(Attention, heads=2), ffn=MLP, residual=AdaNorm))
    x, cond = torch.randn(2, 5, D), torch.randn(2, D)
    assert torch.equal(model(x, cond=cond), x)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    y = model(x, cond=cond)
    assert torch.allclose(y[1:], model(x[1:], cond=cond[1:]), atol=1e-5)
    assert not torch.allclose(y, model(x, cond=cond.flip(0)), atol=1e-2)


def test_encoder_decoder():
    own, cross = partial(Attention, heads=2, mask=Causal()), partial(Attention, heads=2, cross=True)
    model = EncoderDecoder(backbone(), Backbone(D, 2, partial(Block, mixer=own, cross=cross, ffn=MLP))).eval()
    source, target = torch.randn(2, 7, D), torch.randn(2, 5, D)
    padding, target_padding = torch.arange(7) < torch.tensor([[7], [3]]), torch.arange(5) < torch.tensor([[5], [4]])
    y = model(source, target, padding=padding, target_padding=target_padding)
    memory = model.encoder(source[1:, :3])
    assert torch.allclose(y[1, :4], model.decoder(target[1:, :4], memory=memory)[0], atol=1e-5)
    with pytest.raises(ValueError, match="encoder is 16 wide and the decoder 8"):
        EncoderDecoder(backbone(), Backbone(8, 1, partial(Block, ffn=MLP)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies(copied):
    model, x = backbone(Causal() & Window(3), partial(Rotary, scaling=Llama3Scaling())), torch.randn(2, 5, D)
    other = copied(model)
    assert torch.equal(other(x), model(x)) and describe(other) == describe(model)
    nn.init.zeros_(other.last_norm.weight)
    assert not torch.equal(other(x), model(x))


def described(value, slot: type):
    """``value`` in plain data, read back the way the command line does."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(slot, "it")
    return parser.instantiate(parser.parse_object({"it": copy.deepcopy(describe(value))})).it


@pytest.mark.parametrize(
    "model",
    [
        Backbone(
            D,
            3,
            [
                partial(
                    Block,
                    mixer=partial(Attention, heads=4, kv_heads=2, mask=Causal() & (Window(3) | Global(2)), bias=False),
                    ffn=partial(GLU, hidden=24),
                    residual=partial(PreNorm, norm=partial(RMSNorm, eps=1e-5)),
                ),
                partial(Block, mixer=partial(Parallel, parts=[partial(Attention, heads=2), MLP]), residual=PostNorm),
            ],
            position=partial(Rotary, theta=500.0, scaling=Llama3Scaling(factor=4.0)),
            last_norm=RMSNorm,
            init=Init(0.1),
        ),
        Backbone(D, 1, partial(Block, ffn=MLP)),
    ],
)
def test_description_round_trip(model):
    before = copy.deepcopy(describe(model))
    again = described(model, Backbone)  # with the parts' defaults written out
    assert type(again) is Backbone and describe(model) == before
    assert describe(described(again, Backbone)) == describe(again)
    again.load_state_dict(model.state_dict())
    x = torch.randn(2, 6, D)
    assert torch.equal(again.eval()(x), model.eval()(x))


@pytest.mark.parametrize(
    ("position", "mask"),
    [
        (Rotary, Causal()),
        (partial(Learned, length=9), Causal() & Window(3)),
        (ALiBi, Causal() & (Window(2) | Global(1))),
        (partial(Buckets, heads=4), Window(3)),
        (Sinusoidal, Causal()),
    ],
)
def test_compilation_meets_no_graph_break(position, mask):
    torch.compiler.reset()
    model, x = backbone(mask, position), torch.randn(2, 7, D)
    padding = torch.arange(7) >= torch.tensor([[0], [3]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).expand(2, -1)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for arguments in ({}, {"padding": padding, "positions": padding_positions(padding)}, {"segments": segments}):
        assert torch.allclose(compiled(x, **arguments), model(x, **arguments), atol=1e-5)
