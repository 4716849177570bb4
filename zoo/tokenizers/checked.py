"""A ``tokenizer.json`` is checked before the tokenizers library reads it, which ends the process over some damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tokenizers import Tokenizer as Backend

from zoo.tokenizers.components import check_component
from zoo.tokenizers.reading import DEEPEST, LARGEST, first_line, levels

IDS = 2**22  # that a token may have; the largest published vocabularies have a sixteenth
SCORE = 1e6  # that a token of a Unigram model may have, either way

PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")

Result = TypeVar("Result")


def checked(content: str, name: str) -> Backend:
    """The library's tokenizer from the content of a file.  Raises ValueError, with the ``name`` of the file, for what
    the library refuses and for what it would not survive."""
    try:
        check(content)
        return survived(lambda: Backend.from_str(content))
    except ValueError as error:
        raise ValueError(f"{name} is no tokenizer.json of the tokenizers library ({first_line(error)})") from None


def survived(call: Callable[[], Result]) -> Result:
    """What the library answers.  Raises ValueError for its exceptions, which are plain, and for its panics, which are
    none: their class cannot be imported."""
    try:
        return call()
    except Exception as error:
        raise ValueError(first_line(error)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(first_line(error)) from None


def check(content: str) -> None:
    """Refuse what the library does not refuse by itself and cannot work with."""
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content):,} characters, and {LARGEST:,} are the most")
    try:
        whole = json.loads(content)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("model"), dict):
        raise ValueError("it is no object with a model")
    if levels({key: value for key, value in whole.items() if key != "model"}) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    check_model(whole["model"])
    added = whole.get("added_tokens") or []
    if not isinstance(added, list):
        raise ValueError(f"its added tokens are a {type(added).__name__}")
    for token in added:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not is_id(token.get("id")):
            raise ValueError(f"an added token is {str(token)[:100]}")
        if not token["content"]:
            raise ValueError(f"the added token with the id {token['id']} is empty")
    for part in PARTS:
        check_component(part, whole.get(part))


def is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < IDS


def check_model(model: dict[str, Any]) -> None:
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list):
        return check_scores(vocabulary)
    if not isinstance(vocabulary, dict):
        raise ValueError(f"its vocabulary is a {type(vocabulary).__name__}")
    for token, index in vocabulary.items():
        if not is_id(index):
            raise ValueError(f"the token {token[:60]!r} has the id {str(index)[:60]}, which is none below {IDS:,}")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise ValueError("two tokens have the same id")
    if "merges" in model:
        check_merges(model["merges"], vocabulary, model.get("continuing_subword_prefix") or "")
    return None


def check_scores(vocabulary: list[Any]) -> None:
    """Of Unigram: [token, the logarithm of its probability]."""
    if not vocabulary:
        raise ValueError("its vocabulary is empty")
    for entry in vocabulary:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ValueError(f"a token is {str(entry)[:60]}, not a text and its score")
        score = entry[1]
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) <= SCORE:
            raise ValueError(f"the token {entry[0][:60]!r} has the score {str(score)[:60]}")


def check_merges(merges: Any, vocabulary: dict[str, int], prefix: str) -> None:
    """Of BPE: two tokens that become one; the second loses the ``prefix`` that tells the inside of a word."""
    if not isinstance(merges, list) or not isinstance(prefix, str):
        raise ValueError(f"its merges are a {type(merges).__name__}")
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ValueError(f"a merge is {str(merge)[:60]!r}, not two tokens")
        left, right = pair
        if not right.startswith(prefix):
            raise ValueError(f"{right[:60]!r} is merged to the inside of a word, and does not begin with {prefix!r}")
        for token in (left, right, left + right[len(prefix) :]):
            if token not in vocabulary:
                raise ValueError(f"the merge {str(merge)[:60]!r} needs {token[:60]!r}, which is no token")
