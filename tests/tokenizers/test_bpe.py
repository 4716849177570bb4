"""Byte-level BPE: exact round trips, special tokens, training, errors, and what a prediction scores."""

import math
import pickle

import pytest
import torch

from zoo.described import describe
from zoo.tokenizers import BPE

HARD = [
    "",
    " ",
    "héllo wörld",
    "日本語 \U0001f600 \u200d",
    "a <eos> that is text, and <pad>",
    "tab\tnul\x00\r\n",
    "é e\u0301",
]


@pytest.fixture(scope="module")
def trained():
    return BPE.train(["the cat sat on the mat, the cat sat"] * 20, vocabulary=300)


@pytest.mark.parametrize("text", HARD)
def test_any_text_comes_back_exactly(text, trained):
    for tokenizer in (BPE(), trained, BPE(file="docs-2048")):
        ids = tokenizer.encode(text)
        assert ids[-1] == tokenizer.special("eos")
        assert tokenizer.decode(ids) == text


def test_merges_shorten_what_they_were_trained_on(trained):
    assert trained.vocabulary <= 300
    assert len(trained.encode("the cat")) < len(BPE().encode("the cat")) == len("the cat") + 1


def test_tokens_stand_for_all_bytes_of_a_text(trained):
    text = "the cat sät"
    assert trained.sizes(torch.device("cpu"))[trained.encode(text)].sum() == len(text.encode())


def test_it_is_a_value(trained, tmp_path):
    trained.save(str(tmp_path / "tokenizer.json"))
    again = BPE(file=str(tmp_path / "tokenizer.json"))
    assert again == trained == pickle.loads(pickle.dumps(trained)) == BPE(**describe(trained)["init_args"])
    assert again != BPE()


def test_padding_is_on_the_right():
    tokenizer = BPE()
    tokens = tokenizer.collate([tokenizer.encode("ab"), tokenizer.encode("abcd")])
    assert tokens.padding.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert (tokens.value[0, 3:] == tokenizer.special("pad")).all()


def test_scores_are_the_textbook_ones():
    tokenizer = BPE()
    target = tokenizer.encode("abc")
    uniform = torch.zeros(len(target), tokenizer.vocabulary)
    scores = tokenizer.score(uniform, target)
    loss, count = scores["loss"]
    assert loss / count == pytest.approx(math.log(tokenizer.vocabulary))
    bits, size = scores["bits_per_byte"]
    assert size == 3 and bits / size == pytest.approx(4 * math.log2(tokenizer.vocabulary) / 3)
    assert tokenizer.derive({"loss": 2.0}) == {"perplexity": pytest.approx(math.exp(2))}
    perfect = torch.nn.functional.one_hot(target, tokenizer.vocabulary) * 50.0
    assert tokenizer.score(perfect, target)["accuracy"][0] == 4


def test_hidden_tokens_are_seen_as_the_mask():
    tokenizer = BPE()
    embed, ids = tokenizer.embed(8), tokenizer.encode("abc")[None]
    hidden = torch.tensor([[True, False, False, False]])
    out = embed(ids, hidden)
    assert torch.equal(out[0, 0], embed.table.weight[tokenizer.special("mask")])
    assert torch.equal(out[0, 1:], embed(ids)[0, 1:])


def test_the_head_shares_the_table_only_when_tied():
    tokenizer = BPE()
    embed = tokenizer.embed(8)
    assert tokenizer.head(8, embed).out.weight is embed.table.weight
    assert tokenizer.head(8).out.weight is not embed.table.weight


def test_training_from_files_writes_a_tokenizer(tmp_path):
    (tmp_path / "a.txt").write_text("ab ab ab\n" * 50, encoding="utf8")
    BPE.train_files([str(tmp_path / "a.txt")], 270, str(tmp_path / "t.json"))
    tokenizer = BPE(file=str(tmp_path / "t.json"))
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab" and len(tokenizer.encode("ab ab")) < 6


def test_errors_name_the_file(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"good \xff bad")
    with pytest.raises(ValueError, match=r"bad\.txt is not UTF-8: byte 5"):
        BPE.train_files([str(tmp_path / "bad.txt")], 300, str(tmp_path / "t.json"))
    assert not (tmp_path / "t.json").exists()
    (tmp_path / "bad.json").write_text('{"model": {"type": "WordPiece"}}')
    with pytest.raises(ValueError, match=r"bad\.json is not a BPE"):
        BPE(file=str(tmp_path / "bad.json"))
    with pytest.raises(ValueError, match="no tokenizer file 'nowhere'.*docs-2048"):
        BPE(file="nowhere")
    with pytest.raises(ValueError, match="vocabulary=100 is too small"):
        BPE.train(["a"], 100)
    with pytest.raises(ValueError, match="no mask token '<hole>'"):
        BPE(mask="<hole>").special("mask")
