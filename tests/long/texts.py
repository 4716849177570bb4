"""Texts, records and arrays that are damaged or hostile, and the config that reads texts."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.long.cases import Case
from tests.long.media import IMAGES

TEXTS = """\
model:
  class_path: CausalLM
  init_args:
    tokenizer: TOKENIZER
    backbone: {class_path: LLaMA, init_args: {dim: 16, depth: 1, heads: 2, hidden: 16}}
data: {class_path: Text, init_args: {length: 16, batch_size: 4, val: 0.0}}
trainer: {max_steps: 1, enable_progress_bar: false, enable_model_summary: false}
"""
GOOD = b'{"text": "a record", "label": "a"}\n'
SOUND = b"The old man and the sea, and what they said. " * 60

Content = bytes | Callable[[Path], None]


def written_to(path: Path, content: Content) -> str:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    return str(path)


def odd_texts() -> dict[str, tuple[str, Content]]:
    """What must be refused: name -> (ending, content)."""
    packed = gzip.compress(SOUND)
    return {
        "empty": ("txt", b""),
        "not UTF-8": ("txt", SOUND + b"caf\xe9"),
        "UTF-16": ("txt", SOUND.decode().encode("utf-16")),
        "half a letter": ("txt", SOUND + "é".encode()[:1]),
        "a pipe": ("txt", os.mkfifo),
        "a link without an end": ("txt", lambda path: path.symlink_to("/dev/zero")),
        "gzip cut off": ("txt.gz", packed[:-20]),
        "gzip with a bit turned round": ("txt.gz", packed[:50] + b"\xff" + packed[51:]),
        "no gzip": ("txt.gz", SOUND),
        "gzip of 1 GB": ("txt.gz", b"".join([gzip.compress(bytes(2**26))] * 16)),
        "gzip of records, 1 GB": ("jsonl.gz", b"".join([gzip.compress(bytes(2**26))] * 16)),
    }


def odd_records() -> dict[str, bytes]:
    """Lines that must be refused."""
    return {
        "no JSON": b"{no json",
        "cut off": GOOD[:20],
        "a list": b"[1, 2]",
        "a number": b"7",
        "null": b"null",
        "not UTF-8": b'{"text": "caf\xe9", "label": "a"}',
        "nested": b'{"text": ' + b"[" * 10**6,
        "a zero": b"\0" * 9,
        "nested objects": b'{"text": "x", "label": ' + b'{"a":' * 10**5 + b"1" + b"}" * 10**5 + b"}",
        "a huge number": b'{"text": "x", "label": 1' + b"0" * 10**5 + b"}",
        "text that is a number": b'{"text": 5, "label": "a"}',
        "no text": b'{"label": "a"}',
        "no label": b'{"text": "x"}',
        "label NaN": b'{"text": "x", "label": NaN}',
        "label infinite": b'{"text": "x", "label": 1e999}',
        "label a list": b'{"text": "x", "label": []}',
        "label an object": b'{"text": "x", "label": {}}',
        "label true": b'{"text": "x", "label": true}',
        "label negative": b'{"text": "x", "label": -1}',
        "label 10^9": b'{"text": "x", "label": 1000000000}',
        "half of a pair": b'{"text": "\\ud800", "label": "a"}',
        "64 MB in a line": b'{"text": "' + b"x" * 2**26 + b'"}',
        "64 MB that are no JSON": b"x" * 2**26,
    }


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=True, **arrays)
    return file.getvalue()


def lying(shape: str) -> bytes:
    """An .npz whose images have a header of another shape than their values."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)
        )
        archive.writestr("labels.npy", zipfile.ZipFile(io.BytesIO(npz(labels=np.zeros(1)))).read("labels.npy"))
    return file.getvalue()


def odd_arrays() -> dict[str, bytes]:
    """.npz files that must be refused."""
    images, labels = np.zeros((4, 16, 16), np.uint8), np.arange(4)
    noise = np.random.default_rng(0).integers(0, 256, (4, 16, 16), dtype=np.uint8)
    whole = npz(images=noise, labels=labels)
    return {
        "empty": b"",
        "cut off": whole[:-40],
        "the first half": whole[: len(whole) // 2],
        "no zip": b"not an archive",
        "bits turned round": whole[:90] + bytes(255 - byte for byte in whole[90:120]) + whole[120:],
        "objects": npz(images=np.array([{}] * 4, object), labels=labels),
        "of 300 MB": npz(images=np.zeros((300, 1000, 1000), np.uint8), labels=labels),
        "10^12 images": lying("(1000000000000, 8, 8)"),
        "a negative shape": lying("(-1, 8, 8)"),
        "a short array": lying("(2, 8, 8)"),
        "code for a shape": lying("__import__('os').system('touch executed')"),
        "a huge shape": lying("(" + "9" * 50 + ", 8, 8)"),
        "no labels": npz(images=images),
        "nothing": npz(),
        "floats": npz(images=images / 2, labels=labels),
        "5 channels": npz(images=np.zeros((4, 8, 8, 5), np.uint8), labels=labels),
        "no images": npz(images=images[:0], labels=labels[:0]),
        "labels NaN": npz(images=images, labels=np.full(4, np.nan)),
        "labels of 2 axes": npz(images=images, labels=images[0]),
        "a label too few": npz(images=images, labels=labels[1:]),
        "images without height": npz(images=images[:, :0], labels=labels),
    }


def damaged_texts(folder: Path, count: int) -> Iterator[Case]:
    """At least 50 texts, manifests and tables of images, and their controls."""
    (folder / "text.yaml").write_text(TEXTS.replace("TOKENIZER", "BPE"))
    (folder / "arrays.yaml").write_text(IMAGES)
    text, arrays = f"--config={folder / 'text.yaml'}", f"--config={folder / 'arrays.yaml'}"

    def case(name: str, ending: str, content: Content, words: list[str], control: bool = False) -> Case:
        path = written_to(folder / f"odd-{name.replace(' ', '-')}.{ending}", content)
        return Case("text", f"{name}, .{ending}", ["fit", *words, f"--data.root={path}"], path, control)

    yield case("sound", "txt", SOUND, [text], True)
    yield case("with zeros", "txt", SOUND + b"\0" * 9 + SOUND, [text], True)
    yield case("sound", "txt.gz", gzip.compress(SOUND), [text], True)
    for name, (ending, content) in odd_texts().items():
        yield case(name, ending, content, [text])
    labelled = [text, "--data.label=label"]
    mark, windows = b"\xef\xbb\xbf", GOOD.replace(b"\n", b"\r\n")
    for name, good in {"sound": GOOD * 9, "with a mark": mark + GOOD * 9, "of Windows": windows * 9}.items():
        yield case(name, "jsonl", good, labelled, True)
    yield case("no lines", "jsonl", b"", labelled)
    yield case("empty lines", "jsonl", b"\n" * 99, labelled)
    yield case("two kinds of labels", "jsonl", GOOD + b'{"text": "x", "label": 1}\n', labelled)
    for name, line in odd_records().items():
        yield case(name, "jsonl", GOOD + line + b"\n" + GOOD, labelled)
    noise = np.random.default_rng(0).integers(0, 256, (4, 16, 16), dtype=np.uint8)
    yield case("sound", "npz", npz(images=noise, labels=np.arange(4)), [arrays], True)
    for name, content in odd_arrays().items():
        yield case(name, "npz", content, [arrays])
