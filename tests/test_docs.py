"""What the tutorials say works: their commands run one after another, shortened, in an empty directory a page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import zoo

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = {path.stem: path.read_text(encoding="utf8") for path in sorted(DOCS.glob("*.md"))}
TUTORIALS = ("images", "text", "audio", "generation", "comparing", "reliability", "scaling", "training")
BLOCK = re.compile(r"(<!-- not run -->\n)?```(bash|python)\n(.*?)```", re.DOTALL)
HERE = re.compile(r"((?:[A-Z_]+=\S+ )*)python -m zoo (.*)")  # a command that this process runs, after its variables
LIMITS = (
    *("--trainer.limit_train_batches=2", "--trainer.limit_val_batches=1", "--trainer.limit_test_batches=1"),
    *("--trainer.check_val_every_n_epoch=1", "--trainer.val_check_interval=1.0", "--trainer.num_sanity_val_steps=0"),
    *("--trainer.enable_progress_bar=false", "--trainer.accelerator=cpu"),
)
pytestmark = [
    pytest.mark.skipif(not PAGES, reason="not a checkout"),
    pytest.mark.filterwarnings("ignore"),  # two batches are few, and say so
]


def shell(script: str) -> str:
    """Run by bash, in which ``python`` is this one; what it printed."""
    own = f"export PYTHONPATH={Path(zoo.__file__).parent.parent}\npython() {{ '{sys.executable}' \"$@\"; }}\n"
    done = subprocess.run(["bash", "-ec", own + script], capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stderr}"
    return done.stdout


def parts(block: str) -> list[str]:
    """A bash block as commands of ours, one each, and what is between them."""
    found: list[str] = []
    for line in block.replace("\\\n", " ").splitlines():
        if found and not HERE.fullmatch(line) and not HERE.fullmatch(found[-1]):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def shortened(words: list[str]) -> list[str]:
    """With limits, where the verb runs a model; it is trained for an epoch of two batches, or goes on with another."""
    if words[0] == "fit":
        again = words[1].startswith("runs/") or "--ckpt_path" in words
        return [*words, *LIMITS, f"--trainer.max_epochs={2 if again else 1}"]
    return [*words, *LIMITS] if words[0] in ("test", "validate") else words


@pytest.mark.parametrize("page", TUTORIALS)
def test_its_commands_run(page, command, monkeypatch):
    known = ""  # the shell's variables so far
    for skip, language, block in BLOCK.findall(PAGES[page]):
        if skip:
            continue
        if language == "python":
            exec(compile(block, f"{page}.md", "exec"), {"__name__": page})
            continue
        for part in parts(block):
            ours = HERE.fullmatch(part)
            if not ours:
                shell(known + part)
                known += "".join(f"{line}\n" for line in re.findall(r"^[A-Z]+=.*", part, re.MULTILINE))
                continue
            for name, value in re.findall(r"(\S+?)=(\S+)", ours[1]):
                monkeypatch.setenv(name, value)
            words = shell(known + f"printf '%s\\n' {ours[2]}").splitlines()
            answer = command(*shortened(words))
            assert answer.code == 0, f"{part}\n{answer.err}"


def test_its_links_and_pictures_are_there():
    assert {*TUTORIALS, "README"} <= set(PAGES)
    linked = {target for text in PAGES.values() for target in re.findall(r"\]\(([^)#:]+)\)", text)}
    assert linked and not {target for target in linked if not (DOCS / target).is_file()}
