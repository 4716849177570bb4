"""``tokenize`` on the command line: what it writes and says, and the sentence for each mistake."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoo.cli.tokenize import chosen
from zoo.data import Text
from zoo.tokenizers import BPE, Characters, Subword

WORDS = " ".join(f"word {i}\n" for i in range(900))


@pytest.fixture
def text(tmp_path):
    (tmp_path / "words.txt").write_text(WORDS)
    return "words.txt"


def test_shards_are_written_verified_and_trained_on(command, text, tmp_path):
    answer = command(
        *("tokenize", text, "--tokenizer", "docs-2048", "--output", "made/shards", "--val", "0.1"),
        *("--processes", "1", "--shard_tokens", "1000"),
    )
    assert answer.code == 0 and answer.err == ""
    shards = tmp_path / "made" / "shards"
    index = json.loads((shards / "index.json").read_text())
    counts = {split: sum(shard["tokens"] for shard in found) for split, found in index["splits"].items()}
    train, val = (f"{split} {counts[split]:,} tokens of 1 documents" for split in ("train", "val"))
    assert answer.out == f"made/shards: {train}, {val}; 0.0 MB\n"
    assert index["vocabulary"] == 2048 and index["dtype"] == "uint16"
    assert (shards / "tokenizer.json").read_text() == BPE("docs-2048").content
    ids = np.concatenate([np.fromfile(path, "<u2") for path in sorted(shards.glob("train-*.bin"))])
    assert BPE("docs-2048").decode(ids) == WORDS[: len(BPE("docs-2048").decode(ids))]
    assert command("tokenize", "--verify", "made/shards").out.endswith("MB; every checksum is right\n")
    small = ("--data.length=8", "--data.batch_size=2", "--trainer.accelerator=cpu", "--model.backbone.depth=1")
    small += ("--trainer.max_steps=2", "--trainer.limit_val_batches=1", "--trainer.enable_progress_bar=false")
    fit = ("fit", "--config", "gpt_docs", "--data.root=made/shards", *small)
    assert command(*fit, "--model.tokenizer.file=made/shards/tokenizer.json").code == 0
    other = command(*fit, "--model.tokenizer.file=null")
    assert other.code == 1 and "made by BPE of 2,048 tokens, and the tokenizer of the task is BPE of 260" in other.err
    (shards / "val-00000.idx").write_bytes(b"1" * 8)
    assert "val-00000.idx: its SHA-256 is not that" in command("tokenize", "--verify", "made/shards").err


MISTAKES = {
    (): (2, "a SOURCE must be given"),
    ("words.txt",): (2, "--tokenizer must be given"),
    ("words.txt", "--tokenizer", "docs-2048"): (2, "--output must be given"),
    ("nowhere.txt", *(more := ("--tokenizer", "docs-2048", "--output", "out", "--processes", "1"))): (
        *(1, "nowhere.txt: no such file or folder; expected .txt,"),
    ),
    ("words.txt", *more, "--val=2"): (2, "--val=2.0 is not a share: give 0 <= val < 1"),
    ("words.txt", *more, "--shard_tokens=0"): (2, "--shard_tokens=0: give at least 1"),
    ("words.txt", "--tokenizer", "docs-2048", "--output", "."): (1, "--output=.: is there already; remove it"),
    ("words.txt", "--tokenizer", "gpt_dox", "--output", "out"): (2, "no config file 'gpt_dox' here, and none of that"),
    ("words.txt", "--tokenizer", "none.json", "--output", "out"): (1, "has no none.json"),
    ("words.txt", "--tokenizer", "vit_digits", "--output", "out"): (1, "Patches does not read text"),
    ("words.txt", *more, "--key"): (2, "argument --key: expected one argument"),
    ("a.jsonl", *more, "--key", "body"): (1, "a.jsonl, line 1: no key 'body'; it has 'text'; say which it is"),
    ("hf:name", *more): (1, "hf:name: needs the datasets package: pip install lightning-zoo[data]"),
    ("--verify", "."): (1, "no folder of token shards: it has no index.json"),
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes_are_answered_in_a_line(command, text, tmp_path, monkeypatch, words):
    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    code, message = MISTAKES[words]
    answer = command("tokenize", *words)
    assert answer.code == code and message in answer.err and answer.err.count("\n") == 1 and not answer.out
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".*"))


def test_a_tokenizer_is_a_file_a_config_or_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BPE("docs-2048").save("own.json")
    foreign = BPE("docs-2048").content.replace("<eos>", "<end>")
    Path("foreign.json").write_text(foreign)
    Path("letters.yaml").write_text(
        "model: {class_path: CausalLM, init_args: {tokenizer: {class_path: Characters, init_args: {alphabet: abc}}}}"
    )
    assert chosen("own.json") == chosen("docs-2048") == chosen("gpt_docs") == BPE("docs-2048")
    assert chosen("letters.yaml") == Characters("abc") == chosen("letters")
    assert isinstance(chosen("foreign.json"), Subword)


def test_help_needs_no_torch():
    code = "import sys; from zoo.__main__ import main; main(['tokenize', '--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--shard_tokens" in out and not {"torch", "lightning", "rich"} & set(out.splitlines()[-1].split())


def test_a_run_that_was_stopped_leaves_nothing_for_long(command, text, tmp_path):
    left = tmp_path / ".saving.0123abcd.partial"
    left.mkdir()
    (left / "train-00000.bin").write_bytes(b"half")
    assert command("tokenize", text, "--tokenizer", "docs-2048", "--output", "out", "--processes", "1").code == 0
    assert not left.exists() and Text("out", 8, tokenizer=BPE("docs-2048")).train_dataloader()
