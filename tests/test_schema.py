"""The JSON schema accepts the configs that the command line accepts, and finds the mistakes that it finds."""

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.conftest import DIGITS
from tests.mistakes import TYPOS
from zoo.cli.schema import schema, text
from zoo.listing import shipped

README = Path(__file__).resolve().parent.parent / "README.md"
CONFIGS = {name: path for name, path in shipped().items() if not name.startswith("sweeps/")}  # those are W&B's
FREE = ("changes", "tasks", "modules")  # whose keys a user chooses

BLOCK = "{class_path: Block, init_args: {mixer: {class_path: Attention, init_args: {heads: 2}}, ffn: MLP}}"
BACKBONE = "model: {init_args: {backbone: {class_path: Backbone, init_args: {dim: 8, depth: 1, %s, block: %s}}}}"
ACCEPTED = {  # laid over the small config of the tests
    "a short name": "model: {init_args: {backbone: {class_path: ViT}}}",
    "a public name": "model: {init_args: {backbone: {class_path: zoo.models.ViT, init_args: {dim: 8}}}}",
    "a full name": "model: {init_args: {backbone: {class_path: zoo.models.vit.ViT, init_args: {dim: 8}}}}",
    "a class as a word": "data: Images",
    "a class as a path": "data: zoo.Images",
    "a part that the code calls": BACKBONE % ("last_norm: {class_path: LayerNorm, init_args: {eps: 1.0e-5}}", BLOCK),
    "a part as a word": BACKBONE % ("last_norm: RMSNorm", BLOCK),
    "blocks that take turns": BACKBONE % ("dropout: 0", f"[{BLOCK}, {BLOCK}]"),
    "an object as a word": "model: {init_args: {backbone: {class_path: LLaMA, init_args: {mask: Full}}}}",
    "a function": "model: {init_args: {backbone: {class_path: zoo.load_backbone, init_args: {source: gpt2}}}}",
    "an argument alone": "model: {init_args: {backbone: {init_args: {depth: 2}}}}",
    "an argument without init_args": "data: {batch_size: 8}",
    "an optimizer": "model: {init_args: {optimizer: {class_path: SGD, init_args: {lr: 1, momentum: 0.9}}}}",
    "an optimizer's path": "model: {init_args: {optimizer: {class_path: torch.optim.Adam, init_args: {lr: 1.0e-3}}}}",
    "an optimizer's pair": "model: {init_args: {optimizer: {class_path: AdamW, init_args: {betas: [0.9, 0.95]}}}}",
    "a number with an exponent": "model: {init_args: {dropout: 1e-3}}",
    "a number as a string": 'model: {init_args: {dropout: "1e-3"}}',
    "a callback in a list": "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {monitor: val/loss}}]}",
    "a callback alone": "trainer: {callbacks: ModelSummary}",
    "callbacks added": "trainer: {callbacks+: [RichProgressBar, {class_path: zoo.callbacks.Compile}]}",
    "augmentation added": "data: {init_args: {augment+: CropFlip}}",
    "a logger": "trainer: {logger: {class_path: CSVLogger, init_args: {save_dir: logs}}}",
    "no logger": "trainer: {logger: false}",
    "a strategy by name": "trainer: {strategy: ddp, accelerator: cpu, devices: 2}",
    "a strategy": "trainer: {strategy: {class_path: lightning.pytorch.strategies.DDPStrategy}}",
    "a precision": "trainer: {precision: 16}",
    "a fraction and a count": "trainer: {limit_train_batches: 0.5, limit_val_batches: 3}",
    "a time": "trainer: {max_time: {hours: 1}}",
    "a seed": "seed_everything: 3",
    "a checkpoint": "ckpt_path: best.ckpt",
    "the schema's own line": "$schema: zoo.schema.json",
}
REFUSED = {
    "an empty section": "trainer:\ndata: Images",
    "a path of ours that leads nowhere": "model: {init_args: {backbone: {class_path: zoo.models.ViTT}}}",
    "a function that is none": "model: {init_args: {backbone: {class_path: zoo.load_backbones}}}",
    "a part of another slot": "model: {init_args: {backbone: LayerNorm}}",
    "a part of another slot by path": "model: {init_args: {backbone: {class_path: zoo.LayerNorm}}}",
    "what the code gives": BACKBONE % ("last_norm: {class_path: LayerNorm, init_args: {dim: 8}}", BLOCK),
    "the optimizer's parameters": "model: {init_args: {optimizer: {class_path: AdamW, init_args: {params: []}}}}",
    "a third of a pair": "model: {init_args: {optimizer: {class_path: AdamW, init_args: {betas: [0.9, 0.9, 0.9]}}}}",
    "a boolean for a whole number": "trainer: {max_epochs: true}",
    "a fraction for a whole number": "trainer: {max_epochs: 1.5}",
    "a boolean for a number": "model: {init_args: {dropout: true}}",
    "a number for a boolean": "trainer: {detect_anomaly: 1}",
    "a number for a word": "data: {init_args: {root: 5}}",
    "a choice that is none": "trainer: {precision: 8}",
    "a choice that is none, in a part": "model: {init_args: {backbone: {init_args: {act: gelx}}}}",
    "no arguments": "data: {init_args: null}",
    "an unknown key beside init_args": "data: {init_args: {batch_size: 1}, workers: 1}",
    "another verb's section": "verbose: true",
}


