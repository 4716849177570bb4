"""``convert``, ``verify`` and ``diff``, as typed, and ``list`` with its sizes."""

import json
import subprocess
import sys

import pytest
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

import zoo
from zoo.hub.create import known


@pytest.fixture
def bert(tmp_path) -> str:
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=97,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
    )
    hf.BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    return str(tmp_path / "bert")


def test_verify_finds_both_equal(command, bert):
    answer = command("verify", bert)
    assert answer.code == 0, answer.err
    assert "backbone.blocks.2" in answer.out and "equal within" in answer.out


def test_verify_names_the_first_layer_that_diverges(command, bert, monkeypatch):
    load = zoo.hub.load

    def wrong(source):
        task = load(source)
        task.backbone.blocks[1].ffn.norm.eps = 0.1
        return task

    monkeypatch.setattr(zoo, "load", wrong)
    answer = command("verify", bert)
    assert answer.code == 1
    assert "zoo: error: backbone.blocks.1 is the first to diverge: by " in answer.err and "Traceback" not in answer.err


def test_verify_without_the_reference(command, bert, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    answer = command("verify", bert)
    assert answer.code == 1 and "pip install transformers" in answer.err


@pytest.mark.parametrize("verb", ["verify", "convert"])
def test_a_damaged_directory_is_one_line(command, bert, verb, tmp_path):
    file = tmp_path / "bert" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    answer = command(verb, bert, *(["there"] if verb == "convert" else []))
    assert answer.code == 1 and not (tmp_path / "there").exists()
    assert "model.safetensors is no whole safetensors file" in answer.err and answer.err.count("\n") == 1


def test_convert_writes_what_the_reference_reads(command, bert, tmp_path):
    answer = command("convert", bert, "there")
    assert answer.code == 0 and "MaskedLM of BERT" in answer.out
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("bert", "there"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_becomes_a_directory_of_its_family(command, tmp_path):
    (tmp_path / "words.txt").write_text("all the words that there are, and some of them again\n" * 200)
    (tmp_path / "gpt.yaml").write_text(
        """
trainer: {accelerator: cpu, max_steps: 3, limit_val_batches: 1, enable_progress_bar: false, num_sanity_val_steps: 0}
model:
  class_path: zoo.CausalLM
  init_args:
    tokenizer: BPE
    backbone: {class_path: GPT2, init_args: {dim: 16, depth: 2, heads: 2, length: 32}}
data: {class_path: Text, init_args: {root: words.txt, length: 32, batch_size: 2}}
"""
    )
    answer = command("fit", "--config", "gpt.yaml")
    assert answer.code == 0, answer.err
    (run,) = (tmp_path / "runs").iterdir()
    answer = command("convert", f"runs/{run.name}", "mine")
    assert answer.code == 0, answer.err
    theirs = hf.GPT2LMHeadModel.from_pretrained(tmp_path / "mine").eval()
    words = hf.AutoTokenizer.from_pretrained(tmp_path / "mine")
    ours = zoo.load(tmp_path / "mine")
    ids = ours.tokenizer.encode("some words")
    assert words("some words")["input_ids"] == ids.tolist()
    with torch.no_grad():
        expected = theirs(ids[None]).logits
        found = ours.head(ours(ours.tokenizer(["some words"])))
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


def test_a_classifier_keeps_the_names_of_its_classes(command, tmp_path):
    for split, count in (("train", 4), ("val", 2)):
        for name in ("cat", "dog"):
            (tmp_path / "pets" / split / name).mkdir(parents=True)
            for i in range(count):
                image = torch.randint(0, 255, (8, 8, 3), dtype=torch.uint8).numpy()
                Image.fromarray(image).save(tmp_path / "pets" / split / name / f"{i}.png")
    (tmp_path / "pets.yaml").write_text(
        """
trainer: {accelerator: cpu, max_steps: 1, enable_progress_bar: false}
model:
  class_path: zoo.Classify
  init_args:
    tokenizer: {class_path: zoo.Patches, init_args: {size: 8, patch: 4}}
    backbone: {class_path: zoo.ViT, init_args: {dim: 16, depth: 1, heads: 2, grid: 2}}
    pool: ClassToken
data: {class_path: zoo.Images, init_args: {root: pets, batch_size: 4}}
"""
    )
    answer = command("fit", "--config", "pets.yaml")
    assert answer.code == 0, answer.err
    (run,) = (tmp_path / "runs").iterdir()
    assert command("convert", f"runs/{run.name}", "mine").code == 0
    theirs = hf.ViTForImageClassification.from_pretrained(tmp_path / "mine")
    assert theirs.config.id2label == {0: "cat", 1: "dog"}
    assert zoo.load(tmp_path / "mine").labels == ["cat", "dog"]


def test_diff_of_families(command):
    answer = command("diff", "bert", "roberta")
    assert answer.code == 0, answer.err
    assert "backbone.position" in answer.out and "vocabulary" in answer.out


def test_diff_of_sizes_says_sizes(command):
    answer = command("diff", "bert-base", "bert-large")
    assert "parts: the same" in answer.out
    assert "335,174,458" in answer.out


def test_diff_of_checkpoints_says_how_far_apart_they_are(command, bert, tmp_path):
    command("convert", bert, "other")
    assert "weights: the same weights" in command("diff", bert, "other").out
    file = tmp_path / "other" / "model.safetensors"
    state = load_file(file)
    state["bert.encoder.layer.1.attention.self.key.weight"] *= 1.5
    save_file({name: value.clone() for name, value in state.items()}, file)
    assert "SHA256SUMS: it was damaged or changed" in command("diff", bert, "other").err
    file.with_name("SHA256SUMS").unlink()
    out = command("diff", bert, "other").out
    assert "backbone.blocks.*.mixer.fn.k.weight" in out and "0.5" in out


def test_diff_of_something_unknown(command):
    answer = command("diff", "bert", "bort")
    assert answer.code == 1 and "'bort' is no family or size" in answer.err


def test_list_shows_every_size_without_torch():
    code = "import sys; from zoo.__main__ import main; main(['list', 'families']); assert 'torch' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    sizes = {name for published in zoo.models.PUBLISHED for name in published.sizes}
    assert sizes <= set(known())
    missing = {name for name in sizes if f"{name}:" not in out}
    assert not missing


@pytest.mark.parametrize("size", [n for published in zoo.models.PUBLISHED for n in published.sizes])
def test_published_sizes_have_the_published_parameters(size):
    (stated,) = {published.sizes[size].parameters for published in zoo.models.PUBLISHED if size in published.sizes}
    with torch.device("meta"):
        task = zoo.create(size)
    absent = {"scale"} if type(task).__name__ == "Contrastive" and task.target_backbone is task.backbone else set()
    assert sum(weight.numel() for name, weight in task.named_parameters() if name not in absent) == stated


def test_config_json_is_readable(command, bert, tmp_path):
    command("convert", bert, "there")
    config = json.loads((tmp_path / "there" / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"] and config["hidden_size"] == 32
