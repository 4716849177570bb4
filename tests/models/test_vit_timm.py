"""ViT from timm: equal logits, its form on the hub, another grid, other classes, and what is refused."""

import json
import logging

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from timm.models.vision_transformer import VisionTransformer
from torch import nn

import zoo
from tests.models.parity import worst
from tests.models.test_preprocessing import picture
from zoo.nn import ClassToken, resize_grid
from zoo.tokenizers import Patches, Resize, Tokens

NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
SHAPE = {"img_size": 32, "patch_size": 8, "embed_dim": 64, "depth": 3, "num_heads": 4}


def drawn(model: VisionTransformer) -> VisionTransformer:
    for weight in model.parameters():  # timm's own start leaves biases at 0 and norms at 1, which would hide mistakes
        nn.init.normal_(weight, std=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def reference() -> VisionTransformer:
    torch.manual_seed(0)
    return drawn(timm.create_model("vit_tiny_patch16_224", num_classes=10, **SHAPE))


@pytest.fixture
def folder(reference, tmp_path):
    """The model as timm's are on the hub, written by hand."""
    words = {
        "architecture": "vit_tiny_patch16_224",
        "num_classes": 10,
        "global_pool": "token",
        "model_args": SHAPE,
        "label_names": [f"n{i}" for i in range(10)],
        "label_descriptions": {"n3": "cat"},
        "pretrained_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.3, 0.2, 0.4], "interpolation": "bilinear"},
    }
    place = tmp_path / "hub"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(words))
    save_file(reference.state_dict(), place / "model.safetensors")
    return place


@pytest.fixture
def from_timm(reference, monkeypatch) -> list:
    asked = []
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: asked.append((a, k)) or reference)
    return asked


def equal(ours: nn.Module, reference: nn.Module) -> bool:
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        return worst(ours(Tokens(ours.tokenizer.patchify(pixels))), reference(pixels)) < 1e-5


def test_by_name(reference, from_timm, tmp_path):
    ours = zoo.load(f"timm:{NAME}")
    assert from_timm == [((NAME,), {"pretrained": True})]
    assert equal(ours, reference) and ours.labels is None
    assert ours.tokenizer == Patches(32, 8, 3, [0.5] * 3, [0.5] * 3, resize=Resize(35, "bicubic"))
    zoo.save(ours, tmp_path)  # in transformers' form
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["ViTForImageClassification"]
    assert equal(zoo.load(tmp_path), reference)


def test_as_on_the_hub(reference, folder):
    ours = zoo.load(folder)
    assert equal(ours, reference)
    assert ours.labels[2:5] == ["n2", "cat", "n4"]
    assert ours.tokenizer == Patches(32, 8, 3, [0.1, 0.2, 0.3], [0.3, 0.2, 0.4], resize=Resize(35, "bilinear"))


@pytest.mark.parametrize("size", [(61, 37), (32, 32), (200, 300)])
def test_images_are_prepared_as_timm_does(reference, from_timm, monkeypatch, size):
    monkeypatch.setitem(reference.pretrained_cfg, "crop_pct", 0.8)  # even margins: odd ones timm rounds to even halves
    tokenizer = zoo.load_tokenizer(f"timm:{NAME}")
    prepare = create_transform(**resolve_data_config({"input_size": (3, 32, 32)}, model=reference))
    expected, found = prepare(picture(size)), tokenizer.unpatchify(tokenizer.encode(picture(size)))
    assert (found - expected).abs().max() < 1.1 / 255 / 0.5  # PIL and torch round differently


def test_another_grid_is_resized(reference, from_timm, caplog):
    backbone = zoo.load_backbone(f"timm:{NAME}", changes={"grid": [3, 5], "drop_path": 0.1})
    assert "4 x 4 cells is resized to 3 x 5" in caplog.text
    table = reference.pos_embed.detach()[0]
    assert torch.equal(backbone.position.weight, resize_grid(table, (4, 4), (3, 5), 1))
    assert backbone.blocks[2].mixer.drop_path == pytest.approx(0.1)
    whole = zoo.load(f"timm:{NAME}", changes={"grid": 6})
    assert (whole.tokenizer.height, whole.tokenizer.resize.size) == (48, 52)
    assert whole(whole.tokenizer([picture((61, 37))])).shape == (1, 10)


