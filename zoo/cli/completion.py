"""``completion``: a small static script with which a shell completes our command line without starting Python."""

from __future__ import annotations

import sys
from pathlib import Path

from zoo import EXPORTS, listing
from zoo.cli.arguments import Arguments

SHELLS = ("bash", "fish", "zsh")
VERBS = [  # those of zoo.__main__, which nothing imports; a test compares them
    *("fit", "validate", "test", "predict", "generate", "list", "compare", "convert", "verify", "diff"),
    *("train-tokenizer", "tokenize", "plan", "schema", "completion"),
]
OPTIONS = [  # the usual ones: every value of a config is one
    *("--config", "--model", "--model.backbone", "--model.tokenizer", "--data", "--data.root", "--ckpt_path"),
    *("--seed_everything", "--trainer.max_epochs", "--trainer.logger", "--print_config", "--help"),
]

GENERATING = [  # those of zoo.cli.generate, likewise
    *("--ckpt_path", "--from", "--task", "--prompt", "--file", "--key", "--image", "--audio", "--given", "--begin"),
    *("--length", "--temperature", "--top_k", "--top_p", "--min_p", "--seed", "--samples", "--repetition_penalty"),
    *("--width", "--length_penalty", "--stops", "--continuation", "--draft", "--lookup", "--precision", "--device"),
    *("--batch_size", "--out", "--allow", "--help"),
]


def main(argv: list[str]) -> int:
    parser = Arguments(
        "completion",
        "Prints a script that lets a shell complete verbs, configs, runs and classes.",
        'Its first lines say how it is installed; in bash: eval "$(zoo completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS)
    options = parser.parse_args(argv[1:])
    sys.stdout.write(script(options.shell))
    return 0


def script(shell: str) -> str:
    """The shell's script, in which the names of this version are filled in."""
    text = Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8")
    for place, words in names().items():
        text = text.replace(f"@{place}@", " ".join(words))
    return text


def names() -> dict[str, list[str]]:
    """Place in the scripts -> the words that stand there."""
    families = listing.list(kind="families")
    loaders = [f"zoo.{name}" for name in EXPORTS["zoo.hub"]]
    return {
        "verbs": VERBS,
        "options": OPTIONS,
        "generating": GENERATING,
        "configs": [name for name in listing.list(kind="configs") if not name.startswith("sweeps/")],  # W&B's
        "kinds": ["configs", *listing.KINDS],
        "tasks": listing.list(kind="tasks"),
        "data": listing.list(kind="data"),
        "backbones": [
            "Backbone",
            "EncoderDecoder",
            *families,
            *(name for name in loaders if name.endswith("_backbone")),
        ],
        "tokenizers": [*listing.list(kind="tokenizers"), *(name for name in loaders if name.endswith("_tokenizer"))],
        "models": [*map(str.lower, families), *listing.list()],
        "shells": [*SHELLS],
    }
