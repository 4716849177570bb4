"""SLURM's side of being told to stop: which signal asks for the job to be queued again, and doing it."""

from __future__ import annotations

import os
import re
import signal
import subprocess

from lightning.pytorch import Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment

LIMIT = 60  # seconds for scontrol


def requeue_signal(trainer: Trainer) -> int | None:
    """The number of the signal by which SLURM announces the end of a job's time (``#SBATCH --signal=USR1@90``), after
    which the job is to be queued again; None outside SLURM, or where the Trainer's environment does not want it."""
    if "SLURM_JOB_ID" not in os.environ:
        return None
    environment = trainer._accelerator_connector.cluster_environment
    if isinstance(environment, SLURMEnvironment):
        return environment.requeue_signal if environment.auto_requeue else None
    return signal.SIGUSR1


def job() -> str:
    """This job's number as scontrol takes it; one of an array has two."""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return os.environ.get("SLURM_JOB_ID", "")


def requeue() -> str:
    """Queue this job again; why that could not be, or "" where it was done."""
    number = job()
    if not re.fullmatch(r"\d+(_\d+)?", number):
        return f"{number!r} is no number of a job"
    try:
        done = subprocess.run(["scontrol", "requeue", number], capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        return f"scontrol: {error}"
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or f"scontrol ended with {done.returncode}"
