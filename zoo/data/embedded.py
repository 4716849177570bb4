"""What every machine has, nothing downloaded: Python's help topics, its documented functions, scikit-learn's digits."""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_PASSED_OVER = {"test", "tests", "idlelib", "site-packages", "dist-packages", "lib2to3", "turtledemo", "__pycache__"}


def topics() -> list[str]:
    """The documents of ``pydoc_data.topics``, CPython's help pages (PSF licence), in the order of their names.
    They differ between versions of Python: record the fingerprint with a figure."""
    from pydoc_data.topics import topics as found

    return [found[name] for name in sorted(found)]


def digits() -> dict[str, tuple[np.ndarray, list[int]]]:
    """scikit-learn's 1,797 handwritten digits by split: (N, 8, 8) uint8 images and their numbers.  The first half
    trains and the second half tests, as in scikit-learn's own example; the writers of the halves differ."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ValueError("the digits come with scikit-learn: pip install lightning-zoo[demo]") from None
    data = load_digits()
    images = np.round(data.images * (255 / 16)).astype(np.uint8)
    half = len(images) // 2
    return {
        "train": (images[:half], data.target[:half].tolist()),
        "test": (images[half:], data.target[half:].tolist()),
    }


@lru_cache(maxsize=1)
def docstrings() -> dict[str, list[tuple[str, str]]]:
    """(signature, first sentence of the docstring) of the standard library's functions and classes, by split.

    Sentences have 4 to 30 words, signatures are unique.  A hash of the name chooses the split, about 10 % each for
    "val" and "test", so that methods of one name stay together.
    """
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
    seen = set()
    root = Path(sysconfig.get_path("stdlib"))
    for name, signature, sentence in (found for file in _sources(root) for found in _documented(file)):
        if signature not in seen:
            seen.add(signature)
            share = int(hashlib.sha1(name.encode()).hexdigest(), 16) % 10
            splits[{0: "val", 1: "test"}.get(share, "train")].append((signature, sentence))
    return splits


def _sources(folder: Path) -> Iterator[Path]:
    """The .py files below a folder, in the order of their names."""
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py":
            yield entry
        elif entry.is_dir() and entry.name not in _PASSED_OVER:
            yield from _sources(entry)


def _documented(file: Path) -> Iterator[tuple[str, str, str]]:
    """(name, signature, sentence) of what a source file defines."""
    try:
        source = file.read_text(encoding="utf-8")
        if '"""' not in source and "'''" not in source:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in strings
            tree = ast.parse(source)
    except (SyntaxError, UnicodeDecodeError, OSError):
        return
    waiting: list[ast.AST] = [tree]
    while waiting:  # definitions only: expressions hold none
        node = waiting.pop()
        waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            sentence = _first_sentence(ast.get_docstring(node) or "")
            if 4 <= len(sentence.split()) <= 30:
                yield node.name, _signature(node), sentence


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
    return f"{node.name}({ast.unparse(node.args)})"


def _first_sentence(doc: str) -> str:
    paragraph = " ".join(doc.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]
