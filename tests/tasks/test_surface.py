"""What a task can be asked for: features and states as timm gives them, attention, and a head for other classes."""

import json
from functools import partial

import lightning.pytorch as pl
import pytest
import timm
import torch
from PIL import Image
from torch import nn

import zoo
from tests.models.parity import worst
from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch, both, raw, tokens
from zoo.nn import Causal, ClassToken
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, Multimodal, Seq2Seq
from zoo.tokenizers import Patches

SHAPE = {"img_size": 32, "patch_size": 8, "embed_dim": 64, "depth": 3, "num_heads": 4, "num_classes": 10}


@pytest.fixture
def theirs(monkeypatch) -> nn.Module:
    model = timm.create_model("vit_tiny_patch16_224", **SHAPE).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: model)
    return model


@pytest.fixture
def ours(theirs) -> Classify:
    return zoo.load("timm:vit_tiny_patch16_224.augreg_in21k_ft_in1k")


IMAGES = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
NORMALISED = (IMAGES - 0.5) / 0.5


# ---- as timm's


@torch.no_grad()
def test_features_are_timm_s(ours, theirs):
    states = theirs.forward_features(NORMALISED)
    assert worst(ours.forward_features(IMAGES), states) < 1e-5
    assert worst(ours.features(IMAGES), theirs.forward_head(states, pre_logits=True)) < 1e-5
    assert worst(ours.forward_head(states), theirs.forward_head(states)) < 1e-5
    assert worst(ours.forward_head(states, pre_logits=True), theirs.forward_head(states, pre_logits=True)) < 1e-5


@pytest.mark.parametrize("indices", [None, 2, 1, [0, 2], [-1], (1,)])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("layout", ["NLC", "NCHW"])
@torch.no_grad()
def test_intermediate_states_are_timm_s(ours, theirs, indices, norm, layout):
    words = {"indices": indices, "norm": norm, "output_fmt": layout}
    (y, found), (last, expected) = (
        ours.forward_intermediates(IMAGES, **words),
        theirs.forward_intermediates(NORMALISED, **words),
    )
    assert worst(y, last) < 1e-5 and len(found) == len(expected)
    assert all(worst(a, b) < 1e-5 for a, b in zip(found, expected))
    words |= {"return_prefix_tokens": True, "intermediates_only": True}
    found, expected = ours.forward_intermediates(IMAGES, **words), theirs.forward_intermediates(NORMALISED, **words)
    assert all(worst(a, b) < 1e-5 for one, other in zip(found, expected, strict=True) for a, b in zip(one, other))


@torch.no_grad()
def test_intermediate_layers_are_timm_s(ours, theirs):
    for words in ({}, {"n": 2, "reshape": True, "norm": True}, {"n": [0, 1], "return_prefix_tokens": True}):
        found = ours.get_intermediate_layers(IMAGES, **words)
        for a, b in zip(found, theirs.get_intermediate_layers(NORMALISED, **words), strict=True):
            pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
            assert all(worst(one, other) < 1e-5 for one, other in pairs)


def test_sizes_are_timm_s(ours, theirs):
    assert ours.num_features == theirs.num_features == 64
    assert ours.num_classes == theirs.num_classes == 10
    assert ours.num_prefix_tokens == theirs.num_prefix_tokens == 1
    assert [info["num_chs"] for info in ours.feature_info] == [info["num_chs"] for info in theirs.feature_info]
    assert all(isinstance(ours.get_submodule(info["module"]), zoo.Block) for info in ours.feature_info)
    assert ours.get_classifier() is ours.head


def test_blocks_that_there_are_not(ours):
    for indices in (0, 4, [3], [-4], []):
        with pytest.raises(ValueError, match=r"of 3 blocks; give a number from 1 to 3, or a list of blocks"):
            ours.forward_intermediates(IMAGES, indices)
    with pytest.raises(ValueError, match="output_fmt='NHWC' is neither"):
        ours.forward_intermediates(IMAGES, output_fmt="NHWC")
    with pytest.raises(ValueError, match="Position positions have no grid"):
        masked = MaskedLM(zoo.Backbone(32, 1, zoo.Block), TOKENIZERS["text"])
        masked.forward_intermediates(["abc"], output_fmt="NCHW")


# ---- what may be given


