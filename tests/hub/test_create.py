"""Published sizes by name: where each override goes, and what is said about those that nobody has."""

import inspect

import pytest
import torch
import yaml

import zoo
from zoo.hub.create import known
from zoo.models import PUBLISHED
from zoo.nn import Mean

SMALL = {"dim": 32, "depth": 2, "heads": 4}


def test_overrides_go_where_they_belong():
    task = zoo.create("vit-b16", classes=10, label_smoothing=0.1, pool=Mean, dropout=0.2, grid=4, prefix=0, **SMALL)
    assert (task.classes, task.label_smoothing, type(task.pool)) == (10, 0.1, Mean)
    assert task.backbone.drop.p == 0.2 and task.drop.p == 0 and len(task.backbone.blocks) == 2
    assert task.tokenizer.height == 64  # four patches of 16
    assert task(task.tokens(torch.rand(1, 3, 64, 64))).shape == (1, 10)


def test_a_tokenizer_of_ones_own():
    task = zoo.create("gpt2", tokenizer=zoo.BPE(), tie=False, **SMALL)
    assert task.embed.table.weight.shape == (260, 32) and task.head.out.weight is not task.embed.table.weight


def test_it_is_the_size_but_for_what_is_said():
    with torch.device("meta"):
        whole, changed = zoo.create("bert-base"), zoo.create("bert-base", depth=11, dropout=0.3)
    assert {path.split(".")[2] for path, *_ in zoo.differences(whole, changed)} == {"11"}
    assert changed.backbone.drop.p == 0.3 and type(changed) is type(whole)


def test_two_towers():
    task = zoo.create("clip-vit-b32", dropout=0.1, dim=32, heads=2, depth=3, target_backbone={"depth": 1}, width=8)
    assert [len(tower.blocks) for tower in (task.backbone, task.target_backbone)] == [3, 1]
    assert all(tower.blocks[0].mixer.fn.dropout == 0.1 for tower in (task.backbone, task.target_backbone))
    words = zoo.create_backbone("clip-vit-b32", "target_backbone", target_backbone={"depth": 1})
    assert type(words) is zoo.CLIPText and len(words.blocks) == 1


def test_a_backbone_alone():
    backbone = zoo.create_backbone("gpt2", **SMALL)
    assert type(backbone) is zoo.GPT2 and backbone(torch.randn(1, 5, 32)).shape == (1, 5, 32)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"num_classes": 10}, "vit-b16 has no argument 'num_classes'; did you mean 'classes' of Classify?"),
        ({"dpeth": 6}, "vit-b16 has no argument 'dpeth'; did you mean 'depth' of ViT?"),
        ({"drop_path_rate": 0.1}, "vit-b16 has no argument 'drop_path_rate'; did you mean 'drop_path' of ViT?"),
        ({"pretrained": True}, "vit-b16 has no argument 'pretrained'; zoo.load reads published weights"),
        ({"img_size": 384}, "vit-b16 has no argument 'img_size'; there are .*classes.*grid"),
    ],
)
def test_arguments_that_nobody_has(overrides, words):
    with pytest.raises(ValueError, match=words):
        zoo.create("vit-b16", **overrides)


def test_arguments_that_the_other_tower_has():
    with pytest.raises(ValueError, match="CLIPText has no argument 'grid' to change"):
        zoo.create("clip-vit-b32", target_backbone={"grid": 3})
    with pytest.raises(ValueError, match="GPT2 has no argument 'classes' to change; there are act, "):
        zoo.create_backbone("gpt2", classes=3)


def test_a_second_tower_that_there_is_not():
    with pytest.raises(ValueError, match="gpt2 has no 'target_backbone'; it has backbone"):
        zoo.create_backbone("gpt2", "target_backbone")


def test_unknown_names():
    with pytest.raises(ValueError, match="no family or size 'vit-b15' is known; did you mean vit-b16"):
        zoo.create("vit-b15")
    with pytest.raises(ValueError, match=r"no family or size 'xyzzy' is known; zoo.list\(\) has them all"):
        zoo.create_backbone("xyzzy")


def test_no_other_name_than_dropout_means_two_things():
    """It is the backbone's, as the docstring says; any other must be thought about."""
    both = set()
    for published in PUBLISHED:
        task = getattr(zoo, next(iter(published.architectures.values())).task)
        for half in published.halves.values():
            both |= {*inspect.signature(half.family).parameters} & {*inspect.signature(task).parameters}
    assert both == {"dropout"}


def test_every_listed_size_is_known():
    assert set(zoo.list()) <= set(known())


def test_a_created_backbone_in_yaml(command, tmp_path):
    config = yaml.safe_load((tmp_path / "digits.yaml").read_text())
    arguments = {"name": "vit-ti16", "dim": 16, "depth": 1, "heads": 2, "grid": 2, "prefix": 0}
    maker = {"init_args": {"name": arguments.pop("name")}, "dict_kwargs": arguments}
    config["model"]["init_args"]["backbone"] = {"class_path": "zoo.create_backbone", **maker}
    (tmp_path / "created.yaml").write_text(yaml.safe_dump(config))
    answer = command("fit", "--config", "created")
    assert answer.code == 0, answer.err
    (run,) = (tmp_path / "runs").glob("created-*")
    task = zoo.Classify.load_from_checkpoint(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert type(task.backbone) is zoo.ViT and task.backbone.dim == 16
