"""Published backbones and tokenizers in modules of one's own, in other tasks, and in a YAML run."""

import json
import logging
import shutil
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
import transformers as hf
import yaml
from torch import nn

import zoo
from tests.tokenizers.test_subword import wordpiece
from tests.tokenizers.test_vocabularies import PIECES


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> str:
    """A tiny BERT with its tokenizer, as the reference writes them."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("published")
    config = hf.BertConfig(
        vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=40, num_labels=5,
    )  # fmt: skip
    hf.BertForSequenceClassification(config).save_pretrained(path)
    names = {"pad_token": "[PAD]", "mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    hf.PreTrainedTokenizerFast(tokenizer_object=wordpiece(), unk_token="[UNK]", **names).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def theirs(published) -> nn.Module:
    return hf.BertForSequenceClassification.from_pretrained(published).eval()


def embedding(module: nn.Module) -> torch.Tensor:
    return module.bert.embeddings.word_embeddings.weight


TEXTS = ["the fox", "hello, the quick fox"]


class Own(nn.Module):
    """A module of one's own around a published backbone."""

    def __init__(self, source: str):
        super().__init__()
        self.tokenizer = zoo.load_tokenizer(source)
        self.backbone = zoo.load_backbone(source)
        self.embed = self.tokenizer.embed(self.backbone.dim)
        self.backbone.init(self.embed, name="embed")

    def forward(self, texts: list[str]) -> torch.Tensor:
        tokens = self.tokenizer(texts)
        return self.backbone(self.embed(tokens.value), padding=tokens.padding)


