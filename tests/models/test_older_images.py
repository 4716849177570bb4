"""What older files of ViT, AST and CLIP leave out, add or say twice."""

import json

import pytest
import transformers as hf

import zoo
from tests.models.rows import ast, clip, vit
from tests.models.test_older_files import agree, built, older


def test_vit_leaves_out_what_is_usual(tmp_path):
    theirs = built(vit.ROWS, "vit", tmp_path)
    older(tmp_path, {}, without=("layer_norm_eps", "hidden_act", "qkv_bias", "num_channels", "hidden_dropout_prob"))
    agree(tmp_path, theirs, vit.run)
    backbone = zoo.load(tmp_path).backbone
    assert backbone.last_norm.eps == theirs.config.layer_norm_eps == 1e-12  # where ours is 1e-6


def test_clip_says_its_towers_twice(tmp_path):
    theirs = built(clip.ROWS, "clip", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    told = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size", "image_size")
    told = (*told, "patch_size", "max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")
    towers = ("vision_config", "text_config")
    twice = {f"{tower}_dict": {key: config[tower][key] for key in told if key in config[tower]} for tower in towers}
    wrong = {tower: {**config[tower], "num_hidden_layers": 7, "layer_norm_eps": 0.5} for tower in towers}
    older(tmp_path, {**twice, **wrong})
    again = hf.CLIPModel.from_pretrained(tmp_path).eval()
    assert again.config.vision_config.layer_norm_eps == 1e-5  # the usual one, and not what the first one says
    agree(tmp_path, again, clip.similar())
    agree(tmp_path, theirs.eval(), clip.similar())


def test_several_labels_at_once_are_a_task_of_your_own(tmp_path):
    built(ast.ROWS, "ast", tmp_path)
    older(tmp_path, {"problem_type": "multi_label_classification"})
    with pytest.raises(ValueError, match="'multi_label_classification' with 5 labels is no choice .*zoo.load_backbone"):
        zoo.load(tmp_path)
    assert zoo.load_backbone(str(tmp_path)).position.prefix == 2


def test_timm_has_no_size_of_its_own():
    with pytest.raises(ValueError, match="no family or size 'timm' is known"):
        zoo.create("timm")
