"""The families: published parameter counts, equality with torch's own layers, shapes, and errors of one sentence."""

import copy
import math
import pickle
from functools import partial

import pytest
import timm
import torch
from jsonargparse import ArgumentParser
from torch import nn

from zoo.described import describe
from zoo.models import BART, BERT, GPT, GPT2, T5, LLaMA, Mistral, T5Gated, Transformer, ViT, Whisper
from zoo.nn import MLP, Attention, Backbone, Block, Cache, EncoderDecoder, Full, LayerNorm, Sinusoidal2d

SMALL = [
    BERT(32, 2, 4, length=20),
    GPT(32, 2, 4, length=20),
    GPT2(32, 2, 4, length=20),
    LLaMA(32, 2, 4, 2, 48),
    LLaMA(32, 2, 4, 2, None, mask=Full(), head_dim=10),
    Mistral(32, 2, 4, 2, 48, window=4),
    ViT(32, 2, 4, grid=[2, 4], prefix=2),
]
PAIRS = [
    Transformer(32, 2, 4),
    BART(32, 2, 4, length=20),
    T5(32, 2, 4, 16, 64),
    T5(32, 1, 4, 16, 64, decoder_depth=3),
    T5Gated(32, 2, 3, 16, 64),
    Whisper(32, 2, 4, length=20),
]


def count(make, *args, **kwargs) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make(*args, **kwargs).parameters())


def name(model) -> str:
    return type(model).__name__


@pytest.mark.parametrize(
    ("make", "arguments", "total", "elsewhere"),  # elsewhere: embeddings and heads, which are no part of a backbone
    [
        (GPT2, {}, 124_439_808, 50257 * 768),
        (GPT2, {"dim": 1600, "depth": 48, "heads": 25}, 1_557_611_200, 50257 * 1600),
        (BERT, {}, 109_482_240, (30522 + 2) * 768 + 768 * 768 + 768),
        (BERT, {}, 85_054_464, -(512 + 2) * 768),  # the encoder alone: without position table and first norm
        (LLaMA, {}, 6_738_415_616, 2 * 32000 * 4096),
        (LLaMA, {"kv_heads": 8, "hidden": 14336, "theta": 5e5}, 8_030_261_248, 2 * 128256 * 4096),
        (T5, {}, 60_506_624, 32128 * 512),
        (T5Gated, {}, 76_961_152, 2 * 32128 * 512),
        (BART, {}, 139_420_416, 50265 * 768),
        (
            Whisper,
            {"dim": 384, "depth": 4, "heads": 6},
            37_760_640,
            51865 * 384 + 1500 * 384 + (80 * 384 * 3 + 384) + (384 * 384 * 3 + 384),
        ),
        (ViT, {}, 85_798_656, 768 * 768 + 768 + 768),
    ],
)
def test_published_sizes(make, arguments, total, elsewhere):
    assert count(make, **arguments) == total - elsewhere


def test_vit_has_timm_s_count():
    theirs = count(timm.create_model, "vit_base_patch16_224", num_classes=0)
    assert count(ViT) == theirs - (768 * 768 + 768 + 768)


@pytest.mark.parametrize("model", SMALL, ids=name)
def test_shapes(model):
    tokens = 10 if isinstance(model, ViT) else 12
    x = torch.randn(3, tokens, 32)
    assert isinstance(model, Backbone) and model.dim == 32
    y = model(x)
    assert y.shape == x.shape and y.isfinite().all()
    y.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("model", PAIRS, ids=name)
def test_pairs(model):
    """Shapes; a source's padding is never read; step by step equals all at once."""
    model.eval()
    source, target = torch.randn(2, 15, 32), torch.randn(2, 9, 32)
    padding = torch.arange(15) < torch.tensor([[15], [11]])
    assert isinstance(model, EncoderDecoder) and model.dim == 32
    whole = model(source, target, padding=padding)
    assert whole.shape == target.shape
    other = source.clone()
    other[1, 11:] = 7.0
    assert torch.equal(model(other, target, padding=padding), whole)
    assert not torch.allclose(model(source, target), whole)
    cache, memory = Cache(), model.encoder(source, padding=padding)
    steps = [model.decoder(target[:, t : t + 1], memory=memory, memory_padding=padding, cache=cache) for t in range(9)]
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-5)


@pytest.mark.parametrize("model", [p for p in PAIRS if not isinstance(p, BART)], ids=name)
def test_sources_of_any_length(model):
    assert model(torch.randn(1, 300, 32), torch.randn(1, 5, 32)).isfinite().all()


@pytest.mark.parametrize("make", [Transformer, BART, BERT, GPT, GPT2, LLaMA, Mistral, ViT, Whisper])
def test_heads_that_do_not_divide(make):
    with pytest.raises(ValueError, match="heads=5 does not divide dim=32"):
        make(dim=32, depth=1, heads=5)


def test_kv_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="kv_heads=3 does not divide heads=4"):
        LLaMA(32, 1, 4, 3)