@pytest.fixture(scope="module")
def checker() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(schema())


def keys(node: Any, path: tuple = ()) -> Iterator[tuple]:
    """The place of every key, at any depth, that is not a user's own choice."""
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from keys(item, (*path, number))
    if isinstance(node, dict):
        for key, value in node.items():
            if not (path and path[-1] in FREE):
                yield (*path, key)
            yield from keys(value, (*path, key))


def renamed(config: dict, path: tuple) -> dict:
    changed = copy.deepcopy(config)
    node: Any = changed
    for step in path[:-1]:
        node = node[step]
    node[path[-1] + "x"] = node.pop(path[-1])
    return changed


def enumerations(node: Any) -> Iterator[list]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and isinstance(node.get("enum"), list):
        yield node["enum"]
    for child in children:
        yield from enumerations(child)


def laid_over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: laid_over(below.get(key), value) for key, value in above.items()}}


def test_it_is_a_schema_and_small(checker):
    jsonschema.Draft7Validator.check_schema(checker.schema)
    references = set(re.findall(r'"\$ref": "#/definitions/([^"]+)"', json.dumps(checker.schema)))
    assert references == set(checker.schema["definitions"])
    for words in enumerations(checker.schema):  # editors refuse a schema that says a word twice
        assert len(words) == len({json.dumps(word) for word in words}), words


