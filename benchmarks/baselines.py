"""Trivial baselines for the shipped configs, on their own tokens, masks and validation split: what training must beat.

python benchmarks/baselines.py [CONFIG ...]     all configs with embedded data, if none is named;
                                                clip_emoji+--data.init_args.root=FOLDER changes one
Needs lightning-zoo[demo].  Nothing is trained and nothing is augmented; the loss is weighed exactly as the task weighs
its val/loss, and texts are compared on the samples of val/bleu and its like: those of the first ``decode_batches``
batches.
"""

# Shapes: B batch, T tokens, M training samples, N samples to answer, P pixels.

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import torch
import yaml
from guesses import Guess, feature_guesses, sequence, text_guesses
from loading import load
from rich.console import Console
from rich.table import Table
from torch import Tensor

from zoo.cli import configs
from zoo.data import goertzel
from zoo.data.pairs import Strings
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, Multimodal, Seq2Seq
from zoo.tasks.metrics import Meter
from zoo.tokenizers import BPE, Batch

Row = tuple[str, str, float]  # what is measured, by which baseline, the value
EMBEDDED = (None, "digits", "tones", "docstrings")
MOST = 20_000  # training samples that neighbours and support vectors are looked for among


def counted(task, batch: Batch) -> Tensor:
    """(B, T) True at the tokens that the task's loss is about."""
    tokens = sequence(task, batch)
    if isinstance(task, MaskedLM):
        return task.hide(batch)
    chosen = tokens.real.clone()
    if isinstance(task, CausalLM):
        chosen[:, 0] = False  # it is given
    return chosen


def loss(task, loader, guess: Guess) -> float:
    """What the task's val/loss would be if its model said what ``guess`` says."""
    tokenizer, meter = task.target_tokenizer or task.tokenizer, Meter()
    for batch in loader:
        tokens, chosen = sequence(task, batch), counted(task, batch)
        meter.add(tokenizer.score(guess(batch, tokens, chosen)[chosen], tokens.value[chosen]))
    return meter.means()["loss"]


def loss_rows(task, data) -> Iterator[Row]:
    train = list(data.loader("train"))
    tokenizer = task.target_tokenizer or task.tokenizer
    if isinstance(tokenizer, BPE):
        guesses = text_guesses(task, [sequence(task, batch) for batch in train], tokenizer.vocabulary)
    else:
        guesses = feature_guesses(task, train)
    for name, guess in guesses:
        yield "val/loss", name, loss(task, data.loader("val"), guess)


def most_frequent(values: list) -> object:
    """The first of several that are met equally often."""
    return Counter(values).most_common(1)[0][0]


def dialled(field) -> list[str]:
    """What a Goertzel filter bank hears in each clip."""
    return [goertzel(clip.samples, clip.rate) for i in range(len(field)) for clip in field.raw([i])]


def pixels(data, split: str) -> np.ndarray:
    """(N, P) the images of a split, 0 to 16 as in scikit-learn's digits, in the order of the data."""
    field = data.source.splits[split].input.ready(data.task.tokenizer)
    return field.raw(list(range(len(field)))).flatten(1).numpy() * (16 / 255)


def nearest_pixels(train: np.ndarray, asked: np.ndarray) -> list[int]:
    """(M, P) and (N, P) -> for each asked the place of the training sample with the least squared distance."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1).fit(train).kneighbors(asked, return_distance=False)[:, 0].tolist()


def nearest_text(train: list[str], asked: list[str], analyzer: str, longest: int) -> list[int]:
    """For each asked the place of the training text with the greatest cosine of TF-IDF weighted n-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, longest), sublinear_tf=True)
    known = vectors.fit_transform(train)
    return np.asarray((vectors.transform(asked) @ known.T).argmax(1)).ravel().tolist()


def answers(data, count: int) -> Iterator[tuple[str, list[str]]]:
    """Texts for the first ``count`` validation samples of pairs whose target is text."""
    train, val = data.source.splits["train"], data.source.splits["val"]
    texts = train.target.raw(list(range(len(train.target))))
    yield "most frequent", [most_frequent(texts)] * count
    if data.task.tokenizer.modality == "text":
        known, asked = train.input.raw(list(range(len(train.input)))), val.input.raw(list(range(count)))
        yield "copy of the source", asked
        for name, analyzer, longest in (("words", "word", 2), ("characters", "char_wb", 5)):
            yield f"nearest source, {name}", [texts[i] for i in nearest_text(known, asked, analyzer, longest)]
    elif data.task.tokenizer.modality == "image" and len(texts) <= MOST:
        found = nearest_pixels(pixels(data, "train"), pixels(data, "val")[:count])
        yield "nearest image", [texts[i] for i in found]
    elif getattr(data, "root", None) == "tones":
        yield "Goertzel filters", [" ".join(keys) for keys in dialled(val.input.take(list(range(count))))]


def answer_rows(task, data) -> Iterator[Row]:
    target = data.source.splits["val"].target
    count = min(len(target), task.decode_batches * data.batch_size)
    references = target.raw(list(range(count)))
    for name, texts in answers(data, count):
        for metric, value in task.measure(list(zip(texts, references))).items():
            yield f"val/{metric}", name, value


