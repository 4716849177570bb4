"""The base of all data modules: splits, the loaders over them, and how a batch is made."""

import hashlib
import json
import os
from dataclasses import replace
from functools import cached_property

import lightning.pytorch as pl
import torch
from torch import Tensor

from zoo.data.augment import Augment
from zoo.data.bad import BadItems, OnBad
from zoo.data.by_length import ByLength
from zoo.data.field import Field, Samples, Source
from zoo.data.order import Loader, Order
from zoo.data.share import share
from zoo.data.split import Split
from zoo.data.streamed import Streamed, StreamSet
from zoo.data.worker import outlive, require_sockets
from zoo.rng import sample_keys
from zoo.tokenizers import Batch, Tokenizer


class DataModule(pl.LightningDataModule):
    """A subclass says what there is (``read``); the loaders, and batches that repeat exactly, are made here.

    ``tokenizer`` and ``target_tokenizer`` are those of the task being trained, unless given here.  ``val`` is the
    share of the training samples that is held out where the data have no validation split (0: no validation); where
    they have no test split, the test reads the validation samples.  ``augment`` acts on the input, in training only.
    ``seed`` decides the order of the samples, their augmentation and masking: Lightning's global seed, if not given.
    What is held out does not depend on it.

    ``on_bad`` says what an item does that cannot be read, such as a truncated file or a line that is no JSON: "raise"
    stops the run with its name, "skip" leaves it out of its batch and lists it in ``skipped``, which changes nothing
    else: not the order, not what is held out, not how a run resumes.

    ``bucket`` makes batches of samples of similar length, which leave less padding: each so many batches of the order
    that was drawn are sorted by length, and then the batches change places; 0 takes samples as they were drawn.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        target_tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
        augment: list[Augment] | Augment | None = None,
        val: float = 0.1,
        on_bad: OnBad = "raise",
        bucket: int = 0,
    ):
        super().__init__()
        if batch_size < 1 or workers < 0:
            raise ValueError(f"batch_size={batch_size}, workers={workers}: need at least 1 and 0")
        if not 0 <= val < 1:
            raise ValueError(f"val={val} is not a share of the training samples: give 0 <= val < 1")
        self.tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer
        self.batch_size = batch_size
        self.workers = workers
        self.seed = int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed
        self.augment = [augment] if isinstance(augment, Augment) else list(augment or [])
        self.val = val
        if bucket < 0:
            raise ValueError(f"bucket={bucket}: give a number of batches that are sorted by length, or 0")
        self.bucket = bucket
        self.bad = BadItems(on_bad)
        self.task: pl.LightningModule | None = None  # whose tokenizers to use; None: the module that the trainer trains
        self._sets: dict = {}

    def read(self) -> Source:
        """What there is, read without a tokenizer; called once."""
        raise NotImplementedError

    @cached_property
    def source(self) -> Source:
        """What ``read`` found, with all three splits: "val" and "test" are absent only where nothing is held out."""
        found = self.read()
        splits = dict(found.splits)
        count = len(splits["train"].input)
        held = max(1, round(count * self.val)) if self.val and count > 1 else 0
        if "val" not in splits and held:
            order = sample_keys(0, 0, torch.arange(count)).argsort(stable=True)
            splits["val"] = splits["train"].take(order[:held].sort().values.tolist())
            splits["train"] = splits["train"].take(order[held:].sort().values.tolist())
        if "test" not in splits and "val" in splits:
            splits["test"] = splits["val"]
        return Source(splits, found.classes)

    @property
    def classes(self) -> list[str]:
        """The names of the classes; empty where samples have no label."""
        return self.source.classes

    @property
    def fingerprint(self) -> str:
        """12 hex digits that change with the data: their name, the count and the size of each split, the classes."""
        splits = {
            split: [[len(field), field.size] for field in samples.fields]
            for split, samples in sorted(self.source.splits.items())
        }
        name = str(getattr(self, "root", None)).replace("\\", "/").rstrip("/").split("/")[-1]  # wherever it lies
        record = json.dumps([type(self).__name__, name, splits, self.classes])
        return hashlib.sha256(record.encode()).hexdigest()[:12]

    @property
    def skipped(self) -> list[str]:
        """What was left out so far: a sentence for each item that could not be read, which begins with its file."""
        return list(self.bad.found)

    def prepare_data(self) -> None:
        """Downloads, where the data must be, happen in one process."""
        _ = self.source

    def train_dataloader(self) -> Loader:
        return self.loader("train")

    def val_dataloader(self) -> Loader | list:
        return self.loader("val") if "val" in self.source.splits else []

    def test_dataloader(self) -> Loader:
        return self.loader("test")

    def predict_dataloader(self) -> Loader:
        return self.loader("test")

    def loader(self, split: str, repeats: int = 1) -> Loader:
        """Batches of a split; ``repeats`` passes make one epoch of training."""
        if split not in self.source.splits:
            raise ValueError(f"{type(self).__name__} has no {split} samples: give val a share above 0")
        samples, train = self._set(split), split == "train"
        rank, world = share(self.trainer)
        if self.workers:
            require_sockets()
        field = self.source.splits[split].input
        if isinstance(field, Streamed):
            return self._stream(field, rank, world, repeats)
        by_length = self._by_length(samples.samples) if train and self.bucket else None
        order = Order(len(samples), self.seed, rank, world, train, repeats, by_length, self.batch_size)
        return self._loader(samples, order)

    def _loader(self, samples: Split | StreamSet, order: Order) -> Loader:
        loader = Loader(
            samples,
            batch_size=self.batch_size,
            sampler=order,
            collate_fn=_same,
            num_workers=self.workers,
            worker_init_fn=outlive,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=self.workers > 0,
        )
        loader.skipped = self.bad.found
        return loader

    def _stream(self, field: Streamed, rank: int, world: int, repeats: int) -> Loader:
        stream = StreamSet(field, self._find("tokenizer"), self.batch_size, self.seed, rank, world, self.workers)
        return self._loader(stream, Order(len(stream), self.seed, rank, world, shuffle=False, repeats=repeats))

    def _by_length(self, samples: Samples) -> ByLength:
        """By the lengths of all fields together."""
        lengths = [found for field in samples.fields if (found := field.lengths) is not None]
        if not lengths:
            raise ValueError(
                f"bucket={self.bucket}: {type(self).__name__} has no lengths to sort by here; leave it out"
            )
        return ByLength(torch.stack(lengths).sum(0), self.bucket)

    def sample(self, split: str, count: int) -> Batch:
        """``count`` samples from all over a split, fewer if it has fewer, as a batch that is made in this process."""
        ready = replace(self._set(split), refill=True)
        count = min(count, len(ready))
        batch = ready.__getitems__([i * len(ready) // count for i in range(count)])
        self.bad.found.update(dict.fromkeys(batch.skipped))
        return batch

    def places(self, keys: Tensor, epoch: int) -> list[int]:
        """Which training samples have these keys (see zoo.rng) in an epoch, by their places in the data, in order."""
        every = sample_keys(self.seed, epoch, torch.arange(len(self._set("train"))))
        return torch.isin(every, keys.cpu()).nonzero().flatten().tolist()

    def _set(self, split: str) -> Split:
        """The samples of a split made ready for the tokenizers; kept, since that may take long."""
        samples = self.source.splits[split]
        tokenizer = self._find("tokenizer")
        target = None if samples.target is None else self._find("target_tokenizer")
        key = (split, tokenizer, target)
        if key not in self._sets:
            fields = [_ready(field, reader) for field, reader in zip(samples.fields, (tokenizer, target))]
            known = {place: why for field in fields for place, why in field.bad.items()}
            if known and not self.bad.skip:
                first, *others = (known[place] for place in sorted(known))
                raise ValueError(first + (f"; {len(others)} more cannot be read" if others else ""))
            ready = Samples(fields[0], fields[1] if target else None, samples.label)
            train = split == "train"
            augment, bad = self.augment if train else [], known if self.bad.skip else None
            self._sets[key] = Split(ready, tokenizer, target, self.seed, augment, len(self.classes), bad, train)
        return self._sets[key]

    def _find(self, name: str) -> Tokenizer:
        task = self.task or (self.trainer and self.trainer.lightning_module)
        found = getattr(self, name) or getattr(task, name, None)
        if found is None:
            raise ValueError(f"{type(self).__name__} has no {name}: give it one, or train a task that has one")
        return found


def _ready(field: Field, tokenizer: Tokenizer) -> Field:
    if field.modality not in ("", tokenizer.modality):
        name = type(tokenizer).__name__
        raise ValueError(
            f"the data are {field.modality}, but {name} reads {tokenizer.modality}: give another tokenizer"
        )
    return field.ready(tokenizer)


def _same(batch: Batch) -> Batch:
    return batch
