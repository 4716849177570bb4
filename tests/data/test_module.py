"""What all data modules share: repeatable batches, held-out samples, tokenizers of the task, resuming in a Trainer."""

import pickle
import warnings

import lightning.pytorch as pl
import pytest
import torch

from zoo.data import Audio, Combined, CropFlip, Images, Pairs, Text
from zoo.tokenizers import BPE, Frames, Patches


def digits(**options):
    return Images(tokenizer=Patches(8, 2, 1), **options)


def batches(module, epoch=0):
    loader = module.train_dataloader()
    loader.sampler.set_epoch(epoch)
    return list(loader)


def test_workers_do_not_change_a_batch_but_epochs_do():
    alone, helped = (batches(digits(batch_size=400, workers=w, augment=CropFlip(1)), 1) for w in (0, 2))
    for a, b in zip(alone, helped):
        assert torch.equal(a.input.value, b.input.value) and torch.equal(a.label, b.label) and torch.equal(a.key, b.key)
    other = batches(digits(batch_size=400, augment=CropFlip(1)), 2)
    assert not set(alone[0].key.tolist()) & set(other[0].key.tolist())


def test_validation_repeats_itself_and_is_not_augmented():
    module = digits(augment=CropFlip(2), batch_size=90)
    loader = module.val_dataloader()
    first = next(iter(loader))
    loader.sampler.set_epoch(7)
    again, plain = next(iter(loader)), next(iter(digits(batch_size=90).val_dataloader()))
    assert torch.equal(first.key, again.key) and torch.equal(first.input.value, plain.input.value)


def test_validation_is_held_out_of_train_alone():
    def rows(loader):
        return [tuple(row.flatten().tolist()) for batch in loader for row in batch.input.value]

    module, whole = digits(val=0.2), digits(val=0)
    train, val = rows(module.train_dataloader()), rows(module.val_dataloader())
    assert len(val) == 180 and sorted(train + val) == sorted(rows(whole.train_dataloader()))
    assert len(rows(module.test_dataloader())) == 899 == len(rows(whole.test_dataloader()))
    assert whole.val_dataloader() == []
    assert rows(digits(val=0.2, seed=1).val_dataloader()) == val  # whatever the seed of the run


def test_what_a_user_gets_wrong():
    with pytest.raises(ValueError, match="has no tokenizer: give it one"):
        Images().train_dataloader()
    with pytest.raises(ValueError, match="the data are image, but BPE reads text"):
        Images(tokenizer=BPE()).train_dataloader()
    with pytest.raises(ValueError, match="val=1.5"):
        Images(val=1.5)
    with pytest.raises(ValueError, match="batch_size=0"):
        Images(batch_size=0)
    with pytest.raises(ValueError, match="Text has no test samples"):
        Text(tokenizer=BPE(), val=0).test_dataloader()


def test_workers_can_get_it_and_fingerprints_tell_data_apart():
    split = digits().train_dataloader().dataset
    assert torch.equal(
        pickle.loads(pickle.dumps(split)).__getitems__([3]).input.value, split.__getitems__([3]).input.value
    )
    prints = {module.fingerprint for module in (digits(), digits(val=0), Text(), Audio(), Pairs("digits"))}
    assert len(prints) == 5 and digits().fingerprint in prints