class OwnTask(pl.LightningModule):
    def __init__(self, source: str):
        super().__init__()
        self.own, self.out = Own(source), nn.Linear(16, 2)

    def training_step(self, batch, index):
        return self.out(self.own(TEXTS)[:, 0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_a_module_of_ones_own(published, theirs):
    own = Own(published).eval()
    tokens = own.tokenizer(TEXTS)
    with torch.no_grad():
        wanted = theirs.bert(input_ids=tokens.value, attention_mask=tokens.real.long()).last_hidden_state
        assert torch.allclose(own(TEXTS)[tokens.real], wanted[tokens.real], atol=1e-5)
    assert tokens.value[0].tolist() == hf.AutoTokenizer.from_pretrained(published)(TEXTS, padding=True)["input_ids"][0]


def test_a_lightning_module_of_ones_own(published):
    task = OwnTask(published)
    before = task.own.embed.table.weight.clone()
    options = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(max_steps=2, accelerator="cpu", **options)
    trainer.fit(task, torch.utils.data.DataLoader([0, 1]))
    assert not torch.equal(task.own.embed.table.weight, before)


def test_a_classifier_with_as_many_classes_takes_the_head(published, theirs):
    parts = {"backbone": zoo.load_backbone(published), "tokenizer": zoo.load_tokenizer(published)}
    task = zoo.Classify(classes=5, pool=zoo.Pooler, **parts).eval()
    with torch.no_grad():
        tokens = task.tokenizer(TEXTS)
        logits = theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).logits
        assert torch.allclose(task(tokens), logits, atol=1e-5)


def test_another_number_of_classes_gets_a_new_head_and_a_note(published, theirs, caplog):
    parts = {"backbone": zoo.load_backbone(published), "tokenizer": zoo.load_tokenizer(published)}
    with caplog.at_level(logging.WARNING):
        task = zoo.Classify(classes=3, pool=zoo.Pooler, **parts)
    assert (
        "head.out.weight has the shape (5, 16) and the task's has (3, 16), so the task's own stays new" in caplog.text
    )
    assert torch.equal(task.embed.table.weight, embedding(theirs))
    assert torch.equal(task.pool.dense.weight, theirs.bert.pooler.dense.weight)
    assert task.head.out.weight.shape == (3, 16) and task.head.out.weight.abs().max() > 0


def test_another_task_takes_what_it_has_a_place_for(published, theirs, caplog):
    parts = {"backbone": zoo.load_backbone(published), "tokenizer": zoo.load_tokenizer(published)}
    with caplog.at_level(logging.WARNING):
        task = zoo.MaskedLM(**parts)
    assert "head" in caplog.text
    assert torch.equal(task.embed.table.weight, embedding(theirs)) and task.head.out.weight is task.embed.table.weight


def test_a_tokenizer_of_another_vocabulary_is_refused(published):
    with pytest.raises(ValueError, match=r"embed\..*; zoo\.load_tokenizer gives the tokenizer") as caught:
        zoo.MaskedLM(zoo.load_backbone(published), zoo.BPE())
    assert "\n" not in str(caught.value) and published in str(caught.value)


def test_changes(published):
    assert zoo.load_backbone(published, {"dropout": 0.3}).drop.p == 0.3
    with pytest.raises(ValueError, match="BERT has no argument 'dropuot' to change; did you mean 'dropout'"):
        zoo.load_backbone(published, {"dropuot": 0.3})
    with pytest.raises(ValueError, match=r"the tensor '.*' makes 'backbone\..*' of shape .* ask for"):
        zoo.load_backbone(published, {"hidden": 25})
    with pytest.raises(ValueError, match=r"config\.json with the changes: heads=3 does not divide dim=16"):
        zoo.load_backbone(published, {"heads": 3})
    with pytest.raises(ValueError, match=r"config\.json with the changes: no model has these values"):
        zoo.load_backbone(published, {"depth": "two"})
    with pytest.raises(ValueError, match="has no 'target_backbone'; it has backbone"):
        zoo.load_backbone(published, name="target_backbone")


# ---- in a run

RUN = """\
# A published backbone
trainer: {accelerator: cpu, max_steps: 2, limit_val_batches: 1, limit_test_batches: 1, enable_progress_bar: false,
          num_sanity_val_steps: 0, log_every_n_steps: 1}
model:
  class_path: zoo.TASK
  init_args:
    backbone: {class_path: zoo.load_backbone, init_args: {source: DIR}}
    tokenizer: {class_path: zoo.load_tokenizer, init_args: {source: DIR}}
data: {class_path: zoo.Text, init_args: DATA}
"""
DATA = {
    "MaskedLM": {"root": "text.txt", "length": 8, "batch_size": 2},
    "Classify": {"root": "records", "label": "label", "batch_size": 2},
}


@pytest.fixture
def copied(published, tmp_path) -> Path:
    """Another directory, that a test may remove."""
    return Path(shutil.copytree(published, tmp_path / "bert"))


@pytest.mark.parametrize("task", [*DATA])
def test_a_run_from_yaml(task, command, copied, theirs):
    Path("text.txt").write_text("the quick fox and the hello fox. " * 30)
    Path("records").mkdir()
    records = [{"text": f"the {word} fox", "label": word} for word in ("quick", "hello", "lazy")] * 4
    for split in ("train", "val", "test"):
        Path(f"records/{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    text = RUN.replace("TASK", task).replace("DIR", str(copied)).replace("DATA", json.dumps(DATA[task]))
    Path("run.yaml").write_text(text)
    answer = command(
        "fit", "--config", "run", "--model.init_args.optimizer=torch.optim.SGD", "--model.init_args.optimizer.lr=0"
    )
    assert answer.code == 0, answer.err
    (run,) = Path("runs").glob("run-2*")
    saved = yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]
    assert saved["backbone"]["class_path"] == "zoo.load_backbone"
    assert saved["backbone"]["init_args"]["source"] == str(copied)
    if task == "Classify":  # the masked LM's only text has no test split
        tested = command("test", str(run))
        assert tested.code == 0, tested.err

    shutil.rmtree(copied)
    again = getattr(zoo, task).load_from_checkpoint(run / "checkpoints" / "last.ckpt")
    assert torch.equal(again.embed.table.weight, embedding(theirs))
    assert again.tokenizer.encode("the fox").tolist() == [2, PIECES.index("the"), PIECES.index("fox"), 3]


def test_a_run_from_a_directory_that_is_not_there(command):
    Path("text.txt").write_text("the quick fox and the hello fox. " * 30)
    text = (
        RUN.replace("TASK", "MaskedLM").replace("DIR", "not/here/at-all").replace("DATA", json.dumps(DATA["MaskedLM"]))
    )
    Path("run.yaml").write_text(text)
    answer = command("fit", "--config", "run")
    assert answer.code and "not/here/at-all" in answer.err and answer.err.count("\n") <= 2, answer.err
