"""The sweeps that come with the library: the commands that W&B's agent makes of them train."""

import pytest
import yaml

from zoo.listing import sweeps

utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")


def drawn(parameter: dict) -> object:
    """One value of a sweep's parameter."""
    return parameter["values"][-1] if "values" in parameter else parameter["max"]


@pytest.mark.parametrize("name", sweeps())
def test_the_agents_command_trains(name, command):
    sweep = yaml.safe_load(sweeps()[name].read_text(encoding="utf8"))
    assert sweep["method"] in ("random", "grid", "bayes") and sweep["metric"]["goal"] in ("minimize", "maximize")
    values = {key: {"value": drawn(parameter)} for key, parameter in sweep["parameters"].items()}
    parts = utils.create_sweep_command_args({"args": values})
    words = [word for part in sweep["command"] for word in (parts["args"] if part == "${args}" else [part])]
    assert words[:4] == ["${env}", "${interpreter}", "-m", sweep["program"]]
    assert f"val/{sweep['metric']['name'].split('/')[1].split('.')[0]}"  # stands below a summary of define_metric
    answer = command(*words[4:], "--trainer.fast_dev_run=1", "--trainer.accelerator=cpu")
    assert answer.code == 0, answer.err
