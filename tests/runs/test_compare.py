"""What differs between runs."""

from pathlib import Path

from zoo.runs import Run
from zoo.runs.compare import captions, facts, labels, overview, settings, shared


def run(name: str = "a", config: dict | None = None, path: str = "", **summary) -> Run:
    return Run(name, Path(path or f"runs/{name}"), config or {}, [{"step": 1.0, "val/loss": 1.0}], summary)


def differing(*configs: dict) -> dict[str, list[str]]:
    return settings([run(str(place), config) for place, config in enumerate(configs)])


def made(name: str, /, **arguments) -> dict:
    return {"class_path": name, "init_args": arguments}


# ---- configs


def test_only_the_keys_that_differ_are_named():
    configs = [
        {"seed": 1, "model": made("zoo.T", optimizer=made("torch.optim.AdamW", lr=lr, eps=1e-8))} for lr in (0.1, 1e-5)
    ]
    assert differing(*configs) == {"model.init_args.optimizer.init_args.lr": ["0.1", "1e-05"]}
    assert differing(configs[0], configs[0]) == {}


def test_another_class_is_a_row_and_what_both_have_is_compared():
    a = {"optimizer": made("torch.optim.AdamW", lr=0.1, betas=[0.9, 0.95], weight_decay=0)}
    b = {"optimizer": made("zoo.Muon", lr=0.2, momentum=0.9, weight_decay=0)}
    assert differing(a, b) == {"optimizer": ["AdamW", "Muon"], "optimizer.init_args.lr": ["0.1", "0.2"]}


def test_what_only_some_of_the_same_class_have_is_compared_among_them():
    configs = [{"o": made("A", x=1)}, {"o": made("A", x=2)}, {"o": made("B", y=1)}]
    assert differing(*configs) == {"o": ["A", "A", "B"], "o.init_args.x": ["1", "2", "—"]}


def test_a_subtree_that_one_lacks_is_its_class_or_the_number_of_its_keys():
    a = {"augment": made("zoo.Affine", degrees=12), "more": {"a": 1, "b": 2}, "list": [made("A"), made("B", c=1)]}
    assert differing(a, {"augment": None, "list": [made("A")]}) == {
        "augment": ["Affine", "—"],
        "more": ["2 keys", "—"],
        "list": ["[A, B]", "[A]"],
    }


def test_classes_in_lists_of_equal_length_are_compared_one_by_one():
    a, b = ({"callbacks": [made("A"), made("B", patience=n)]} for n in (1, 2))
    assert differing(a, b) == {"callbacks.1.init_args.patience": ["1", "2"]}


def test_a_key_without_a_value_is_no_key():
    assert differing({"a": None}, {}) == {}


def test_values_that_look_alike_are_told_apart():
    assert differing({"x": 1, "m": made("zoo.ViT")}, {"x": 1.0, "m": made("mine.ViT")}) == {
        "x": ["1", "1.0"],
        "m": ["zoo.ViT", "mine.ViT"],
    }


def test_where_runs_are_kept_and_logged_is_no_difference():
    a, b = (
        {
            "run_directory": f"runs/{name}",
            "trainer": {
                "default_root_dir": name,
                "logger": made("lightning.pytorch.loggers.WandbLogger", name=name, save_dir=name),
                "callbacks": [made("ModelCheckpoint", dirpath=name, monitor="val/loss")],
            },
        }
        for name in "ab"
    )
    assert differing(a, b) == {}
    b["trainer"]["logger"] = None
    assert differing(a, b) == {"trainer.logger": ["WandbLogger", "—"]}


# ---- facts


def test_facts_differ_only_where_they_are_known():
    a = run(
        parameters=1_234_567,
        git="abc",
        versions={"zoo": "1", "torch": "2"},
        started="then",
        device="x",
        flops_per_sample=1.2e12,
    )
    b = run(parameters=1_000, git=None, versions={"zoo": "1", "torch": "3"}, started="now", flops_per_sample=3.4e9)
    assert facts([a, b]) == {
        "parameters": ["1,234,567", "1,000"],
        "flops_per_sample": ["1.2 TFLOP", "3.4 GFLOP"],
        "versions.torch": ["2", "3"],
    }


def test_the_overview_leaves_out_what_nobody_knows(written, curve):
    from zoo.runs import read

    (whole,) = read(written("a", curve(seconds=2.5)))
    assert overview([whole, run("b", state="failed")]) == {
        "state": ["—", "failed"],
        "steps": ["50", "1"],
        "epochs": ["3", "—"],
        "training time": ["2 min 05 s", "—"],
        "tokens": ["3.2k", "—"],
        "compute": ["50 GFLOP", "—"],
    }


# ---- labels


def test_labels_leave_out_the_words_that_all_begin_with():
    runs = [run("vit-20260101-1"), run("vit-20260101-2"), run("vit-20260101-2-2")]
    assert (shared(runs), labels(runs)) == ("vit-20260101-", ["1", "2", "2-2"])
    assert labels(runs[:1]) == ["vit-20260101-1"]
    assert labels([run("vit-1"), run("gpt-1")]) == ["vit-1", "gpt-1"]
    assert labels([run("vit"), run("vit-2")]) == ["vit", "vit-2"]


def test_equal_names_are_told_apart_by_folder_or_path():
    assert labels([run("x", path="w/one"), run("x", path="w/two"), run("y")]) == ["one", "two", "y"]
    assert labels([run("x", path="a/x"), run("x", path="b/x")]) == ["a/x", "b/x"]


def test_captions_say_what_is_special_if_it_is_little():
    runs = [run("r-1", {"o": {"lr": 1, "a": 1, "b": 1}}), run("r-2", {"o": {"lr": 2, "a": 1, "b": 1}})]
    assert captions(runs) == ["1  (lr 1)", "2  (lr 2)"]
    runs.append(run("r-3", {"o": {"lr": 2, "a": 2, "b": 2}}))
    assert captions(runs) == ["1", "2", "3"]
