"""Directories that are wrong in some way, through ``zoo.load``: one sentence that names file and key or tensor."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import zoo
from zoo import files


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """A tiny BERT as the reference writes it."""
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("published")
    hf.BertForMaskedLM(config).save_pretrained(path)
    return path


@pytest.fixture
def change(published, tmp_path) -> Callable[..., Path]:
    """A copy of it with other values in config.json, some keys less, and other tensors."""

    def write(values: dict | None = None, without: tuple[str, ...] = (), tensors: Callable | None = None) -> Path:
        config = json.loads((published / "config.json").read_text()) | (values or {})
        config = {key: value for key, value in config.items() if key not in without}
        state = load_file(published / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps(config))
        state |= (tensors(state) or {}) if tensors else {}
        save_file(state, tmp_path / "model.safetensors")
        return tmp_path

    return write


def refused(path: Path, message: str, error: type = ValueError) -> None:
    with pytest.raises(error, match=message) as caught:
        zoo.load(path)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
        for value in ("many", -3, 1e9, 10**9, 10**18, 2.5, [16], {"a": 3}, True)
    ]
    + [(key, None) for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")]
    + [("hidden_size", 0), ("num_attention_heads", 0), ("num_hidden_layers", 0), ("max_position_embeddings", "20")]
    + [("num_attention_heads", 3), ("layer_norm_eps", "small"), ("layer_norm_eps", None), ("hidden_act", "swoosh")]
    + [("hidden_act", 3), ("hidden_act", None), ("hidden_act", ["gelu"]), ("type_vocab_size", "2")]
    + [("type_vocab_size", 10**9), ("hidden_dropout_prob", "0.1"), ("hidden_dropout_prob", None)]
    + [("pad_token_id", "[PAD]"), ("tie_word_embeddings", "no"), ("type_vocab_size", -1), ("type_vocab_size", 2.5)],
)
def test_a_value_of_config_that_cannot_be_meant(key, value, change):
    shapes = "model.safetensors: the tensor .* (shape|has no place)|has no place"
    refused(change({key: value}), rf"config\.json.*{key}|config\.json|{shapes}|heads")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 24}, r"model\.safetensors: the tensor 'bert\..*' makes '.*' of shape \(.*16.*ask for \(.*24"),
        ({"vocab_size": 41}, r"model\.safetensors: the tensor .* of shape \(40, 16\), but .* \(41, 16\)"),
        ({"num_hidden_layers": 3}, r"the weights lack 'bert\.encoder\.layer\.2\."),
        ({"num_hidden_layers": 1}, r"model\.safetensors: the tensor 'bert\.encoder\.layer\.1\..*' has no place"),
        ({"model_type": "brt"}, r"config\.json: no family has the model_type 'brt'; did you mean 'bert'\?"),
        ({"model_type": "xyzzy-9"}, r"no family has the model_type 'xyzzy-9'; there are .*bert"),
        ({"model_type": ["bert"]}, r"no family has the model_type \['bert'\]"),
        ({"model_type": None}, "no family has the model_type None"),
        (
            {"position_embedding_type": "relative_key"},
            r"config\.json: position_embedding_type='relative_key' is not sup",
        ),
        ({"is_decoder": True}, "is_decoder=True is not supported"),
        (
            {"architectures": ["BertForTokenClassification"]},
            r"BertForTokenClassification is no task here \(BertForMask",
        ),
        ({"architectures": "BertForMaskedLM"}, "architectures='BertForMaskedLM' is no list of names"),
        ({"architectures": [3]}, r"architectures=\[3\] is no list of names"),
        ({"architectures": {"a": 3}}, "architectures="),
        ({"architectures": ["BertForSequenceClassification"], "id2label": [1, 2]}, r"config\.json: id2label=\[1, 2\]"),
        ({"architectures": ["BertForSequenceClassification"], "id2label": {"a": "b"}}, "id2label="),
        (
            {"architectures": ["BertForSequenceClassification"], "id2label": None, "num_labels": "two"},
            r"config\.json: no model has these values",
        ),
        ({"architectures": ["BertForSequenceClassification"]}, "the weights lack 'classifier.|the weights lack"),
        ({"hidden_act": {}}, r"config\.json: hidden_act=\{\} is not of the kind of 'gelu'"),
        ({"hidden_size": "many"}, r"config\.json: hidden_size='many' is not of the kind of 768"),
        ({"num_hidden_layers": 10**9}, r"config\.json: 1000000000 layers, and the weights are \d+ tensors"),
    ],
)
def test_what_is_said(values, message, change):
    refused(change(values), message)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("model_type", r"config\.json: .*model_type"),
        ("num_attention_heads", r"config\.json: heads=12 does not divide dim=16"),  # the family's own number, as there
        ("hidden_size", r"makes '.*' of shape \(16,\), but config\.json and the changes ask for \(768,\)"),
    ],
)
def test_a_missing_key(key, message, change):
    refused(change(without=(key,)), message)


def test_without_architectures_it_is_the_main_one(change):
    assert isinstance(zoo.load(change(without=("architectures",))), zoo.MaskedLM)
    assert isinstance(zoo.load(change({"architectures": None})), zoo.MaskedLM)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (lambda s: s.pop("bert.embeddings.word_embeddings.weight") is None, "the weights lack '.*'"),
        (
            lambda s: s.pop("bert.encoder.layer.1.output.dense.bias") is None,
            "the weights lack 'bert.encoder.layer.1.out",
        ),
        (
            lambda s: {"bert.encoder.layer.0.gate": torch.ones(3)},
            r"model\.safetensors: no rule for the tensor 'bert\.enc",
        ),
        (
            lambda s: {"bert.encoder.layer.7.output.dense.bias": torch.ones(16)},
            r"model\.safetensors: the tensor .* no place",
        ),
        (
            lambda s: {"bert.encoder.layer.0.output.dense.bias": torch.ones(17)},
            r"model\.safetensors: the tensor 'bert.encoder.layer.0.output.dense.bias' makes .* of shape \(17,\)",
        ),
        (lambda s: {"bert.encoder.layer.0.output.dense.bias": torch.ones(16, 1)}, r"of shape \(16, 1\)"),
        (lambda s: {"bert.encoder.layer.0.output.dense.bias": torch.tensor(3.0)}, r"of shape \(\)"),
        (
            lambda s: {"bert.encoder.layer.0.output.dense.bias": torch.ones(16, dtype=torch.int8)},
            "holds torch.int8 and no real numbers",
        ),
        (lambda s: {name: value[:0].clone() for name, value in s.items()}, r"of shape \(0"),
        (lambda s: s.clear(), "the weights lack"),
    ],
)
def test_a_tensor_that_is_missing_strange_or_of_another_shape(tensors, message, change):
    refused(change(tensors=tensors), message)


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"",
        b"\xff\xfe",
        b'{"model_type": "bert"',
        b"3",
        b'{"model_type": "bert", "a": ' + b'{"a": ' * 900 + b"3" + b"}" * 901,
    ],
)
def test_a_config_that_is_none(content, change):
    path = change()
    (path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json|lack") as caught:
        zoo.load(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_tokenizer(change):
    path = change()
    (path / "tokenizer.json").write_text("{}")
    refused(path, r"tokenizer\.json is no tokenizer\.json of the tokenizers library")
    (path / "tokenizer.json").unlink()
    (path / "vocab.txt").write_bytes(b"\xff")
    refused(path, r"vocab\.txt makes no tokenizer")


def test_a_sentencepiece_model_leaves_ids(change, caplog):
    path = change()
    (path / "spiece.model").write_bytes(b"\n")
    with caplog.at_level(logging.WARNING):
        task = zoo.load(path)
    assert "spiece.model needs sentencepiece" in caplog.text
    with pytest.raises(ValueError, match=r"no tokenizer\.json beside this model"):
        task.tokenizer.encode("a text")


def test_an_empty_directory_and_an_unknown_id(tmp_path):
    refused(tmp_path, r"has no config\.json")
    refused("no/such/id", "is neither a directory with a config.json nor the id of a model on the hub")
    refused("nobody/nothing-at-all", "could not be downloaded", OSError)


# ---- saving


def weights(path: Path) -> dict[str, torch.Tensor]:
    return files.read_weights(path).state


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return set(a) == set(b) and all(torch.equal(value, b[name]) for name, value in a.items())


def test_saved_where_it_was_loaded_from_twice(change):
    path = change()
    task, before = zoo.load(path), weights(change())
    for _ in range(2):
        zoo.save(task, path)
    assert equal(weights(path), before)
    with torch.no_grad():
        task.backbone.blocks[0].mixer.fn.q.weight.add_(1.0)
    zoo.save(task, path)
    assert not equal(weights(path), before)
    hf.BertForMaskedLM.from_pretrained(path)


def test_an_interrupted_save_leaves_the_old_files(change, monkeypatch):
    path = change()
    task, before, config = zoo.load(path), weights(change()), (path / "config.json").read_text()
    with torch.no_grad():
        task.backbone.blocks[0].mixer.fn.q.weight.add_(1.0)

    def fail(*paths):
        raise OSError("the disk is gone")

    monkeypatch.setattr(files, "synchronise", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        zoo.save(task, path)
    assert equal(weights(path), before) and (path / "config.json").read_text() == config
    assert {file.name for file in path.iterdir()} == {"config.json", "model.safetensors"}
    monkeypatch.undo()
    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        zoo.save(task, path)
    with pytest.raises(ValueError, match="has no config.json"):  # rather than weights of one model, config of another
        zoo.load(path)


def test_shards_are_read_by_both(change, monkeypatch, tmp_path):
    path = change()
    task, before = zoo.load(path), weights(change())
    monkeypatch.setattr(files, "SHARD", 8_000)
    zoo.save(task, path)
    assert not (path / "model.safetensors").exists() and len(list(path.glob("model-*.safetensors"))) > 1
    assert equal(weights(path), before)
    again = zoo.load(path)
    theirs, told = hf.BertForMaskedLM.from_pretrained(path, output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = torch.arange(4, 12)[None]
    with torch.no_grad():
        ours = again.head(again(zoo.Tokens(ids)))
        assert torch.allclose(ours, theirs.eval()(input_ids=ids).logits, atol=1e-5)
    monkeypatch.setattr(files, "SHARD", "5GB")
    zoo.save(again, path)
    assert {file.name for file in path.iterdir()} == {"config.json", "model.safetensors", files.SUMS}
    assert equal(weights(path), before)