def test_lengths_beyond_the_table():
    with pytest.raises(ValueError, match="21 tokens, the position table 20 rows"):
        GPT2(32, 1, 4, length=20)(torch.randn(1, 21, 32))
    with pytest.raises(ValueError, match="16 tokens, the position table 17 rows"):
        ViT(32, 1, 4, grid=4)(torch.randn(1, 16, 32))


@pytest.mark.parametrize(
    "make",
    [Transformer, BART, BERT, GPT, GPT2, LLaMA, partial(Mistral, kv_heads=2), ViT, T5, T5Gated, Whisper],
    ids=lambda make: getattr(make, "__name__", "Mistral"),
)
def test_dropout_acts_in_training_only(make):
    model = make(dim=32, depth=1, heads=4, dropout=0.5, **({"grid": 3, "prefix": 0} if make is ViT else {}))
    inputs = (torch.randn(2, 9, 32),) * (2 if isinstance(model, EncoderDecoder) else 1)
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def test_drop_path_grows_to_the_last_block():
    model = ViT(32, 3, 4, drop_path=0.2)
    assert [block.ffn.drop_path for block in model.blocks] == [0.0, 0.1, 0.2]


@pytest.mark.parametrize("model", SMALL + PAIRS, ids=name)
def test_described_read_back_and_pickled(model):
    slot = Backbone if isinstance(model, Backbone) else EncoderDecoder
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(slot, "it")
    again = parser.instantiate(parser.parse_object({"it": copy.deepcopy(describe(model))})).it
    assert type(again) is type(model) and describe(again) == describe(model)
    again.load_state_dict(model.state_dict())
    assert describe(pickle.loads(pickle.dumps(model))) == describe(model)


def fill(layer: nn.Module, block: Block) -> None:
    """torch's layer takes the weights of our block."""
    with torch.no_grad():
        pairs = [(layer.self_attn, block.mixer)]
        pairs += [(layer.multihead_attn, block.cross)] if hasattr(block, "cross") else []
        for theirs, ours in pairs:
            theirs.in_proj_weight.copy_(torch.cat([ours.fn.q.weight, ours.fn.k.weight, ours.fn.v.weight]))
            theirs.in_proj_bias.copy_(torch.cat([ours.fn.q.bias, ours.fn.k.bias, ours.fn.v.bias]))
            theirs.out_proj.load_state_dict(ours.fn.o.state_dict())
        layer.linear1.load_state_dict(block.ffn.fn.up.state_dict())
        layer.linear2.load_state_dict(block.ffn.fn.down.state_dict())
        for i, (_, branch) in enumerate(block.named_children(), 1):
            getattr(layer, f"norm{i}").load_state_dict(branch.norm.state_dict())


def randomised(model):
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def test_bert_is_torch_s_post_norm_encoder():
    model, x = randomised(BERT(32, 2, 4, length=12)), torch.randn(2, 12, 32)
    expected = model.first_norm(x + model.position.weight)
    for block in model.blocks:
        layer = nn.TransformerEncoderLayer(32, 4, 128, 0.0, nn.functional.gelu, 1e-12, batch_first=True).eval()
        fill(layer, block)
        expected = layer(expected)
    assert torch.allclose(model(x), expected, atol=1e-4)


def test_gpt2_is_torch_s_pre_norm_encoder_with_a_triangle():
    model, x = randomised(GPT2(32, 2, 4, length=12)), torch.randn(2, 12, 32)
    expected = x + model.position.weight
    for block in model.blocks:
        act = nn.GELU(approximate="tanh")
        layer = nn.TransformerEncoderLayer(32, 4, 128, 0.0, act, norm_first=True, batch_first=True).eval()
        fill(layer, block)
        expected = layer(expected, src_mask=nn.Transformer.generate_square_subsequent_mask(12), is_causal=True)
    assert torch.allclose(model(x), model.last_norm(expected), atol=1e-4)


def test_transformer_is_torch_s_decoder_over_its_encoder():
    model = randomised(Transformer(32, 1, 4))
    source, target = torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    encoder = nn.TransformerEncoderLayer(32, 4, 128, 0.0, "relu", batch_first=True).eval()
    decoder = nn.TransformerDecoderLayer(32, 4, 128, 0.0, "relu", batch_first=True).eval()
    fill(encoder, model.encoder.blocks[0])
    fill(decoder, model.decoder.blocks[0])
    wave = torch.tensor(
        [[(math.cos if i % 2 else math.sin)(t / 10000 ** (i // 2 * 2 / 32)) for i in range(32)] for t in range(7)]
    )
    memory = encoder(source * math.sqrt(32) + wave)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    expected = decoder(target * math.sqrt(32) + wave[:5], memory, tgt_mask=mask, tgt_is_causal=True)
    assert torch.allclose(model(source, target), expected, atol=1e-4)


def test_simple_vit_is_other_parts():
    """Beyer et al. 2022: fixed 2-D waves and no class token."""
    model = Backbone(
        32,
        2,
        partial(Block, mixer=partial(Attention, heads=4), ffn=MLP),
        position=partial(Sinusoidal2d, height=3, width=5),
        last_norm=LayerNorm,
    )
    assert model(torch.randn(2, 15, 32)).shape == (2, 15, 32)
