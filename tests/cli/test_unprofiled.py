"""What a run that nobody profiles does without, and a run that somebody does."""

from pathlib import Path

import lightning.pytorch as pl
import pytest
from lightning.pytorch.profilers import PassThroughProfiler, SimpleProfiler

from tests.long.finite import Numbers, Regression
from zoo.cli.run import trainer_arguments
from zoo.cli.unprofiled import Unprofiled

GIVEN = dict.fromkeys(
    ("callbacks", "plugins", "enable_checkpointing", "enable_progress_bar", "logger", "profiler", "val_check_interval")
)


def chosen(folder: Path, profiler) -> object:
    given = {**GIVEN, "enable_model_summary": False, "profiler": profiler}
    return trainer_arguments(given, folder, ("val/loss", "min"), training=True)["profiler"]


def test_a_profiler_that_is_asked_for_stays(tmp_path):
    asked = SimpleProfiler()
    assert chosen(tmp_path, asked) is asked and chosen(tmp_path, "simple") == "simple"
    assert isinstance(chosen(tmp_path, None), Unprofiled)


def test_it_is_one_of_lightning_s_that_do_nothing(tmp_path):
    profiler = Unprofiled()
    assert isinstance(profiler, PassThroughProfiler)
    with profiler.profile("outer"), profiler.profile("inner"):
        pass
    with pytest.raises(KeyError), profiler.profile("an error is no business of it"):
        raise KeyError
    fit = pl.Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, profiler=profiler)
    fit.fit(Regression(), Numbers())
    assert fit.global_step == 16 and fit.profiler is profiler