def test_the_verb_writes_the_same_file_in_another_process(tmp_path):
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(README.parent)}
    words = [sys.executable, "-m", "zoo", "schema", "--out", "zoo.schema.json"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "# yaml-language-server: $schema=zoo.schema.json" in done.stdout
    written = (tmp_path / "zoo.schema.json").read_text(encoding="utf-8")
    assert written == text() and len(written) < 500_000


def test_the_verb_prints_and_answers_a_bad_path_in_one_line(command):
    assert command("schema").out == text()
    answer = command("schema", "--out", "nowhere/schema.json")
    assert (
        answer.code == 1 and answer.err == "zoo: error: cannot write nowhere/schema.json: no such file or directory\n"
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shipped_config_is_valid_and_no_key_can_be_misspelled(checker, name):
    config = yaml.safe_load(CONFIGS[name].read_text(encoding="utf-8"))
    checker.validate(config)
    assert [path for path in keys(config) if checker.is_valid(renamed(config, path))] == []


def test_the_config_of_a_run_is_valid(checker, command, tmp_path):
    (tmp_path / "more.yaml").write_text(
        "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {monitor: val/loss}}]}\n"
        "model: {init_args: {optimizer: {class_path: AdamW, init_args: {lr: 1e-3}}, schedule: WarmupLinear}}\n"
        "data: {init_args: {augment: [{class_path: CropFlip, init_args: {padding: 1}}]}}\n"
    )
    answer = command("fit", "--config", "digits", "--config", "more.yaml")
    assert answer.code == 0, answer.err
    (run,) = (tmp_path / "runs").iterdir()
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    checker.validate(config)
    assert config["model"]["init_args"]["optimizer"]["init_args"]["amsgrad"] is False  # it says everything
    assert [path for path in keys(config) if checker.is_valid(renamed(config, path))] == []


def test_the_configs_in_the_readme_are_valid(checker):
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    configs = [yaml.safe_load(block) for block in blocks]
    for config in configs:
        checker.validate(config if "model" in config else {"model": {"init_args": config}})
    assert any("my_parts" in block for block in blocks)


@pytest.mark.parametrize("kind", TYPOS)
def test_a_typo_is_found(checker, kind):
    text, _ = TYPOS[kind]
    assert checker.is_valid(yaml.safe_load(DIGITS))
    assert not checker.is_valid(yaml.safe_load(text))
    assert not checker.is_valid(laid_over(yaml.safe_load(DIGITS), yaml.safe_load(text)))


@pytest.mark.parametrize("what", [*ACCEPTED, *REFUSED])
def test_it_says_what_the_parser_says(checker, command, tmp_path, what):
    text = {**ACCEPTED, **REFUSED}[what]
    (tmp_path / "change.yaml").write_text(text)
    answer = command("fit", "--config", "digits", "--config", "change.yaml", "--print_config")
    assert (answer.code == 0) == (what in ACCEPTED), answer.err
    assert checker.is_valid(yaml.safe_load(text)) == (what in ACCEPTED)


def test_a_functions_arguments_are_checked(checker):
    given = {"source": "gpt2", "changes": {"dropout": 0.1, "anything": True}}
    for more, valid in ({}, True), ({"sources": "gpt2"}, False), ({"weights": 5}, False):
        backbone = {"class_path": "zoo.load_backbone", "init_args": {**given, **more}}
        assert checker.is_valid({"model": {"init_args": {"backbone": backbone}}}) == valid


def test_a_users_own_class_may_have_any_arguments(checker):
    for path, valid in {
        "my_parts.Average": True,
        "package.module.Mine": True,
        "Mine": False,
        "zoo.Mine": False,
    }.items():
        own = {"class_path": path, "init_args": {"anything": [1, {"at": "all"}]}}
        assert checker.is_valid({"model": own}) == valid
        assert checker.is_valid({"model": {"init_args": {"backbone": own}}}) == valid
        assert checker.is_valid({"trainer": {"callbacks": [own]}}) == valid


def test_every_default_is_valid_where_it_stands(checker):
    definitions = checker.schema["definitions"]
    objects = [checker.schema["properties"]["trainer"], *definitions.values()]
    found = [
        node for one in objects for node in one.get("properties", {}).values() if node is not True and "default" in node
    ]
    assert len(found) > 500
    for node in found:
        checker.evolve(schema={**node, "definitions": definitions}).validate(node["default"])


def test_an_editor_can_show_what_a_key_means_and_what_it_is_by_default(checker):
    trainer, classes = checker.schema["properties"]["trainer"]["properties"], checker.schema["definitions"]
    assert trainer["max_epochs"]["description"].startswith("Stop training once this number of epochs is reached")
    assert trainer["gradient_clip_val"]["default"] == 1.0
    assert classes["arguments.zoo.Classify.0"]["description"].startswith("Tell classes apart")
    assert classes["arguments.zoo.Classify.0"]["properties"]["pool"]["default"] == "Mean"
    assert trainer["precision"]["enum"][-3:] == ["16", "bf16", None]
    offered = classes["names.slot.zoo.Task.0"]["anyOf"][0]["enum"]
    assert "Classify" in offered and "zoo.Classify" not in offered
