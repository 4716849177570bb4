"""The table language: every rule forth and back, and the errors that name a tensor."""

import pytest
import torch

from zoo.convert import Fused, Leading, PatchConv, Rows, Same, Table

TABLE = Table(
    ("embed", "embed"),
    Same("h.{}.out", "blocks.{}.o", flip=True),
    Fused("h.{}.qkv", ("blocks.{}.q", "blocks.{}.k", "blocks.{}.v"), flip=True),
    Leading("cls", "pool.weight"),
    PatchConv("proj", "embed.projection"),
    ("experts.{}.{}.up", "moe.{}.experts.{}.up"),
    ("norm", "last"),
    ("norm.special", "other"),
    ("lm_head", "head"),
    drop=["buffer.{}"],
    tied=[("head.weight", "embed.weight")],
)


def theirs() -> dict:
    state = {"embed.weight": torch.randn(7, 4), "cls": torch.randn(1, 1, 4), "norm.weight": torch.randn(4)}
    state |= {"norm.special.weight": torch.randn(3), "experts.1.12.up.weight": torch.randn(2, 2)}
    state |= {"proj.weight": torch.randn(4, 3, 2, 2), "proj.bias": torch.randn(4)}
    for i in (0, 11):
        state |= {f"h.{i}.out.weight": torch.randn(5, 4), f"h.{i}.out.bias": torch.randn(4)}
        state |= {f"h.{i}.qkv.weight": torch.randn(4, 12), f"h.{i}.qkv.bias": torch.randn(12)}
    return state


def test_round_trip_is_exact_in_both_directions():
    there = theirs()
    here = TABLE.load(there)
    back = TABLE.save(here)
    assert back.keys() == there.keys()
    assert all(torch.equal(back[name], there[name]) and back[name].is_contiguous() for name in there)
    again = TABLE.load(back)
    assert again.keys() == here.keys() and all(torch.equal(again[name], here[name]) for name in here)


def test_names_and_values():
    there = theirs()
    here = TABLE.load(there)
    assert torch.equal(here["blocks.11.k.weight"], there["h.11.qkv.weight"][:, 4:8].T)
    assert torch.equal(here["blocks.0.v.bias"], there["h.0.qkv.bias"][8:])
    assert torch.equal(here["blocks.0.o.weight"], there["h.0.out.weight"].T)
    assert here["pool.weight"].shape == (1, 4)
    assert "moe.1.experts.12.up.weight" in here


def test_fused_head_by_head():
    rule = Fused("qkv", ("q", "k", "v"), heads=2)
    value = torch.arange(2 * 3 * 2 * 4.0).view(12, 4)  # (heads, three, 2) rows
    q, k, v = rule.load(value)
    assert torch.equal(q, value[[0, 1, 6, 7]]) and torch.equal(v, value[[4, 5, 10, 11]])
    assert torch.equal(k, value[[2, 3, 8, 9]]) and torch.equal(rule.save([q, k, v]), value)
    with pytest.raises(ValueError, match="shares of 2 heads"):
        rule.load(torch.zeros(9, 4))


def test_longest_path_wins():
    here = TABLE.load({"norm.special.weight": torch.ones(3), "norm.weight": torch.ones(4)})
    assert set(here) == {"other.weight", "last.weight"}


def test_a_path_ends_at_a_dot():
    with pytest.raises(ValueError, match="'normal.weight'"):
        TABLE.load({"normal.weight": torch.ones(1)})


def test_patches_are_flattened_row_column_channel():
    weight = torch.randn(4, 3, 2, 2)
    ours = TABLE.load({"proj.weight": weight})["embed.projection.weight"]
    for y, x, c in [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 2)]:
        assert torch.equal(ours[:, (y * 2 + x) * 3 + c], weight[:, c, y, x])


def test_ties():
    here = TABLE.load({"embed.weight": torch.randn(7, 4)})
    assert here["head.weight"] is here["embed.weight"]
    assert set(TABLE.save(here)) == {"embed.weight"}
    untied = {"embed.weight": torch.randn(7, 4), "lm_head.weight": torch.randn(7, 4)}
    assert torch.equal(TABLE.load(untied)["head.weight"], untied["lm_head.weight"])
    assert set(TABLE.save(TABLE.load(untied))) == set(untied)


