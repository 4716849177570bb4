"""Translators as published: one vocabulary or two, and what has no published form."""

import pytest
import torch
import transformers as hf

import zoo
from tests.models.parity import random_ids
from tests.models.rows.transformer import ROWS, marian
from zoo.generation import Generation
from zoo.nn import Cache
from zoo.tokenizers import BPE, Ids, Tokens


def test_equal_vocabularies_with_tables_of_their_own(tmp_path):
    """FSMT's for English and German are equal in size, and its files have two tables all the same."""
    row = next(row for row in ROWS if row.name == "fsmt transformer odd")
    row.build().save_pretrained(tmp_path)
    task = zoo.load(tmp_path)
    assert task.tokenizer == task.target_tokenizer
    assert task.embed is not task.target_embed
    backbone = zoo.load_backbone(str(tmp_path))
    apart = zoo.Seq2Seq(backbone, task.tokenizer, share=False, tie=False)
    assert apart.embed.table.weight.equal(task.embed.table.weight)
    assert apart.target_embed.table.weight.equal(task.target_embed.table.weight)
    assert zoo.Seq2Seq(zoo.Transformer(32, 1, 4), Ids(9, 1, 2), Ids(9, 1, 2)).target_embed.tokenizer == Ids(9, 1, 2)


def test_copies_of_the_table_in_older_files(tmp_path):
    theirs = marian()
    theirs.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(dict(theirs.state_dict()), tmp_path / "pytorch_model.bin")
    assert zoo.load(tmp_path).embed.table.weight.equal(theirs.model.shared.weight)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (
            lambda: zoo.Seq2Seq(zoo.Transformer(32, 1, 4), Ids(9, 1, 2, 3)),
            "'interleaved'.* would be .*'sin_cos'",
        ),
        (lambda: zoo.Seq2Seq(zoo.BART(32, 1, 4), Ids(9, 1, 2, 3), tie=False), "tie_word_embeddings=False is not supp"),
    ],
)
def test_what_has_no_published_form(task, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        zoo.save(task(), tmp_path)


def test_two_written_vocabularies_are_refused():
    task = zoo.Seq2Seq(zoo.Transformer(32, 1, 4), BPE(), Ids(9, 1, 2, 3))
    with pytest.raises(ValueError, match="two vocabularies are saved as Ids only, and one of this task's is a BPE"):
        zoo.models.transformer.FSMT.processor.write(task)


def test_a_new_translator_is_read_by_the_reference(tmp_path):
    layout = {"layout": "sin_cos", "act": "silu", "decoder_depth": 1}
    task = zoo.Seq2Seq(zoo.Transformer(32, 2, 4, **layout), Ids(50, 1, 2, 3), head=zoo.Shifted)
    theirs, told = hf.MarianMTModel.from_pretrained(zoo.save(task, tmp_path), output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    assert (theirs.config.encoder_layers, theirs.config.decoder_layers) == (2, 1)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@torch.no_grad()
def test_step_by_step_equals_all_at_once(row, tmp_path):
    row.build().save_pretrained(tmp_path)
    task = zoo.load(tmp_path)
    source, target = random_ids(83, 11, 4, row.build().config.pad_token_id), random_ids(83, 7, 0)
    whole = task(source, target)
    (memory, padding), cache = task.encode(source), Cache()
    given = [task.target_embed.start(2), *task.target_embed(target.value[:, :-1]).split(1, 1)]
    steps = [task.backbone.decoder(x, memory=memory, memory_padding=padding, cache=cache) for x in given]
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-4)
    task.generation = Generation(6)  # the likeliest token each time, whatever the reference's file asks for
    written = task.generate(source).tokens
    forced = Tokens(torch.stack([torch.nn.functional.pad(w, (0, 6 - len(w))) for w in written]))
    best = task.head(task(source, forced)).argmax(-1)
    for row_, w in zip(best, written):
        assert torch.equal(row_[: len(w)], w)
