"""The completion scripts are small and static, and bash completes with them what a user would type."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from zoo import listing
from zoo.__main__ import VERBS
from zoo.cli import completion
from zoo.cli.generate.flags import arguments

ROOT = Path(zoo.__file__).resolve().parent.parent
BASH = shutil.which("bash")
SCRIPT = completion.script("bash")


@pytest.fixture
def complete(tmp_path):
    """``complete("zoo", "test", "")`` -> what bash offers for the last word, in a folder with a config and two runs."""
    if BASH is None:
        pytest.skip("there is no bash")
    (tmp_path / "mine.yaml").write_text("trainer: {}\n")
    (tmp_path / "notes.txt").write_text("")
    for run in ("vit_digits-1", "gpt_docs-1"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "config.yaml").write_text("")
    (tmp_path / "runs" / "empty").mkdir()

    def offered(*words: str) -> set[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        code = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _zoo; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(
            [BASH, "--norc", "-c", SCRIPT + code],
            cwd=tmp_path,
            env={"PATH": ""},  # nothing can be started
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        found = [word for word in done.stdout.splitlines() if word]
        assert len(found) == len(set(found))
        return set(found)

    return offered


def test_verbs(complete):
    assert set(completion.VERBS) == set(VERBS)
    assert set(completion.GENERATING) == {word for word in arguments()._option_string_actions if word.startswith("--")}
    assert complete("zoo", "") == set(VERBS)
    assert complete("zoo", "pre") == {"predict"}
    assert complete("zoo", "nothing") == set()


@pytest.mark.parametrize("option", [("--config",), ("--config", "="), ("-c",), ("--model", "x", "--config")])
def test_configs_and_files(complete, option):
    shipped = {name for name in listing.shipped() if not name.startswith("sweeps/")}
    assert complete("zoo", "fit", *option, *([] if "=" in option else [""])) >= shipped | {"mine.yaml", "runs"}
    assert complete("zoo", "fit", *option, "vit_d") == {"vit_digits"}
    assert complete("zoo", "fit", *option, "trainer/") == {n for n in shipped if n.startswith("trainer/")}
    assert complete("zoo", "fit", *option, "notes") == set()


def test_a_word_with_an_equal_sign_in_it(complete):
    assert complete("zoo", "fit", "--config=vit_d") == {"--config=vit_digits"}
    assert complete("zoo", "fit", "--model.backbone=ViT") == {"--model.backbone=ViT"}


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict", "generate", "compare"])
def test_runs(complete, verb):
    assert complete("zoo", verb, "") == {"runs/vit_digits-1", "runs/gpt_docs-1"}
    assert complete("zoo", verb, "ru") == {"runs/vit_digits-1", "runs/gpt_docs-1"}
    assert complete("zoo", verb, "runs/g") == {"runs/gpt_docs-1"}
    assert complete("zoo", verb, "nothing") == set()


def test_one_run_or_many(complete):
    assert complete("zoo", "compare", "runs/gpt_docs-1", "runs/v") == {"runs/vit_digits-1"}
    assert complete("zoo", "test", "runs/gpt_docs-1", "") == set(completion.OPTIONS)


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("--model", "tasks"),
        ("--data", "data"),
        ("--model.backbone", "families"),
        ("--model.init_args.target_backbone", "families"),
        ("--model.tokenizer", "tokenizers"),
    ],
)
def test_classes(complete, option, kind):
    known = set(listing.list(kind=kind))
    assert known <= complete("zoo", "fit", "--config", "vit_digits", option, "")
    assert known <= complete("zoo", "fit", option, "=")
    for name in complete("zoo", "fit", option, ""):
        assert getattr(zoo, name.removeprefix("zoo.")), name
    first = min(known)
    assert first in complete("zoo", "fit", option, "=", first[:2])


def test_what_else_stands_after_a_verb(complete):
    assert complete("zoo", "list", "t") == {"tasks", "tokenizers"}
    assert complete("zoo", "completion", "") == {"bash", "fish", "zsh"}
    assert {"bert", "bert-base"} <= complete("zoo", "diff", "roberta", "bert")
    assert complete("zoo", "fit", "--mo") == {"--model", "--model.backbone", "--model.tokenizer"}
    assert complete("zoo", "generate", "runs/gpt_docs-1", "--le") == {"--length", "--length_penalty"}
    assert complete("zoo", "generate", "runs/gpt_docs-1", "--draft", "") == set()
    assert complete("zoo", "fit", "--data.root", "") == set()  # readline's own files


def test_python_m_zoo_too_and_nothing_else_of_python(complete):
    assert complete("python", "-m", "zoo", "pre") == {"predict"}
    assert complete("/usr/bin/python3", "-m", "zoo", "fit", "--config", "=", "vit_d") == {"vit_digits"}
    assert complete("python", "-m", "pytest", "") == set()
    assert complete("python", "") == set()


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_script_is_small_and_has_all_names(command, shell):
    answer = command("completion", shell)
    assert answer.code == 0 and len(answer.out) < 20_000
    assert "@" not in answer.out.replace('"$@"', "").replace("[@]", "")  # every place is filled in
    for words in completion.names().values():
        assert " ".join(words) in answer.out
    if shutil.which(shell):
        checked = subprocess.run([shutil.which(shell), "-n"], input=answer.out, capture_output=True, text=True)
        assert checked.returncode == 0 and not checked.stderr, checked.stderr


def test_printing_it_imports_no_torch():
    code = (
        "import sys; from zoo.__main__ import main; main(['completion', 'bash']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {name.split(".")[0] for name in done.stderr.split()} & {"torch", "lightning", "yaml", "rich"}
