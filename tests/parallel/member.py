"""One of two processes that do what every strategy has to: ``python -m tests.parallel.member FOLDER``.

In FOLDER ``one.ckpt`` is what one process saved.  The first process writes down what came out, as ``found.pt``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from tests.parallel.cases import STEPS, TASKS, train, validate
from zoo.callbacks import Compile
from zoo.parallel import ModelParallel

STRATEGIES: dict[str, Callable[[], Any]] = {
    "ddp": DDPStrategy,
    "fsdp": ModelParallel,
    "fsdp in a folder": lambda: ModelParallel(save_distributed_checkpoint=True),
    "tensor": lambda: ModelParallel(tensor_parallel_size=2),
    "tensor in a folder": lambda: ModelParallel(tensor_parallel_size=2, save_distributed_checkpoint=True),
}
SPREAD = ("ddp", "fsdp", "tensor")
CLIPPED = ("causal", "normed", "seq2seq", "contrastive")
SOURCES = ("one", "fsdp", "fsdp in a folder", "tensor in a folder")


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    found: dict[tuple[str, ...], Any] = {}

    def run(case: str, strategy: str, **arguments: Any) -> tuple[list[float], Any, Any]:
        return train(case, folder, devices=2, strategy=STRATEGIES[strategy](), **arguments)

    for strategy in SPREAD:
        for case in TASKS:
            found["losses", strategy, case] = run(case, strategy)[0]
        for case in CLIPPED:
            fitting = run(case, strategy, optimizer="SGD")[2]
            found["weights", strategy, case] = fitting.strategy.lightning_module_state_dict()
        for case in ("classify", "seq2seq"):
            found["scores", strategy, case] = validate(case, folder, devices=2, strategy=STRATEGIES[strategy]())
    for strategy in STRATEGIES:
        fitting = run("causal", strategy)[2]
        for _ in range(2):  # a folder is written over
            fitting.save_checkpoint(folder / f"{strategy}.ckpt")
    for strategy in STRATEGIES:
        for source in SOURCES:
            path = folder / f"{source}.ckpt"
            found["gone on", strategy, source] = run("causal", strategy, path=path, steps=2 * STEPS)[0]
    found["bf16", "fsdp", "causal"] = run("causal", "fsdp", precision="bf16-mixed")[0]
    found["compiled", "fsdp", "causal"] = run("causal", "fsdp", callbacks=[Compile()], again=True)[0]
    if dist.get_rank() == 0:
        torch.save(found, folder / "found.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