def test_raw_items_are_tokens():
    for modality, tokenizer in TOKENIZERS.items():
        task = MaskedLM(backbone(), tokenizer).eval()
        expected = task.features(tokens(modality))
        assert expected.shape == (4, 32)
        assert torch.equal(task.features(raw(modality)), expected)
    images = torch.stack(raw("image"))
    task = Classify(backbone(), TOKENIZERS["image"], 3).eval()
    pictures = [Image.fromarray(image[0].numpy()) for image in images]
    assert torch.equal(task.features(images), task.features(pictures))
    for single in ("a text", pictures[0]):
        with pytest.raises(ValueError, match="is one raw item; give a list of them"):
            task.features(single)


def test_features_without_a_pool_are_means_over_real_tokens():
    text = tokens("text")
    for task in (MaskedLM(backbone(), TOKENIZERS["text"]), CausalLM(backbone(Causal()), TOKENIZERS["text"])):
        states = task.eval()(text)
        expected = torch.stack([state[real].mean(0) for state, real in zip(states, text.real)])
        assert torch.allclose(task.features(text), expected, atol=1e-6)
        assert torch.equal(task.forward_head(states), task.head(states))
    pair = Seq2Seq(both(), TOKENIZERS["text"]).eval()
    memory, padding = pair.encode(text)
    assert torch.equal(pair.forward_features(text), memory) and padding is text.padding
    assert len(pair.forward_intermediates(text)[1]) == len(pair.backbone.encoder.blocks)


def test_a_tower_s_features_are_what_is_projected():
    task = Contrastive(backbone(), TOKENIZERS["text"], width=8).eval()
    text = raw("text")
    expected = nn.functional.normalize(task.projection(task.features(text)), dim=-1)
    assert torch.allclose(task(task.tokens(text)), expected, atol=1e-6)
    states, padding = task.states(task.tokens(text))
    assert torch.equal(task.forward_head(states, padding=padding), task(task.tokens(text)))


def test_intermediates_carry_gradients(ours):
    _, found = ours.forward_intermediates(IMAGES, 1)
    found[0].sum().backward()
    assert ours.backbone.blocks[0].ffn.fn.up.weight.grad.abs().sum() > 0
    assert ours.head.out.weight.grad is None


# ---- attention


def rows_are_whole(maps: dict) -> bool:
    return all(torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5) for weights in maps.values())


@pytest.mark.parametrize("modality", TOKENIZERS)
def test_attention_of_every_task(modality):
    tokenizer, given = TOKENIZERS[modality], raw(modality)
    paths = ["backbone.blocks.0.mixer", "backbone.blocks.1.mixer"]
    length = tokens(modality).value.size(1)
    for task in (
        MaskedLM(backbone(), tokenizer),
        CausalLM(backbone(Causal()), tokenizer),
        Classify(backbone(), tokenizer, 3, pool=partial(ClassToken, count=2)),
        Contrastive(backbone(), tokenizer),
    ):
        maps = task.attention(given)
        size = length + 2 * isinstance(task, Classify)
        assert list(maps) == paths and maps[paths[0]].shape == (4, 4, size, size) and rows_are_whole(maps)
        assert all(torch.equal(maps[path], other) for path, other in task.attention(batch(modality)).items())


def test_attention_of_pairs():
    pair = Seq2Seq(both(), TOKENIZERS["audio"], TOKENIZERS["text"])
    maps = pair.attention(raw("audio"), raw("text"))
    heard, written = tokens("audio").value.size(1), tokens("text").value.size(1)
    shapes = {"encoder.blocks.0.mixer": (heard, heard), "decoder.blocks.1.mixer": (written, written)}
    shapes["decoder.blocks.1.cross"] = (written, heard)
    assert len(maps) == 6 and rows_are_whole(maps)
    assert all(maps[f"backbone.{path}"].shape == (4, 4, *shape) for path, shape in shapes.items())
    assert [*pair.attention(raw("audio"))] == [f"backbone.encoder.blocks.{i}.mixer" for i in (0, 1)]

    clip = Contrastive(backbone(), TOKENIZERS["image"], backbone(dim=16), TOKENIZERS["text"], width=8)
    maps = clip.attention(raw("image"), raw("text"))
    assert [*maps] == [f"{half}.blocks.{i}.mixer" for half in ("backbone", "target_backbone") for i in (0, 1)]
    assert maps["target_backbone.blocks.0.mixer"].size(-1) == written


