"""Attention maps: the weights behind every output, in every family and variant, and those that the references say."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import zoo
from tests.models.parity import random_ids
from tests.models.rows import ROWS
from zoo.models import (
    AST,
    BART,
    BERT,
    ESM,
    GPT,
    GPT2,
    T5,
    CLIPText,
    CLIPVision,
    DeBERTa,
    DeBERTa2,
    LLaMA,
    Mistral,
    RoBERTa,
    T5Gated,
    Transformer,
    ViT,
    Whisper,
)
from zoo.nn import (
    MLP,
    ALiBi,
    Attention,
    Backbone,
    Block,
    Cache,
    Causal,
    EncoderDecoder,
    Learned,
    Mixer,
    Parallel,
    RMSNorm,
    Rotary,
    Window,
)

TOKENS = 9
REAL = torch.arange(TOKENS) < torch.tensor([[TOKENS], [6]])


def stack(position=Learned, **attention) -> Backbone:
    position = partial(position, length=TOKENS) if position is Learned else position
    return Backbone(32, 2, partial(Block, mixer=partial(Attention, heads=4, **attention), ffn=MLP), position=position)


ATTEND = partial(Attention, heads=4)
FAMILIES = {
    "AST": lambda: AST(32, 2, 4, grid=[3, 3]),
    "BART": lambda: BART(32, 2, 4, length=20),
    "BERT": lambda: BERT(32, 2, 4, length=20),
    "CLIPText": lambda: CLIPText(32, 2, 4, length=20),
    "CLIPVision": lambda: CLIPVision(32, 2, 4, grid=[2, 4]),
    "DeBERTa": lambda: DeBERTa(32, 2, 4, furthest=5),
    "DeBERTa2": lambda: DeBERTa2(32, 2, 4, furthest=8, buckets=6, kernel=3),
    "ESM": lambda: ESM(32, 2, 4),
    "GPT": lambda: GPT(32, 2, 4, length=20),
    "GPT2": lambda: GPT2(32, 2, 4, length=20),
    "LLaMA": lambda: LLaMA(32, 2, 4, 2, 48),
    "Mistral": lambda: Mistral(32, 2, 4, 2, 48, window=4),
    "RoBERTa": lambda: RoBERTa(32, 2, 4, length=20),
    "T5": lambda: T5(32, 2, 4, 16, 64),
    "T5Gated": lambda: T5Gated(32, 2, 3, 16, 64),
    "Transformer": lambda: Transformer(32, 2, 4),
    "ViT": lambda: ViT(32, 2, 4, grid=[2, 4]),
    "Whisper": lambda: Whisper(32, 2, 4, length=20),
}
MORE = {
    "alibi": lambda: stack(ALiBi),
    "multi-query": lambda: stack(Rotary, kv_heads=1, qk_norm=RMSNorm, mask=Causal()),
    "window": lambda: stack(mask=Window(2), scale=0.7),
    "parallel": lambda: Backbone(32, 2, partial(Block, mixer=partial(Parallel, parts=[ATTEND, MLP]))),
}
MODELS = FAMILIES | MORE


def built(name: str) -> nn.Module:
    model = MODELS[name]()
    with torch.no_grad():
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.4)
    return model.eval()


def run(model: nn.Module, padded: bool, **more):
    """(the output, and the maps if they are asked for) on two sequences, the second shorter where ``padded``."""
    tokens = TOKENS + 2 * isinstance(model, AST)
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(2, tokens, 32, generator=generator), torch.randn(2, 5, 32, generator=generator)
    padding = {"padding": REAL} if padded else {}
    return model(x, y, **padding, **more) if isinstance(model, EncoderDecoder) else model(x, **padding, **more)


def test_no_family_is_forgotten():
    assert set(FAMILIES) == set(zoo.EXPORTS["zoo.models"])


@pytest.mark.parametrize(
    ("name", "padded"),
    [(n, p) for n in MODELS for p in (False, True) if not p or n not in ("AST", "ViT", "CLIPVision")],
)
def test_the_weights_times_the_values_are_the_output(name, padded):
    """What each attention put out, from its map, its values and its last projection alone."""
    model, seen = built(name), {}

    def note(part, inputs, output) -> None:
        seen[part] = inputs, output

    for part in model.modules():
        if isinstance(part, Attention):
            part.register_forward_hook(note)
    result, maps = run(model, padded, return_attention=True)
    assert len(maps) == len(seen) > 0
    for path, weights in maps.items():
        part = model.get_submodule(path)
        part = part if isinstance(part, Attention) else part.fn
        (x, ctx, *_), output = seen[part]
        source = ctx.memory if part.cross else x
        assert weights.dtype == torch.float32 and weights.shape == (2, part.heads, x.size(1), source.size(1))
        v = part.v(source).unflatten(-1, (-1, part.head_dim)).transpose(1, 2)
        v = v.repeat_interleave(part.heads // v.size(1), 1)
        expected = part.o((weights @ v).transpose(1, 2).flatten(2))
        real = REAL if padded and x.size(1) == TOKENS else torch.ones(x.shape[:2], dtype=torch.bool)
        assert (output - expected)[real].abs().max() < 1e-5 * output.abs().max()
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
    read = REAL if padded and result.size(1) == TOKENS else slice(None)  # what padding becomes is nobody's business
    apart = (result - run(model, padded))[read].abs().max()
    assert apart <= 1e-6 * result[read].abs().max()


@pytest.mark.parametrize("name", ["BERT", "DeBERTa2", "T5", "Mistral", "GPT2", "window"])
def test_what_is_hidden_weighs_exactly_nothing(name):
    _, maps = run(built(name), True, return_attention=True)
    for path, weights in maps.items():
        t, s = torch.arange(weights.size(2))[:, None], torch.arange(weights.size(3))
        if s.numel() == TOKENS:
            rows = 6 if t.numel() == TOKENS else t.numel()  # what a padded query sees is never read
            assert (weights[1, :, :rows, 6:] == 0).all() and (weights[0, ..., 6:] != 0).any()
        if name in ("Mistral", "GPT2") or (path.startswith("decoder") and path.endswith("mixer")):
            assert (weights[0][:, (s > t).expand(weights.shape[2:])] == 0).all()
        if name == "Mistral":
            assert (weights[0][:, (t - s >= 4).expand(weights.shape[2:])] == 0).all()
        if name == "window":
            assert (weights[0][:, ((t - s).abs() >= 2).expand(weights.shape[2:])] == 0).all()
            assert (weights[0][:, ((t - s).abs() < 2).expand(weights.shape[2:])] > 0).all()


def test_paths():
    _, maps = run(built("T5"), False, return_attention=True)
    halves = [f"encoder.blocks.{i}.mixer" for i in (0, 1)]
    halves += [f"decoder.blocks.{i}.{part}" for i in (0, 1) for part in ("mixer", "cross")]
    assert list(maps) == halves
    _, maps = run(built("parallel"), False, return_attention=True)
    assert list(maps) == ["blocks.0.mixer.fn.parts.0", "blocks.1.mixer.fn.parts.0"]


def theirs_of(name: str, tmp_path) -> tuple[nn.Module, nn.Module]:
    (row,) = [row for row in ROWS if row.name == name]
    theirs = row.build()
    theirs.save_pretrained(tmp_path)
    theirs.set_attn_implementation("eager")  # the reference's kernels do not keep their weights either
    return zoo.load(tmp_path), theirs


def agree(ours: dict[str, Tensor], theirs: dict[str, Tensor], real: Tensor) -> None:
    assert list(ours) == list(theirs)
    for path, expected in theirs.items():
        found = ours[path].transpose(1, 2)  # (B, T, H, S)
        mask = real if found.shape[1] == real.shape[1] else torch.ones(found.shape[:2], dtype=torch.bool)
        assert (found - expected.transpose(1, 2))[mask].abs().max() < 2e-6, path


@pytest.mark.parametrize(
    "name",
    ["bert", "roberta", "esm", "deberta c2p", "deberta", "deberta-v2", "deberta-v2 convolved", "gpt", "gpt2", "llama"]
    + ["mistral"],
)
def test_one_stack_equals_its_reference(name, tmp_path):
    ours, theirs = theirs_of(name, tmp_path)
    length = 30 if name == "deberta-v2" else 17 if name == "deberta c2p" else 11
    tokens = random_ids(33 if name == "esm" else 97, length, 4, 1 if name in ("esm", "roberta") else 0)
    with torch.no_grad():
        expected = theirs(tokens.value, attention_mask=tokens.real.long(), output_attentions=True).attentions
        found = ours.attention(tokens)
    paths = [path for path in found if path.endswith("mixer")]
    agree(found, dict(zip(paths, expected, strict=True)), tokens.real)


@pytest.mark.parametrize("name", ["t5", "bart", "marian transformer", "whisper"])
def test_encoder_decoders_equal_their_references(name, tmp_path):
    ours, theirs = theirs_of(name, tmp_path)
    pad = {"bart": 1, "marian transformer": 96, "whisper": 1}.get(name, 0)
    written = random_ids(96, 7, 0)
    given = torch.cat((torch.full((2, 1), theirs.config.decoder_start_token_id), written.value[:, :-1]), 1)
    if name == "whisper":
        source = zoo.Tokens(torch.randn(2, 24, 12))
        words = {"input_features": source.value.mT}
        real = torch.ones(2, 12, dtype=torch.bool)
    else:
        source = random_ids(96, 11, 4, pad)
        words = {"input_ids": source.value, "attention_mask": source.real.long()}
        real = source.real
    with torch.no_grad():
        told = theirs(**words, decoder_input_ids=given, output_attentions=True)
    expected = {f"backbone.encoder.blocks.{i}.mixer": one for i, one in enumerate(told.encoder_attentions)}
    for i, (own, cross) in enumerate(zip(told.decoder_attentions, told.cross_attentions)):
        expected |= {f"backbone.decoder.blocks.{i}.mixer": own, f"backbone.decoder.blocks.{i}.cross": cross}
    agree(ours.attention(source, written), expected, real)


def test_vit_equals_its_reference(tmp_path):
    ours, theirs = theirs_of("vit", tmp_path)
    size = theirs.config.image_size
    pixels = torch.randn(2, 3, *((size, size) if isinstance(size, int) else size))
    with torch.no_grad():
        expected = theirs(pixels, output_attentions=True).attentions
    found = ours.attention(zoo.Tokens(ours.tokenizer.patchify(pixels)))
    agree(found, dict(zip(found, expected, strict=True)), torch.ones(2, 0))


def test_step_by_step_the_maps_are_rows_of_the_whole():
    model, x, cache = built("Mistral"), torch.randn(2, TOKENS, 32), Cache()
    _, whole = model(x, return_attention=True)
    for t in range(TOKENS):
        _, maps = model(x[:, t : t + 1], cache=cache, return_attention=True)
        for path, weights in maps.items():  # a rolling cache holds the last four keys
            kept = weights.size(-1)
            assert torch.allclose(weights[:, :, 0], whole[path][:, :, t, t + 1 - kept : t + 1], atol=1e-6)


def test_half_precision_leaves_the_weights_whole():
    model, x = built("BERT"), torch.randn(2, TOKENS, 32)
    with torch.autocast("cpu", torch.bfloat16):
        _, maps = model(x, return_attention=True)
    assert all(weights.dtype == torch.float32 for weights in maps.values())
    assert all(torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6) for weights in maps.values())


def test_dropout_is_left_out():
    model, x = BERT(32, 2, 4, length=20, dropout=0.5).train(), torch.randn(2, TOKENS, 32)
    _, maps = model(x, return_attention=True)
    assert all(torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6) for weights in maps.values())


def test_without_maps_there_is_one_graph():
    model, x = built("GPT2"), torch.randn(2, TOKENS, 32)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(x), model(x), atol=1e-6)


def test_parts_of_ones_own_have_no_map():
    class Average(Mixer):
        def __init__(self, dim: int):
            super().__init__()

        def forward(self, x, ctx, state=None):
            return x.mean(1, keepdim=True).expand_as(x)

    model = Backbone(32, 2, [partial(Block, mixer=Average), partial(Block, mixer=partial(Attention, heads=4))])
    assert list(run(model, False, return_attention=True)[1]) == ["blocks.1.mixer"]
