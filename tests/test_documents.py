"""YAML within limits, compared with what PyYAML itself makes of the same documents."""

import pytest
import yaml

from tests.conftest import DIGITS
from zoo import documents
from zoo.listing import shipped

SOUND = [DIGITS, "a: &a [1, 2]\nb: *a\n<<: {c: 3}", "[]", "word", "", "a: 'it''s [1] & more'", "a: 0x10\nb: 1e3\nc: ~"]


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_document_is_what_it_is_to_yaml(text):
    documents.check(text, "x.yaml")
    assert documents.load(text) == yaml.safe_load(text)


def test_shipped_configs_are_within_the_limits(tmp_path):
    for path in shipped().values():
        assert documents.read(path) == yaml.safe_load(path.read_text(encoding="utf8"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "x.yaml:4: 'c' is given twice"),
        ("a: 1\nb: !!python/name:os.system", "x.yaml:2: the tag 'tag:yaml.org,2002:python/name:os.system' is none"),
        ("a: &a [1]\nb: [" + "*a, " * 21 + "]", "x.yaml:2: more than 20 aliases"),
        ("a: &a [" + "1, " * 6000 + "]\nb: [" + "*a, " * 20 + "]", "x.yaml:2: more than 100,000 values"),
        ("a: &a [*a]", "x.yaml:1: *a stands within itself"),
        ("a: *b", "x.yaml:1: there is no &b"),
        ("[" * 41 + "]" * 41, "x.yaml:1: nested more than 40 levels deep"),
        ("a: '" + "[" * 41 + "]" * 41 + "'", "x.yaml:1: nested more than 40 levels deep"),
        ("a: " + "9" * 301, "x.yaml:1: a number of 301 digits"),
        ("a: 1\n--- b", "x.yaml:2: a second document begins here"),
        ("? [a]\n: b", "x.yaml:1: a key must be a word"),
        ("a: 'b", "x.yaml:1: not YAML: found unexpected end of stream"),
        ("a: \0", "x.yaml: not YAML: the character 0x0 is none of a text"),
        ("x" * 1_000_001, "x.yaml is larger than 1,000,000 bytes"),
    ],
)
def test_what_breaks_a_limit_is_told_with_file_and_line(text, line):
    with pytest.raises(ValueError) as error:
        documents.check(text, "x.yaml")
    assert str(error.value).startswith(line)


def test_the_limits_themselves_are_allowed():
    documents.check("[" * 40 + "]" * 40)
    documents.check("a: &a [1]\nb: [" + "*a, " * 20 + "]")


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ValueError, match=r"^x.yaml:2: no text in UTF-8"):
        documents.read(tmp_path / "x.yaml")


def test_a_date_that_is_none_is_told():
    with pytest.raises(ValueError, match=r"^x.yaml: not YAML: month must be in"):
        documents.load("a: 2001-99-99", "x.yaml")
