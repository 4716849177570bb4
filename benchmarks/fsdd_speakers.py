"""Leave one speaker out: spoken digits by a voice that training never heard, for each speaker in turn.

    python benchmarks/fsdd_speakers.py ROOT [--config fsdd fsdd_unheard] [--trainer.max_epochs=10 ...]

ROOT holds the Free Spoken Digit Dataset as {train,test}/<digit>/<speaker>_<index>.wav.  For each speaker two manifests
are made in a temporary place, the configs are trained on the other speakers and tested on that one.  Other flags go to
``python -m zoo fit``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch


def manifest(path: Path, files: list[Path]) -> None:
    rows = ({"audio": str(file.resolve()), "label": file.parent.name} for file in files)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def zoo(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "zoo", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def held_out(files: list[Path], speaker: str, configs: list[str], flags: list[str]) -> float:
    """Accuracy on one speaker of a model trained on all others."""
    with tempfile.TemporaryDirectory() as name:
        folder, own = Path(name), f"{speaker}_"
        manifest(folder / "train.jsonl", [file for file in files if not file.name.startswith(own)])
        manifest(folder / "test.jsonl", [file for file in files if file.name.startswith(own)])
        quiet = "--trainer.enable_progress_bar=false"
        named = [word for config in configs for word in ("--config", config)]
        zoo(folder, "fit", *named, f"--data.init_args.root={folder}", quiet, *flags)
        (run,) = (folder / "runs").iterdir()
        last = run / "checkpoints" / "last.ckpt"
        zoo(folder, "test", "--config", str(run / "config.yaml"), f"--ckpt_path={last}")
        (tested,) = (folder / "runs").glob("*-test-*")
        header, values = (tested / "metrics.csv").read_text().splitlines()[:2]
        return float(dict(zip(header.split(","), values.split(","), strict=True))["test/accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--config", nargs="+", default=["fsdd", "fsdd_unheard"])
    options, flags = parser.parse_known_args()
    files = sorted(options.root.glob("*/*/*.wav"))
    if not files:
        sys.exit(f"{options.root}: no {{train,test}}/<digit>/<speaker>_<index>.wav there")
    scores = []
    for speaker in sorted({file.name.rsplit("_", 1)[0] for file in files}):
        scores.append(held_out(files, speaker, options.config, flags))
        print(f"{speaker:12} {scores[-1]:.3f}", flush=True)
    print(f"{'mean':12} {statistics.mean(scores):.3f}   ({torch.get_num_threads()} threads)")


if __name__ == "__main__":
    main()
