"""Several data modules at once, for a module that trains several tasks."""

import hashlib
import json
from collections.abc import Callable

import lightning.pytorch as pl
from lightning.pytorch.utilities.combined_loader import CombinedLoader

from zoo.data.module import DataModule
from zoo.tokenizers import Batch


class Combined(pl.LightningDataModule):
    """Several data modules at once, for ``Multimodal``.

    A batch is a dictionary, name -> Batch; a member uses the tokenizers of the module's task of its name,
    ``tasks[name]``.

    An epoch of training is one pass over the member with the most batches; the others go round again, in a new order.
    In validation and test each sample is met once, and a member that has ended is missing from the batch.
    """

    def __init__(self, modules: dict[str, DataModule]):
        super().__init__()
        if not modules:
            raise ValueError("modules is empty: name at least one data module")
        self.modules = modules

    @property
    def fingerprint(self) -> str:
        """12 hex digits that change with any member's data."""
        record = json.dumps({name: module.fingerprint for name, module in sorted(self.modules.items())})
        return hashlib.sha256(record.encode()).hexdigest()[:12]

    @property
    def skipped(self) -> list[str]:
        """What the members left out, as in ``DataModule``."""
        return [sentence for module in self.modules.values() for sentence in module.skipped]

    def prepare_data(self) -> None:
        for module in self.modules.values():
            module.prepare_data()

    def train_dataloader(self) -> CombinedLoader:
        members = self.members()
        counts = {name: len(member.train_dataloader()) for name, member in members.items()}
        rounds = {name: -(-max(counts.values()) // count) for name, count in counts.items()}
        loaders = {name: member.loader("train", rounds[name]) for name, member in members.items()}
        return CombinedLoader(loaders, "min_size")

    def val_dataloader(self) -> CombinedLoader | list:
        return self._evaluation(DataModule.val_dataloader)

    def test_dataloader(self) -> CombinedLoader | list:
        return self._evaluation(DataModule.test_dataloader)

    def predict_dataloader(self) -> CombinedLoader | list:
        return self._evaluation(DataModule.test_dataloader)

    def sample(self, split: str, count: int) -> dict[str, Batch]:
        """``count`` samples from all over a split of each member that has it."""
        members = self.members().items()
        return {name: part.sample(split, count) for name, part in members if split in part.source.splits}

    def on_before_batch_transfer(self, batch: dict[str, Batch | None], dataloader_idx: int) -> dict[str, Batch]:
        return {name: part for name, part in batch.items() if part is not None}

    def _evaluation(self, loader: Callable) -> CombinedLoader | list:
        loaders = {name: loader(member) for name, member in self.members().items()}
        loaders = {name: found for name, found in loaders.items() if found}
        return CombinedLoader(loaders, "max_size") if loaders else []

    def members(self) -> dict[str, DataModule]:
        """The modules, told which task and trainer they serve."""
        if self.trainer:
            tasks = getattr(self.trainer.lightning_module, "tasks", {})
            for name, module in self.modules.items():
                if name not in tasks:
                    raise ValueError(
                        f"data for {name!r}, but no task of that name; there is {', '.join(tasks) or 'none'}"
                    )
                module.trainer, module.task = self.trainer, tasks[name]
        return self.modules
