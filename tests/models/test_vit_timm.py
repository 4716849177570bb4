"""ViT against timm: equal logits from timm's weights, the same file back, another grid, and the errors of the hub."""

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from zoo.hub import load_weights
from zoo.models import ViT
from zoo.models.vit import TIMM
from zoo.nn import ClassToken, resize_grid


class Classifier(nn.Module):
    """The module names of a classification task, without the task."""

    def __init__(self, grid: int = 4, classes: int = 10, dim: int = 64, patch: int = 8, depth: int = 3):
        super().__init__()
        self.patch = patch
        self.embed = nn.Module()
        self.embed.projection = nn.Linear(patch * patch * 3, dim)
        self.embed.mask = nn.Parameter(torch.randn(dim))  # the table does not know it
        self.pool = ClassToken(dim)
        self.backbone = ViT(dim, depth, heads=4, grid=grid)
        self.head = nn.Linear(dim, classes)

    def forward(self, image):
        p = self.patch
        corners = [(y, x) for y in range(0, image.size(2), p) for x in range(0, image.size(3), p)]
        patches = [image[:, :, y : y + p, x : x + p].permute(0, 2, 3, 1).flatten(1) for y, x in corners]
        patches = torch.stack(patches, 1)  # (B, T, P P C)
        x, padding = self.pool.extend(self.embed.projection(patches), None)
        return self.head(self.pool(self.backbone(x, padding=padding), padding))


@pytest.fixture(scope="module")
def reference() -> VisionTransformer:
    torch.manual_seed(0)
    model = VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=4, num_classes=10).eval()
    for weight in model.parameters():  # timm's own start leaves biases at 0 and norms at 1, which would hide mistakes
        nn.init.normal_(weight, std=0.2)
    return model


@pytest.fixture
def file(reference, tmp_path) -> str:
    save_file(reference.state_dict(), tmp_path / "tiny.safetensors")
    return str(tmp_path / "tiny.safetensors")


def changed(reference, path, **changes) -> str:
    state = reference.state_dict()
    for name, value in changes.items():
        name = name.replace("__", ".")
        state.pop(name, None)
        if value is not None:
            state[name] = value
    torch.save(state, path)
    return str(path)


def test_logits_equal_and_the_file_comes_back(reference, file):
    ours = Classifier().eval()
    assert load_weights(ours, file) == []
    image = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = reference(image)
        assert (ours(image) - expected).abs().max() < 1e-5 * expected.abs().max()
    state = {name: value for name, value in ours.state_dict().items() if name != "embed.mask"}
    back, there = TIMM.save(state), reference.state_dict()
    assert back.keys() == there.keys()
    assert all(torch.equal(back[name], there[name]) for name in there)


def test_another_grid_is_resized(reference, file):
    ours = Classifier(grid=3).eval()
    (note,) = load_weights(ours, file)
    assert "4 x 4" in note and "3 x 3" in note
    table = reference.pos_embed.detach()[0]
    assert torch.equal(ours.backbone.position.weight, resize_grid(table, (4, 4), (3, 3), 1))
    with torch.no_grad():
        assert ours(torch.randn(2, 3, 24, 24)).isfinite().all()


def test_other_classes_keep_their_head(reference, file, caplog):
    ours = Classifier(classes=7)
    before = ours.head.weight.clone()
    (note,) = load_weights(ours, file)
    assert "10 classes" in note and "7" in note and note in caplog.text
    assert torch.equal(ours.head.weight, before)
    assert torch.equal(ours.backbone.last_norm.weight, reference.norm.weight)


def test_a_file_without_a_head(reference, tmp_path):
    path = changed(reference, tmp_path / "bare.pth", head__weight=None, head__bias=None)
    (note,) = load_weights(Classifier(), path)
    assert "no classes" in note


@pytest.mark.parametrize("key", ["model", "state_dict"])
def test_wrapped_checkpoints(reference, tmp_path, key):
    torch.save({key: reference.state_dict(), "epoch": 3}, tmp_path / "w.bin")
    ours = Classifier()
    load_weights(ours, str(tmp_path / "w.bin"))
    assert torch.equal(ours.head.bias, reference.head.bias)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"blocks__1__attn__qkv__bias": None}, "no tensor 'blocks.1.attn.qkv.bias'"),
        ({"blocks__1__ls1__gamma": torch.ones(64)}, "no rule for the tensor 'blocks.1.ls1.gamma'"),
        ({"blocks__3__norm1__weight": torch.ones(64)}, "'blocks.3.norm1.weight' has no place"),
        ({"blocks__0__mlp__fc1__weight": torch.ones(9, 64)}, r"'blocks.0.mlp.fc1.weight' .*\(9, 64\).*\(256, 64\)"),
        ({"pos_embed": torch.ones(1, 16, 64)}, "'pos_embed' has 16 rows"),
        ({"pos_embed": torch.ones(1, 17, 32)}, r"'pos_embed' .*\(17, 32\)"),
        ({"patch_embed__proj__weight": torch.ones(64, 3, 16, 16)}, r"'patch_embed.proj.weight' .*\(64, 768\)"),
    ],
)
def test_errors_name_file_and_tensor_and_change_nothing(reference, tmp_path, changes, words):
    ours = Classifier()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    path = changed(reference, tmp_path / "changed.pth", **changes)
    with pytest.raises(ValueError, match=words) as error:
        load_weights(ours, path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


def test_a_part_that_the_checkpoint_cannot_fill(file):
    ours = Classifier()
    ours.backbone.extra = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="'backbone.extra.weight'"):
        load_weights(ours, file)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_truncated_files(reference, file, tmp_path, suffix):
    whole = file if suffix == ".safetensors" else changed(reference, tmp_path / "whole.pth")
    with open(whole, "rb") as stream:
        data = stream.read()
    for length in (0, 100, len(data) // 2):
        path = tmp_path / f"cut{suffix}"
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="cut.* is no whole ") as error:
            load_weights(Classifier(), str(path))
        assert "\n" not in str(error.value)


def test_no_file_and_no_tensors(tmp_path):
    with pytest.raises(ValueError, match="no file 'nowhere.pth'"):
        load_weights(Classifier(), "nowhere.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="no dictionary of tensors"):
        load_weights(Classifier(), str(tmp_path / "list.pth"))


def test_from_timm(reference, monkeypatch):
    name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    asked = []
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: asked.append((a, k)) or reference)
    ours = Classifier()
    load_weights(ours, f"timm:{name}")
    assert asked == [((name,), {"pretrained": True})]
    assert torch.equal(ours.pool.weight, reference.cls_token[0])


def test_from_timm_errors(monkeypatch):
    def offline(*_, **__):
        raise RuntimeError("no route\nto host")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(ValueError, match="nearest names are .*vit_tiny_patch16_224.augreg_in21k_ft_in1k"):
        load_weights(Classifier(), "timm:vit_tiny_patch16_224.augreg_in21k_ft_in1")
    with pytest.raises(OSError, match="could not be downloaded .no route.; give a local file"):
        load_weights(Classifier(), "timm:vit_tiny_patch16_224")
