"""Calls that run what a file holds, or that crash on one, are nowhere: not in the library, benchmarks or pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [*(ROOT / "zoo").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
TEXTS = [*(ROOT / "configs").rglob("*.yaml"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
WORDS = ("weights_only: false", "trust_remote_code: true", "!!python", "allow_pickle: true")
LOADERS = ("CSafeLoader", "SafeLoader", "LOADER", "loader")  # of our own names for a safe one

SAMPLE = {  # what the gate must find
    "torch.load(file, weights_only=False)": "weights_only=False",
    "torch.load(file)": "torch.load without weights_only=True",
    "Task.load_from_checkpoint(file, weights_only=False)": "weights_only=False",
    "pickle.load(file)": "pickle.load",
    "pickle.loads(text)": "pickle.loads",
    "AutoModel.from_pretrained(name, trust_remote_code=True)": "trust_remote_code",
    "archive.extractall(folder)": "extractall without a filter",
    "tarfile.open(x).extract(member)": "extract without a filter",
    "yaml.load(text, yaml.Loader)": "yaml.load",
    "yaml.unsafe_load(text)": "yaml.unsafe_load",
    "torchvision.io.decode_image(data)": "torchvision.io",
    "from torchvision.io import decode_jpeg": "torchvision.io",
    "eval(text)": "eval",
    "exec(text)": "exec",
    "os.system(text)": "os.system",
    "subprocess.run(text, shell=True)": "shell=True",
    "numpy.load(file, allow_pickle=True)": "allow_pickle",
}
HARMLESS = (
    *("torch.load(file, weights_only=True)", "model.eval()", "archive.extractall(folder, filter='data')"),
    *("yaml.safe_load(text)", "yaml.load(text, CSafeLoader)", "numpy.load(file, allow_pickle=False)"),
)


def findings(source: str) -> Iterator[str]:
    """What the gate finds in Python, by its syntax: words in texts and comments are none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            yield from ("torchvision.io" for name in names if name.startswith("torchvision.io"))
        if isinstance(node, ast.Call):
            yield from call(node)


def call(node: ast.Call) -> Iterator[str]:
    name, given = ast.unparse(node.func), {word.arg: word.value for word in node.keywords}
    last = name.split(".")[-1]
    said = {key: value.value for key, value in given.items() if isinstance(value, ast.Constant)}
    if said.get("weights_only") is False:
        yield "weights_only=False"
    elif name == "torch.load" and said.get("weights_only") is not True:
        yield "torch.load without weights_only=True"
    if name in ("pickle.load", "pickle.loads", "yaml.unsafe_load", "yaml.full_load", "os.system", "eval", "exec"):
        yield name
    if name == "yaml.load" and not any(
        ast.unparse(one).split(".")[-1] in LOADERS for one in (*node.args[1:], *given.values())
    ):
        yield name
    if last in ("extractall", "extract") and "filter" not in given:
        yield f"{last} without a filter"
    if "torchvision.io.decode" in name:
        yield "torchvision.io"
    yield from (word for word in ("trust_remote_code", "allow_pickle") if said.get(word, False) is not False)
    if said.get("shell") is True:
        yield "shell=True"


@pytest.mark.parametrize("line", SAMPLE)
def test_the_gate_finds_what_it_looks_for(line):
    assert list(findings(line)) == [SAMPLE[line]]


@pytest.mark.parametrize("line", HARMLESS)
def test_the_gate_lets_pass_what_is_harmless(line):
    assert list(findings(line)) == []


@pytest.mark.skipif(not PYTHON, reason="not a checkout")
def test_our_code_has_none_of_it():
    found = {str(path.relative_to(ROOT)): list(findings(path.read_text(encoding="utf8"))) for path in PYTHON}
    assert {path: what for path, what in found.items() if what} == {}


def test_our_pages_and_configs_have_none_of_it():
    for path in TEXTS:
        text = path.read_text(encoding="utf8")
        assert not [word for word in WORDS if word in text.lower()], path
        assert not [what for block in BLOCK.findall(text) for what in findings(block)], path