def test_other_classes_begin_with_a_new_head(reference, from_timm, caplog):
    caplog.set_level(logging.WARNING)
    backbone = zoo.load_backbone(f"timm:{NAME}")
    task = zoo.Classify(backbone=backbone, tokenizer=Patches(32, 8), classes=7, pool=ClassToken)
    assert "head.out.weight has the shape (10, 64) and the task's has (7, 64)" in caplog.text
    assert torch.equal(task.pool.weight, reference.cls_token[0])
    assert torch.equal(task.embed.projection.bias, reference.patch_embed.proj.bias)
    assert torch.equal(task.backbone.last_norm.weight, reference.norm.weight)
    assert task.head.out.weight.std() < 0.2 and task.head.out.bias.eq(0).all()
    with pytest.raises(ValueError, match=r"embed.projection.weight has the shape \(64, 192\)"):
        zoo.Classify(backbone=backbone, tokenizer=Patches(32, 4), classes=7, pool=ClassToken)


def test_the_same_classes_keep_the_head(reference, from_timm):
    backbone = zoo.load_backbone(f"timm:{NAME}")
    task = zoo.Classify(backbone=backbone, tokenizer=Patches(32, 8), classes=10, pool=ClassToken)
    assert equal(task.eval(), reference)


def test_weights_of_a_file(folder, reference, monkeypatch):
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, **more: create(name, num_classes=10, **SHAPE, **more))
    torch.save({"model": reference.state_dict()}, folder / "weights.pth")
    backbone = zoo.load_backbone("timm:vit_tiny_patch16_224", weights=str(folder / "weights.pth"))
    assert torch.equal(backbone.last_norm.weight, reference.norm.weight)


def test_a_model_without_classes(monkeypatch):
    torch.manual_seed(0)
    model = drawn(timm.create_model("vit_tiny_patch16_224", num_classes=0, **SHAPE))
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: model)
    assert torch.equal(zoo.load_backbone(f"timm:{NAME}").last_norm.weight, model.norm.weight)
    with pytest.raises(ValueError, match="is no task here .*zoo.load_backbone"):
        zoo.load(f"timm:{NAME}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"class_token": False, "global_pool": "avg"}, "no class token"),
        ({"global_pool": "avg"}, "global_pool='avg'"),
        ({"reg_tokens": 4}, "4 register tokens"),
        ({"no_embed_class": True}, "no position for its class token"),
        ({"pre_norm": True}, "LayerNorm before its blocks"),
        ({"final_norm": False}, "Identity after its blocks"),
        ({"init_values": 0.1}, "LayerScale on its branches"),
        ({"qk_norm": True}, "LayerNorm on its queries"),
        ({"scale_mlp_norm": True}, "LayerNorm inside its MLP"),
        ({"mlp_layer": timm.layers.SwiGLU}, "SwiGLU in place of Mlp"),
        ({"act_layer": nn.Hardswish}, "the activation Hardswish"),
    ],
)
def test_what_our_vit_is_not_is_refused(monkeypatch, changes, words):
    model = timm.create_model("vit_tiny_patch16_224", **{**SHAPE, **changes})
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: model)
    with pytest.raises(ValueError, match=f"vit_tiny_patch16_224 has {words}, which ViT has not") as error:
        zoo.load(f"timm:{NAME}")
    assert "\n" not in str(error.value)


def test_other_models_are_refused(folder):
    for name, words in (("resnet18", "the class ResNet"), ("deit_tiny_distilled_patch16_224", "the class Vision")):
        (folder / "config.json").write_text(json.dumps({"architecture": name}))
        with pytest.raises(ValueError, match=f"config.json: .*{words}"):
            zoo.load(folder)
    (folder / "config.json").write_text(json.dumps({"architecture": "vit_of_mine"}))
    with pytest.raises(ValueError, match=r"config.json: timm cannot build the architecture 'vit_of_mine'"):
        zoo.load(folder)


def test_errors_of_the_hub(monkeypatch):
    def offline(*_, **__):
        raise RuntimeError("no route\nto host")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(ValueError, match="nearest names are .*vit_tiny_patch16_224.augreg_in21k_ft_in1k"):
        zoo.load("timm:vit_tiny_patch16_224.augreg_in21k_ft_in1")
    with pytest.raises(OSError, match="could not be downloaded .no route.; give a file"):
        zoo.load("timm:vit_tiny_patch16_224")
