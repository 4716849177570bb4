"""What differs between runs: in their configs, in the facts about them, and in what they reached."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from zoo.runs.metrics import Best, best, scores
from zoo.runs.read import Run
from zoo.runs.units import duration, engineering, flops, shorten

Table = dict[str, list[str]]  # key -> what stands there for each run
MISSING = "—"
UNKNOWN = (None, "", [])
NATURAL = {"run_directory", "default_root_dir", "dirpath", "save_dir"}  # no two runs have these in common
FACTS = (
    *("verb", "parameters", "trainable_parameters", "flops_per_sample", "data_fingerprint", "git", "versions"),
    *("device", "processes", "precision", "monitor", "group", "job_type", "tags"),
)


def labels(runs: Sequence[Run]) -> list[str]:
    """The names without the words that all begin with; where two are equal, the names of their folders, or paths."""
    names = unique(runs)
    begin = shared(runs)
    return [name.removeprefix(begin) for name in names]


def shared(runs: Sequence[Run]) -> str:
    """The words that all names begin with and that the labels leave out: "vit_digits-20260101-", or nothing."""
    words = [name.split("-") for name in unique(runs)]
    shortest = min(len(parts) for parts in words)
    common = 0
    while len(runs) > 1 and common < shortest - 1 and len({parts[common] for parts in words}) == 1:
        common += 1
    return "".join(f"{word}-" for word in words[0][:common])


def unique(runs: Sequence[Run]) -> list[str]:
    """Each run's name, or where another has it too, that of its folder, or else its path."""
    names, folders = Counter(run.name for run in runs), Counter(run.path.name for run in runs)
    return [
        run.name if names[run.name] == 1 else run.path.name if folders[run.path.name] == 1 else str(run.path)
        for run in runs
    ]


def captions(runs: Sequence[Run]) -> list[str]:
    """The labels, and beside each what is special about the run, where no more than two keys of the configs differ."""
    found, names = settings(runs), labels(runs)
    if not 0 < len(found) <= 2:
        return names
    special = [
        ", ".join(f"{key.rsplit('.', 1)[-1]} {shorten(values[place], 24)}" for key, values in found.items())
        for place in range(len(runs))
    ]
    return [f"{name}  ({what})" for name, what in zip(names, special)]


def settings(runs: Sequence[Run]) -> Table:
    """The keys of the configs that differ, dotted; of a subtree that not all have, its class instead of its keys."""
    return differences([comparable(run.config) for run in runs])


def facts(runs: Sequence[Run]) -> Table:
    """The facts of summary.json in which runs differ; what is not known of a run is no difference."""
    table: Table = {}
    for name in FACTS:
        values = [run.summary.get(name) for run in runs]
        parts = dict.fromkeys(part for value in values if isinstance(value, dict) for part in value)
        rows = {
            f"{name}.{part}": [value.get(part) if isinstance(value, dict) else None for value in values]
            for part in parts
        }
        for key, row in (rows or {name: values}).items():
            known = [value for value in row if value not in UNKNOWN]
            if any(value != known[0] for value in known):
                table[key] = [fact(name, value) for value in row]
    return table


def fact(name: str, value: Any) -> str:
    if value in UNKNOWN:
        return MISSING
    if isinstance(value, (int, float)) and name.endswith("parameters"):
        return f"{value:,}"
    return flops(value) if isinstance(value, (int, float)) and name.startswith("flops") else shown(value)


def reached(runs: Sequence[Run]) -> dict[str, list[Best | None]]:
    """The best of each metric by which runs are compared."""
    return {metric: [best(run, metric) for run in runs] for metric in scores(runs)}


def overview(runs: Sequence[Run]) -> Table:
    """How each run went: its state, how long it trained and how fast; rows of which nothing is known are left out."""
    rates = [sorted(run.points("samples_per_s")[1]) for run in runs]
    table = {
        "state": [shown(run.summary.get("state")) for run in runs],
        "parameters": [fact("parameters", run.summary.get("parameters")) for run in runs],
        "steps": [quantity(run.reached("step"), "{:,.0f}".format) for run in runs],
        "epochs": [quantity(last_epoch(run), "{:,.0f}".format) for run in runs],
        "training time": [quantity(run.reached("seconds"), duration) for run in runs],
        "tokens": [quantity(run.reached("tokens"), engineering) for run in runs],
        "compute": [quantity(run.reached("flops"), flops) for run in runs],
        "samples/s": [quantity(rate[len(rate) // 2] if rate else None, engineering) for rate in rates],
    }
    return {key: row for key, row in table.items() if set(row) != {MISSING}}


def last_epoch(run: Run) -> float | None:
    """Epochs are counted from 0."""
    return max((row["epoch"] + 1 for row in run.metrics if "epoch" in row), default=None)


def quantity(value: float | None, write: Any) -> str:
    return MISSING if value is None else write(value)


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what differs between any two runs: where they are kept, and what they are called."""
    kept = pruned(config)
    trainer = kept.get("trainer")
    if isinstance(trainer, dict) and "logger" in trainer:
        kept["trainer"] = {**trainer, "logger": shown(trainer["logger"])}
    return kept


def pruned(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: pruned(value) for key, value in tree.items() if key not in NATURAL}
    return [pruned(value) for value in tree] if isinstance(tree, (list, tuple)) else tree


def differences(trees: Sequence[Any], key: str = "") -> Table:
    """Dotted key -> what each tree has there, for the keys at which they differ."""
    if len({json.dumps(tree, default=str) for tree in trees}) == 1:  # 1 and 1.0 differ: one batch, and all of them
        return {}
    opened = [branches(tree) for tree in trees]
    alike = None not in opened and len({name_of(tree) for tree in trees}) == 1
    table: Table = {} if alike else {key: told_apart(trees)}
    for name in dict.fromkeys(name for branch in opened if branch for name in branch):
        having = [place for place, branch in enumerate(opened) if alike or (branch and name in branch)]
        rows = differences([opened[place].get(name) for place in having], f"{key}.{name}" if key else name)
        for dotted, values in rows.items():
            spread = dict(zip(having, values))
            table[dotted] = [spread.get(place, MISSING) for place in range(len(trees))]
    return table


def told_apart(trees: Sequence[Any]) -> list[str]:
    """Each as it is shown, or in full where different ones would be shown alike."""
    short = [shown(tree) for tree in trees]
    if len(set(short)) > 1:
        return short
    return [
        str(tree["class_path"]) if isinstance(tree, dict) and "class_path" in tree else repr(tree) for tree in trees
    ]


def branches(tree: Any) -> dict[str, Any] | None:
    """What lies below: of a class its arguments, of a list of classes its items; None for a leaf."""
    if isinstance(tree, dict):
        below = {key: value for key, value in tree.items() if key not in ("class_path", "init_args")}
        return {**{f"init_args.{key}": value for key, value in (tree.get("init_args") or {}).items()}, **below}
    if isinstance(tree, list) and tree and all(isinstance(item, dict) for item in tree):
        return {str(place): item for place, item in enumerate(tree)}
    return None


def name_of(tree: Any) -> Any:
    """What two trees must have in common if their keys mean the same: their class, or how many classes they list."""
    return len(tree) if isinstance(tree, list) else tree.get("class_path")


def shown(value: Any) -> str:
    """A value as YAML would say it, a class by its name, several keys by their number."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, dict):
        name = value.get("class_path")
        return str(name).rsplit(".", 1)[-1] if name else f"{len(value)} keys"
    if isinstance(value, list):
        return f"[{', '.join(shown(item) for item in value)}]"
    return f"{value:.8g}" if isinstance(value, float) else json.dumps(value)
