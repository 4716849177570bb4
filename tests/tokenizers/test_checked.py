"""Damaged tokenizer.json files: refused in a sentence, where the library would end the process."""

import base64
import json
import random
import struct
import subprocess
import sys

import pytest
from tokenizers import Tokenizer

from tests.long.mutate import altered, text
from tests.long.vocabularies import damaged_tokenizers, shipped, trained
from zoo.tokenizers import BPE, Subword
from zoo.tokenizers.checked import checked, survived
from zoo.tokenizers.components import repeats

TEXTS = ("", "a", "the fox <s> jumps", "é\u0301 日本 \U0001f600 \x00 \n\t", "x" * 300, "aaa`` bbb <pad><mask>")


def used(content: str) -> str:
    """What the checked tokenizer says against a file; empty where it works, whatever it is used for."""
    try:
        backend = checked(content, "tokenizer.json")
    except ValueError as error:
        return str(error)
    for words in TEXTS:
        try:
            backend.decode(survived(lambda: backend.encode(words)).ids)  # noqa: B023
        except ValueError as error:
            assert "panicked" not in str(error)
    backend.decode(sorted(backend.get_vocab().values())[:300])
    assert backend.to_str()
    return ""


def test_named_damage_is_refused_and_controls_are_read(tmp_path):
    cases = list(damaged_tokenizers(tmp_path, 0))
    assert sum(not case.control for case in cases) >= 60
    for case in cases:
        problem = ""
        try:
            Subword(case.file).encode("the old man")
        except ValueError as error:
            problem = str(error)
        assert bool(problem) != case.control or case.may_load, (case.name, problem)
        assert "\n" not in problem and len(problem) < 600, case.name


@pytest.mark.parametrize("kind", ["BPE", "WordPiece", "Unigram"])
def test_no_mutation_ends_the_process(kind, capfd):
    source, dice = shipped() if kind == "BPE" else trained(kind), random.Random(1)
    assert not used(text(source))
    refused = sum(bool(used(text(altered(source, dice, dice.choice((1, 1, 2)))))) for _ in range(60))
    assert 10 < refused < 60
    assert "panicked" not in capfd.readouterr().err


PANICS = {
    "FixedLength": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "Strip": {"decoder": {"type": "Strip", "content": "a", "start": 0, "stop": 3}},
    "Regex": {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}},
}


@pytest.mark.parametrize("name", PANICS)
def test_what_is_refused_would_have_panicked(name):
    """By the library alone; so each check is needed as long as this holds."""
    content = json.dumps({**shipped(), **PANICS[name]})
    code = (
        "import sys; from tokenizers import Tokenizer; t = Tokenizer.from_str(sys.stdin.read())\n"
        "t.encode('a' * 40 + 'b'); t.decode([t.token_to_id('a')])"
    )
    found = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, text=True)
    assert "PanicException" in found.stderr
    assert used(content).startswith("tokenizer.json is no tokenizer.json of the tokenizers library (")


def letters(changes: dict[int, int]) -> str:
    """A tokenizer.json with a table of letters in which A becomes B, after some ``changes`` of its units."""
    units = [0] * 512
    units[0] = 256 << 10  # the children of the root begin at 256
    units[256 + 0x41] = 0x41 | 1 << 8 | (0x141 ^ 0x180) << 10  # A, and what it becomes is told at 0x180
    units[0x180] = 1 << 31
    for place, value in changes.items():
        units[place] = value
    table = base64.b64encode(struct.pack("<I512I", 2048, *units) + b"B\0").decode()
    return json.dumps({**shipped(), "normalizer": {"type": "Precompiled", "precompiled_charsmap": table}})


def test_a_table_of_letters_leads_to_its_texts():
    assert checked(letters({}), "x").normalizer.normalize_str("ABCA") == "BBCB"
    for changes in ({0: 1024 << 10}, {0x180: 1 << 31 | 9}, {0x180: 7}, {0x141: 0x141 | 511 << 10}, {5: 2**30}):
        with pytest.raises(ValueError, match="its table of letters"):
            checked(letters(changes), "x")


def test_patterns_that_repeat_repetitions():
    for expression in ("(a+)+", "(?:a|b)*", "((a*))+", "((a)+)+", "(a{2,})*", r"(\(a+)+"):
        assert repeats(expression), expression
    published = r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for expression in (published, "(ab)+", "(a|b)", r"\(a+\)+", "[(a+)]+", "(a+)?"):
        assert not repeats(expression), expression


def test_a_panic_is_a_sentence_as_the_last_resort():
    backend = Tokenizer.from_str(json.dumps({**shipped(), **PANICS["FixedLength"]}))
    with pytest.raises(ValueError, match="chunk size must be non-zero"):
        survived(lambda: backend.encode("a"))
    with pytest.raises(KeyboardInterrupt):
        survived(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))


def test_other_files_are_not_read_for_ever(tmp_path):
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for kind in (Subword, BPE):
        with pytest.raises(ValueError, match="zero"):
            kind(str(tmp_path / "zero.json"))
