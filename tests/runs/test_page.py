"""The page: complete in itself, true to its runs, and safe from what they are called."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from zoo.runs import read
from zoo.runs.page import POINTS, page, write

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}"


class Reader(HTMLParser):
    """The elements of a page with their attributes, and the texts of its cells, headings and scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def data_of(text: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture
def pair(written, curve):
    return [
        read(written(f"run-{floor}", curve(floor), {"model": {"floor": floor}}, {"device": f"GPU {floor}"}))[0]
        for floor in (1, 2)
    ]


def test_nothing_is_loaded_from_elsewhere(pair):
    seen = Reader(page(pair))
    assert not [attributes for _, attributes in seen.elements if {"src", "href"} & attributes.keys()]
    assert "".join(seen.texts).count("://") == 1  # the name of SVG
    assert {name for name, _ in seen.elements} & {"link", "iframe", "img", "object"} == set()


def test_the_tables_say_what_differs_and_who_is_best(pair):
    text = page(pair)
    seen = Reader(text)
    assert "run: 2 runs" in seen.texts
    at = seen.texts.index("model.floor")
    assert seen.texts[at + 1 : at + 3] == ["1", "2"]
    at = seen.texts.index("device")
    assert seen.texts[at + 1 : at + 3] == ["GPU 1", "GPU 2"]
    assert re.findall(r"<strong>(.*?)</strong>", text) == ["1.22", "0.8197"]
    alone = Reader(page(pair[:1]))
    assert "run-1" in alone.texts and "model.floor" not in alone.texts and alone.count("strong") == 0


def test_the_script_gets_the_curves(pair):
    data = data_of(page(pair))
    assert [axis["key"] for axis in data["axes"]] == ["step", "seconds", "tokens", "flops", "samples"]
    assert [subject["name"] for subject in data["subjects"]] == ["loss", "accuracy", "lr"]
    first = data["runs"][0]["columns"]
    pairs = [(x, y) for x, y in zip(first["tokens"], first["val/loss"]) if y is not None]
    assert pairs == [(64 * step, pytest.approx(1 + 11 / step, rel=1e-6)) for step in (10, 20, 30, 40, 50)]
    assert data["runs"][1]["best"]["val/loss"] == [50, pytest.approx(2.22)]


def test_what_is_not_finite_is_left_out(written):
    rows = [{"step": step, "val/loss": value} for step, value in enumerate(["nan", "inf", 1, "-inf"])]
    (run,) = read(written("a", rows))
    assert data_of(page([run]))["runs"][0]["columns"]["val/loss"] == [None, None, 1, None]
    (run,) = read(written("b", rows[:1]))
    assert data_of(page([run]))["runs"][0]["best"]["val/loss"] == [0, None]


@pytest.mark.parametrize("evil", [EVIL, "<img src=x>"], ids=["long", "short"])
def test_names_and_values_never_become_markup(written, curve, evil):
    runs, others = [], []
    for name in ("one", "two"):
        rows = [{**row, f"val/{evil}": 1} for row in curve()]
        path = written(name, rows, {evil: evil + name}, {"device": evil + name})
        runs.append(read(path)[0])
        others.append(read(written(f"plain-{name}", curve(), {"a": name}))[0])
    plain, seen = Reader(page(others)), Reader(page(runs))
    assert (seen.count("script"), seen.count("img")) == (plain.count("script"), 0) == (2, 0)
    assert evil in seen.texts
    assert any(evil in name for name in data_of(page(runs))["runs"][0]["columns"])


def test_long_curves_are_thinned_and_keep_their_best(written):
    rows = [{"step": step, "train/loss": 1, "val/loss": abs(step - 7777) + 1} for step in range(20_000)]
    data = data_of(page(read(written("a", rows))))
    columns = data["runs"][0]["columns"]
    assert POINTS / 2 < len(columns["step"]) < 2 * POINTS + 3
    assert 7777 in columns["step"] and columns["step"][-1] == 19_999


def test_many_runs_have_a_row_each(written, curve):
    runs = [read(written(f"r-{place}", curve(), {"a": {"lr": place}}))[0] for place in range(8)]
    seen = Reader(page(runs))
    assert "a.lr" in seen.texts
    assert [text for text in seen.texts if text in map(str, range(8))] != []
    assert len({(run["colour"], run["dash"]) for run in data_of(page(runs))["runs"]}) == 8


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no browser")
def test_a_browser_draws_the_curves(pair, tmp_path):
    write(pair, tmp_path / "page.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    answer = subprocess.run(
        [CHROMIUM, *options, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    seen = Reader(answer.stdout)
    lines = [attributes["d"] for name, attributes in seen.elements if name == "path"]
    assert len(lines) == 4 and not any("NaN" in line for line in lines)
    assert seen.count("button") == 2 and "optimizer steps" in seen.texts
