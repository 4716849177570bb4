"""Published towers in tasks of one's own: other classes, other grids, one tower alone; and old files."""

import json
import logging

import pytest
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

import zoo
from tests.models.parity import worst
from tests.models.rows import clip, vit
from zoo.data.picture import fit
from zoo.nn import ClassToken, Last, resize_grid
from zoo.tokenizers import ConvStem, Frames, Ids, KaldiLogMel, Patches, PatchFrames, Resize, Tokens


@pytest.fixture
def classifier(tmp_path):
    model = vit.ROWS[0].build()
    model.save_pretrained(tmp_path / "vit")
    return model, str(tmp_path / "vit")


@pytest.fixture
def towers(tmp_path):
    model = clip.ROWS[0].build()
    model.save_pretrained(tmp_path / "clip")
    return model, tmp_path / "clip"


def test_other_classes_begin_with_a_new_head(classifier, caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    model, folder = classifier
    tokenizer, backbone = zoo.load_tokenizer(folder), zoo.load_backbone(folder, changes={"dropout": 0.1})
    task = zoo.Classify(backbone=backbone, tokenizer=tokenizer, classes=3, labels=["a", "b", "c"], pool=ClassToken)
    assert (
        "head.out.weight has the shape (5, 32) and the task's has (3, 32), so the task's own stays new" in caplog.text
    )
    assert torch.equal(task.pool.weight, model.vit.embeddings.cls_token[0])
    zoo.save(task, tmp_path / "ours")
    again = hf.ViTForImageClassification.from_pretrained(tmp_path / "ours")
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    with torch.no_grad():
        assert worst(*vit.run(task.eval(), again.eval())) < 1e-5


def test_another_grid(classifier, tmp_path):
    model, folder = classifier
    backbone = zoo.load_backbone(folder, changes={"grid": [7, 7]})
    table = model.vit.embeddings.position_embeddings.detach()[0]
    assert torch.equal(backbone.position.weight, resize_grid(table, (3, 3), (7, 7), 1))
    whole = zoo.load(folder, changes={"grid": [7, 5]})
    assert (whole.tokenizer.height, whole.tokenizer.width) == (56, 40)
    zoo.save(whole, tmp_path / "ours")
    again = hf.ViTForImageClassification.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert worst(*vit.run(whole, again)) < 1e-5


def test_the_bare_model_has_a_backbone_but_no_task(tmp_path):
    torch.manual_seed(0)
    model = hf.ViTModel(vit.config()).eval()
    model.save_pretrained(tmp_path)
    backbone = zoo.load_backbone(str(tmp_path))
    task = zoo.Classify(backbone=backbone, tokenizer=zoo.load_tokenizer(str(tmp_path)), classes=2, pool=ClassToken)
    pixels = torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        states = model(pixel_values=pixels).last_hidden_state[:, 0]
        assert worst(task.eval().features(Tokens(task.tokenizer.patchify(pixels))), states) < 1e-5
    with pytest.raises(ValueError, match="ViTModel is no task here"):
        zoo.load(tmp_path)


def test_each_of_two_towers(towers):
    model, folder = towers
    image, text = (zoo.load_backbone(str(folder), name=name) for name in ("backbone", "target_backbone"))
    tokenizer, words = zoo.load_tokenizer(str(folder)), zoo.load_tokenizer(str(folder), target=True)
    assert isinstance(tokenizer, Patches) and isinstance(words, Ids)
    task = zoo.Contrastive(image, tokenizer, text, words, pool=ClassToken, target_pool=Last, width=24)
    task.scale.data.copy_(model.logit_scale)
    with torch.no_grad():
        assert worst(*clip.similar()(task.eval(), model)) < 1e-5
    narrow = zoo.Contrastive(image, tokenizer, text, words, pool=ClassToken, target_pool=Last, width=7)
    assert narrow.projection.weight.shape == (7, 40)  # new
    reader = zoo.Classify(zoo.load_backbone(str(folder), name="target_backbone"), words, 2, pool=Last).eval()
    ids = clip.random_ids(90, 7, 0)
    ids.value[:, -1] = 96
    with torch.no_grad():
        expected = model.text_model(input_ids=ids.value).pooler_output
        assert worst(reader.features(ids), expected) < 1e-5
    larger = zoo.load(folder, changes={"grid": 5, "dropout": 0.1})
    assert larger.tokenizer.height == 40 and larger.target_backbone.blocks[0].mixer.fn.dropout == 0.1


def test_old_files_of_clip(towers):
    """Their config.json says each tower twice, with gaps; their weights hold counters."""
    model, folder = towers
    words = json.loads((folder / "config.json").read_text())
    usual = ("layer_norm_eps", "attention_dropout", "hidden_act", "model_type", "num_channels")
    for tower in ("vision_config", "text_config"):
        words[f"{tower}_dict"] = {name: value for name, value in words[tower].items() if name not in usual}
        words[tower] = {"hidden_size": 8, "num_hidden_layers": 9}
    del words["logit_scale_init_value"]
    (folder / "config.json").write_text(json.dumps(words))
    state = load_file(folder / "model.safetensors")
    state["text_model.embeddings.position_ids"] = torch.arange(20)[None]
    state["vision_model.embeddings.position_ids"] = torch.arange(10)[None]
    save_file(state, folder / "model.safetensors")
    with torch.no_grad():
        assert worst(*clip.similar()(zoo.load(folder), model)) < 1e-5
        again = hf.CLIPModel.from_pretrained(folder)
        assert worst(*clip.similar()(zoo.load(folder), again)) < 1e-5


@pytest.mark.parametrize("resize", [Resize(), Resize(40, "bicubic")])
def test_a_data_module_prepares_images_as_the_tokenizer_does(resize, tmp_path):
    tokenizer = Patches(24, 8, resize=resize)
    image = Image.effect_mandelbrot((61, 37), (-2, -1, 1, 1), 50).convert("RGB")
    image.save(tmp_path / "image.png")
    for item in (image, tmp_path / "image.png"):
        assert torch.equal(tokenizer.encode(fit(item, tokenizer)), tokenizer.encode(image))


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (lambda: zoo.Classify(tower(prefix=0), Patches(32, 8), 3), r"pool is Mean\(\) and would be ClassToken"),
        (lambda: zoo.Classify(tower(), Patches(32, 8, stem=ConvStem), 3, pool=ClassToken), "'embed.convolutions"),
        (lambda: zoo.Classify(tower(), Frames(KaldiLogMel()), 3, pool=ClassToken), "it reads images, .* Frames"),
        (lambda: zoo.Classify(listener(), Frames(KaldiLogMel(), stem=PatchFrames), 3), "it reads Frames"),
    ],
)
def test_what_the_files_have_no_word_for_is_refused(task, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        zoo.save(task(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def tower(**changes) -> zoo.ViT:
    return zoo.ViT(dim=32, depth=1, heads=4, grid=4, **changes)


def listener() -> zoo.AST:
    return zoo.AST(dim=32, depth=1, heads=4, grid=[2, 2])