def test_one_tower_that_reads_both_halves_has_two_maps():
    task = Contrastive(backbone(), TOKENIZERS["text"])
    first, second = raw("text")[:2], raw("text")[2:]
    maps = task.attention(first, second)
    assert all(torch.equal(maps[path], weights) for path, weights in task.attention(first).items())
    for path, weights in task.attention(second).items():
        assert torch.equal(maps[f"target_{path}"], weights)


def test_attention_of_several_modalities():
    task = Multimodal(backbone(Causal()), {m: partial(CausalLM, tokenizer=t) for m, t in TOKENIZERS.items()})
    maps = task.attention({"text": batch("text"), "image": batch("image"), "audio": None})
    assert [*maps] == [f"{m}/backbone.blocks.{i}.mixer" for m in ("text", "image") for i in (0, 1)]
    own = task.tasks["image"].attention(raw("image"))
    assert torch.equal(maps["image/backbone.blocks.1.mixer"], own["backbone.blocks.1.mixer"])
    with pytest.raises(ValueError, match="ask one of .tasks: 'text', 'image', 'audio'"):
        task.features(raw("text"))


def test_attention_leaves_the_task_as_it_was():
    task = Classify(backbone(), TOKENIZERS["image"], 3, dropout=0.5)
    task.train()
    task.backbone.blocks[0].eval()
    modes, state = [part.training for part in task.modules()], torch.get_rng_state()
    maps = task.attention(raw("image"))
    assert [part.training for part in task.modules()] == modes and torch.equal(torch.get_rng_state(), state)
    assert not any(weights.requires_grad for weights in maps.values())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in task.modules())
    with pytest.raises(ValueError, match="position table|channels"):
        task.attention([torch.zeros(3, 8, 8)])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in task.modules())


# ---- another head


def test_a_new_head_is_part_of_the_task(tmp_path, trainer):
    task = Classify(backbone(), TOKENIZERS["image"], 7, labels=[f"old {i}" for i in range(7)], pool=ClassToken)
    body = {name: value.clone() for name, value in task.state_dict().items() if not name.startswith("head")}
    task.reset_head(3, ["a", "b", "c"])
    assert all(torch.equal(task.state_dict()[name], value) for name, value in body.items())
    assert task.head.out.weight.shape == (3, 32) and task.num_classes == 3
    assert 0.01 < task.head.out.weight.std() < 0.03 and task.head.out.bias.eq(0).all()
    fitting = trainer(max_epochs=1)
    fitting.fit(task, Repeat(batch("image"), 2))
    fitting.save_checkpoint(tmp_path / "new.ckpt")
    again = Classify.load_from_checkpoint(tmp_path / "new.ckpt", weights_only=True).eval()
    assert again.labels == ["a", "b", "c"] and again.classes == 3
    assert torch.equal(again(tokens("image")), task.eval()(tokens("image")))
    assert task.hparams["classes"] == 3 and task._arguments["labels"] == ["a", "b", "c"]


def test_a_new_head_of_a_published_model_is_published(ours, tmp_path):
    ours.reset_head(2, ["cat", "dog"])
    zoo.save(ours, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["id2label"] == {"0": "cat", "1": "dog"}
    again = zoo.load(tmp_path)
    assert again.labels == ["cat", "dog"] and torch.equal(again(again.tokens(IMAGES)), ours(ours.tokens(IMAGES)))


def test_a_new_head_is_new_where_the_checkpoint_s_would_fit(theirs, caplog):
    name = "timm:vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    task = Classify(zoo.load_backbone(name), Patches(32, 8), 10, pool=ClassToken)
    assert torch.equal(task.head.out.weight, theirs.head.weight)
    with torch.no_grad():
        task.embed.projection.weight.zero_()  # trained, say
    task.reset_classifier(10)
    assert task.head.out.weight.std() < 0.03 and task.embed.projection.weight.eq(0).all() and not caplog.text


def test_heads_that_cannot_be(ours):
    with pytest.raises(ValueError, match="classes=1: there is nothing to tell apart"):
        ours.reset_head(1)
    with pytest.raises(ValueError, match="names 1 classes and there are 2"):
        ours.reset_head(2, ["cat"])
    assert ours.classes == 10 and ours.head.out.out_features == 10


def test_a_task_in_a_module_of_ones_own():
    class Mine(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.task = Classify(backbone(), TOKENIZERS["image"], 3)
            self.head = nn.Linear(self.task.num_features, 2)

        def forward(self, images):
            return self.head(self.task.features(images))

    assert Mine()(torch.stack(raw("image"))).shape == (4, 2)