def retrieval_rows(task, data) -> Iterator[Row]:
    """Recall over the validation pairs, of texts by the words and letters that they share with their targets, of images
    by a ridge regression from 16 x 16 pixels to the words of their targets."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import RidgeCV

    train, val = data.source.splits["train"], data.source.splits["val"]
    known, right = (plain(part.target) for part in (train, val))
    for name, analyzer, longest in (("words", "word", 1), ("characters", "char_wb", 5)):
        vectors = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, longest), sublinear_tf=True)
        if task.tokenizer.modality == "text":
            sources, asked = (plain(part.input) for part in (train, val))
            near = vectors.fit(sources + known).transform(asked) @ vectors.transform(right).T
            near, by = near.toarray(), f"shared {name}"
        else:
            small = [small_pixels(data, split) for split in ("train", "val")]
            regression = RidgeCV(alphas=np.logspace(0, 4, 9)).fit(small[0], vectors.fit_transform(known).toarray())
            found, targets = regression.predict(small[1]), vectors.transform(right).toarray()
            near, by = found @ targets.T / np.linalg.norm(found, axis=1, keepdims=True), f"ridge, pixels to {name}"
        own = np.diag(near)[:, None]
        ties = (abs(near - own) <= 1e-9).sum(1) - 1  # a text of unknown words is as near to everything
        rank = (near > own + 1e-9).sum(1) + ties / 2
        for k in (1, 5, 10):
            yield f"val/recall@{k}", by, float((rank < k).mean())


def plain(field) -> list[str]:
    """All texts of a field."""
    return field.values if isinstance(field, Strings) else field.raw(list(range(len(field))))


def small_pixels(data, split: str) -> np.ndarray:
    """(N, 768) the images of a split at 16 x 16, centred."""
    field = data.source.splits[split].input.ready(data.task.tokenizer)
    images = field.raw(list(range(len(field)))).float() / 255
    return torch.nn.functional.adaptive_avg_pool2d(images, 16).flatten(1).numpy() - 0.5


def class_rows(task, data) -> Iterator[Row]:
    """Accuracies on validation and test."""
    labels = {split: samples.label.numpy() for split, samples in data.source.splits.items()}
    image = task.tokenizer.modality == "image" and len(labels["train"]) <= MOST
    x = {split: pixels(data, split) for split in labels} if image else {}
    for split in ("val", "test"):
        if split not in labels:
            continue
        truth, measured = labels[split], f"{split}/accuracy"
        yield measured, "most frequent class", float((truth == most_frequent(labels["train"].tolist())).mean())
        if image:
            from sklearn.svm import SVC

            found = labels["train"][nearest_pixels(x["train"], x[split])]
            yield measured, "nearest image", float((found == truth).mean())
            machine = SVC(gamma=0.001).fit(x["train"], labels["train"])
            yield measured, "SVC(gamma=0.001)", float((machine.predict(x[split]) == truth).mean())
        if image and split == "test":
            both = [np.concatenate((part["train"], part["val"])) for part in (x, labels)]
            yield (
                measured,
                "SVC, train and validation samples",
                float((SVC(gamma=0.001).fit(*both).predict(x[split]) == truth).mean()),
            )
        if task.tokenizer.modality == "audio" and getattr(data, "root", "") is None:
            keys = dialled(data.source.splits[split].input)
            right = [heard[:1] == data.classes[label] for heard, label in zip(keys, truth)]
            yield measured, "Goertzel filters", float(np.mean(right))


def rows(task, data) -> Iterator[Row]:
    """All baselines of a task on its data."""
    if isinstance(task, Multimodal):
        for name, member in task.tasks.items():
            part = data.modules[name]
            part.task = member
            yield from (
                (measured.replace("/", f"/{name}/", 1), by, value) for measured, by, value in rows(member, part)
            )
        return
    data.augment = []
    if isinstance(task, (Classify, Contrastive)):
        yield from (class_rows if isinstance(task, Classify) else retrieval_rows)(task, data)
        return
    yield from loss_rows(task, data)
    if isinstance(task, Seq2Seq) and task.metrics:
        yield from answer_rows(task, data)


def embedded() -> list[str]:
    """The shipped configs whose data every machine has."""
    found = []
    for name, path in configs.shipped().items():
        data = yaml.safe_load(path.read_text(encoding="utf8")).get("data") or {}
        if "class_path" in data and data.get("init_args", {}).get("root") in EMBEDDED:
            found.append(name)
    return found


def main(names: list[str]) -> int:
    table = Table("config", "measured", "baseline", "value", title="Baselines without training")
    table.columns[-1].justify = "right"
    for name in names or embedded():
        try:
            _, task, data = load(name.split("+")[:1], *name.split("+")[1:])
            for measured, by, value in rows(task, data):
                table.add_row(name, measured, by, f"{value:.4g}")
        except (ValueError, OSError) as error:
            print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
        table.add_section()
    Console().print(table)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