class Task(pl.LightningModule):
    """Notes which samples it was given."""

    def __init__(self, **tasks):
        super().__init__()
        self.tokenizer, self.weight = Patches(8, 2, 1), torch.nn.Parameter(torch.zeros(()))
        self.tasks, self.seen, self.validated = tasks, [], []

    def training_step(self, batch, step):
        parts = batch if isinstance(batch, dict) else {"": batch}
        self.seen.append({name: part.key.tolist() for name, part in parts.items()})
        return self.weight.square()

    def validation_step(self, batch, step):
        self.validated.append(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(task, data, tmp_path, ckpt=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(
            default_root_dir=tmp_path, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, num_sanity_val_steps=0, enable_checkpointing=False, **options,
        )  # fmt: skip
        trainer.fit(task, data, ckpt_path=ckpt, weights_only=True if ckpt else None)
    return trainer


class SaveAt(pl.Callback):
    def __init__(self, step, path):
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer, task, outputs, batch, step):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_reads_what_the_whole_run_read(tmp_path, workers):
    def data(workers):
        return Images(batch_size=300, val=0, workers=workers)

    path, whole, part = tmp_path / "part.ckpt", Task(), Task()
    fit(whole, data(0), tmp_path, max_epochs=3)
    assert len(whole.seen) == 9 and len({key for step in whole.seen for key in step[""]}) == 3 * 898
    for step in (2, 3, 5) if workers == 0 else (5,):  # inside an epoch, at its end, inside the second
        part, resumed = Task(), Task()
        fit(part, data(workers), tmp_path, max_steps=step, callbacks=SaveAt(step, path))
        fit(resumed, data(workers), tmp_path, str(path), max_epochs=3)
        assert part.seen + resumed.seen == whole.seen, step


def test_overfit_batches_works(tmp_path):
    task = Task()
    fit(task, Images(batch_size=50), tmp_path, max_epochs=2, overfit_batches=2)
    assert len(task.seen) == 4 and task.seen[:2] == task.seen[2:]


def test_combined_gives_each_task_its_data(tmp_path):
    class Reader:
        tokenizer = target_tokenizer = BPE()

    class Looker:
        tokenizer = Patches(8, 4, 1)

    task = Task(text=Reader(), image=Looker())
    data = Combined({"text": Text(length=4096, batch_size=40), "image": Images(batch_size=200)})
    fit(task, data, tmp_path, max_epochs=1)
    long = len(Images(tokenizer=Looker.tokenizer, batch_size=200).train_dataloader())
    assert len(task.seen) == long == 5
    text = [key for step in task.seen for key in step["text"]]
    assert len(set(text)) == len(text) > 103  # the second time round the keys are new
    images = [part for batch in task.validated for name, part in batch.items() if name == "image"]
    assert sum(map(len, images)) == 90 and images[0].input.value.shape[1:] == (4, 16)
    with pytest.raises(ValueError, match="no task of that name; there is text"):
        fit(Task(text=Reader()), Combined({"sound": Audio()}), tmp_path, max_epochs=1)


def test_sound_is_kept_encoded():
    module = Audio(tokenizer=Frames(), batch_size=8)
    split = module.val_dataloader().dataset
    first, again = split.__getitems__([1, 2]), split.__getitems__([2, 1])
    assert torch.equal(first.input.value.flip(0), again.input.value) and len(split.samples.input.kept) == 2


def test_a_directory_that_is_too_long_for_sockets_is_told(tmp_path, monkeypatch):
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    data = Images(tokenizer=Patches(size=8, patch=4, channels=1), workers=1)
    with pytest.raises(ValueError, match="too many for the sockets of workers: set a shorter one, or workers=0"):
        data.train_dataloader()


def test_batches_of_similar_lengths_leave_less_padding():
    def loader(**options):
        return Pairs(tokenizer=BPE(), target_tokenizer=BPE(), batch_size=16, **options).train_dataloader()

    def padded(made):
        parts = [part for batch in made for part in (batch.input, batch.target)]
        return sum(part.value.numel() for part in parts), sum(int(part.real.sum()) for part in parts)

    (plain, tokens), (sorted_, same) = padded(loader()), padded(loader(bucket=50))
    assert tokens == same and tokens / sorted_ > 1.2 * tokens / plain
    keys = [torch.cat([batch.key for batch in made]).sort().values for made in (loader(), loader(bucket=50))]
    assert torch.equal(*keys)
    for module in (Text(tokenizer=BPE(), bucket=5),):
        with pytest.raises(ValueError, match="bucket=5: .* has no lengths to sort by here; leave it out"):
            module.train_dataloader()
    assert Audio(tokenizer=Frames(), bucket=5).train_dataloader()
    with pytest.raises(ValueError, match="bucket=-1"):
        Text(bucket=-1)
