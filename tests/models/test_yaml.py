"""Every family is a task's backbone by its short name, in YAML, and trains a step."""

import inspect

import pytest
import yaml

import zoo

SMALL = {"dim": 16, "depth": 1, "heads": 2, "hidden": 24, "length": 64, "head_dim": 8, "kv_heads": 1, "window": 8}
SMALL |= {"furthest": 32, "buckets": 8, "grid": [2, 2]}
TRAINER = {"accelerator": "cpu", "max_steps": 1, "limit_val_batches": 1, "enable_progress_bar": False}
TEXT = {"class_path": "Text", "init_args": {"root": "words.txt", "length": 32, "batch_size": 2}}
PAIRS = {"class_path": "Pairs", "init_args": {"root": "words", "source": "en", "target": "de", "batch_size": 2}}
DIGITS = {"class_path": "Images", "init_args": {"batch_size": 8}}
PATCHES = {"class_path": "Patches", "init_args": {"size": 8, "patch": 4, "channels": 1}}
TASKS = {  # task -> its families, its data, its tokenizer, what else it needs
    "MaskedLM": ("BERT RoBERTa DeBERTa DeBERTa2 ESM", TEXT, "BPE", {}),
    "CausalLM": ("GPT GPT2 LLaMA Mistral CLIPText", TEXT, "BPE", {}),
    "Seq2Seq": ("Transformer BART T5 T5Gated Whisper", PAIRS, "BPE", {}),
    "Classify": ("ViT CLIPVision", DIGITS, PATCHES, {"pool": "ClassToken"}),
    "zoo.Classify": ("AST", DIGITS, PATCHES, {"pool": {"class_path": "ClassToken", "init_args": {"count": 2}}}),
}
FAMILIES = {name: task for task, (names, *_) in TASKS.items() for name in names.split()}


def test_no_family_is_forgotten():
    assert set(FAMILIES) == set(zoo.EXPORTS["zoo.models"])


@pytest.mark.parametrize("family", FAMILIES)
def test_it_trains_a_step(family, command, tmp_path):
    (tmp_path / "words.txt").write_text("all the words that there are, and some of them again\n" * 100)
    (tmp_path / "words").mkdir()
    for language, line in (("en", "two dogs run\n"), ("de", "zwei Hunde rennen\n")):
        (tmp_path / "words" / f"train.{language}").write_text(line * 20)
    _, data, tokenizer, more = TASKS[FAMILIES[family]]
    accepted = inspect.signature(getattr(zoo, family)).parameters
    backbone = {"class_path": family, "init_args": {name: v for name, v in SMALL.items() if name in accepted}}
    task = FAMILIES[family].removeprefix("zoo.")
    model = {"class_path": task, "init_args": {"tokenizer": tokenizer, "backbone": backbone, **more}}
    (tmp_path / "it.yaml").write_text(yaml.safe_dump({"trainer": TRAINER, "model": model, "data": data}))
    answer = command("fit", "--config", "it.yaml")
    assert answer.code == 0, answer.err
