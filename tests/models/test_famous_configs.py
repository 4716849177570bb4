"""The config.jsons of famous checkpoints, in the words of their time, describe the models that their sizes name."""

import json
from pathlib import Path

import pytest
import torch

import zoo
from zoo.hub.source import Source, recognise

CONFIGS = json.loads((Path(__file__).parent / "famous_configs.json").read_text("utf8"))
LABELS = {"vit-b16": 1000, "ast-base": 527}  # names of classes, which the file leaves out

CHANGES = {
    "vit-b16": {"eps": 1e-12},
    "esm2-8m": {"half": False},
}  # 1e-6 is JAX's and timm's; the weights tell the latter


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_the_model_of_that_size(name):
    config = CONFIGS[name]
    if name in LABELS:
        config = {**config, "id2label": {str(i): f"class {i}" for i in range(LABELS[name])}}
    published = recognise(config)
    with torch.device("meta"):
        task = Source(name, published, published.complete(config)).task()
        assert not zoo.differences(task, zoo.create(name, **CHANGES.get(name, {})))