def test_equal_values_are_no_tie():
    """A model that is not tied keeps both tables, also while they hold the same numbers."""
    equal = {"embed.weight": torch.ones(7, 4), "lm_head.weight": torch.ones(7, 4)}
    assert set(TABLE.save(TABLE.load(equal))) == set(equal)


def test_a_row_for_one_index_wins_over_the_row_for_all():
    table = Table(("h.{}.out", "blocks.{}.o"), ("h.0.out", "first.o"))
    there = {f"h.{i}.out.weight": torch.randn(2, 2) for i in (0, 10)}
    here = table.load(there)
    assert set(here) == {"first.o.weight", "blocks.10.o.weight"} and table.save(here).keys() == there.keys()


def test_dropped_tensors():
    assert TABLE.load({"buffer.3": torch.ones(1)}) == {}


def test_published():
    assert TABLE.published("blocks.3.k.bias") == "h.3.qkv.bias"
    assert TABLE.published("nothing") is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"h.x.out.weight": torch.ones(1)}, "no rule for the tensor 'h.x.out.weight'"),
        ({"h.2.qkv.bias": torch.ones(7)}, r"'h.2.qkv.bias' of shape \(7,\) cannot be cut into 3"),
        ({"cls": torch.ones(2, 1, 4)}, "'cls' .* axis of size 1"),
        ({"proj.weight": torch.ones(4, 1, 2, 2)}, r"'proj.weight' of shape \(4, 1, 2, 2\)"),
    ],
)
def test_errors_on_loading(state, words):
    with pytest.raises(ValueError, match=words):
        TABLE.load(state)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"mystery": torch.ones(1)}, "no rule for the tensor 'mystery'"),
        ({"blocks.1.v.weight": torch.ones(2, 2)}, "'blocks.1.v.weight' cannot be saved without 'blocks.1.q.weight'"),
        ({"blocks.1.v": torch.ones(1), "blocks.1.q": torch.ones(2), "blocks.1.k": torch.ones(2)}, "unequal shares"),
        ({"embed.projection.weight": torch.ones(4, 10)}, "'proj.weight' would come from 10 features"),
    ],
)
def test_errors_on_saving(state, words):
    with pytest.raises(ValueError, match=words):
        TABLE.save(state)


def test_two_tensors_for_one_place():
    table = Table(("a", "x"), ("b", "x"))
    with pytest.raises(ValueError, match="both become 'x.weight'"):
        table.load({"a.weight": torch.ones(1), "b.weight": torch.ones(1)})


ROWS = Table(Rows(("cls", "second"), "pool.weight"), Rows(("class_embedding",), "other.weight", axes=0))


def test_rows_of_one_tensor():
    theirs = {"cls": torch.randn(1, 1, 4), "second": torch.randn(1, 1, 4), "class_embedding": torch.randn(4)}
    ours = ROWS.load(theirs)
    assert torch.equal(ours["pool.weight"], torch.cat((theirs["cls"][0], theirs["second"][0])))
    assert torch.equal(ours["other.weight"], theirs["class_embedding"][None])
    back = ROWS.save(ours)
    assert back.keys() == theirs.keys() and all(torch.equal(back[name], theirs[name]) for name in theirs)
    assert ROWS.published("pool.weight") == "cls" and ROWS.knows("second")
    prefixed = Table(*(rule.after("model.") for rule in ROWS.rules))
    assert set(prefixed.save(ours)) == {"model." + name for name in theirs}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"second": torch.ones(1, 1, 4)}, "'second' cannot be loaded without 'cls'"),
        ({"cls": torch.ones(2, 1, 4), "second": torch.ones(2, 1, 4)}, r"of shape \(2, 1, 4\) is no row"),
        ({"class_embedding": torch.ones(1, 4)}, r"of shape \(1, 4\) is no row with 0 axes"),
    ],
)
def test_errors_of_rows(state, words):
    with pytest.raises(ValueError, match=words):
        ROWS.load(state)
    with pytest.raises(ValueError, match="made of 3 rows and should be of 2"):
        ROWS.save({"pool.weight": torch.ones(3, 4)})


def test_rows_of_different_widths():
    with pytest.raises(ValueError, match="'cls' and 'second' are of different shapes"):
        ROWS.load({"cls": torch.ones(1, 1, 4), "second": torch.ones(1, 1, 5)})
