"""What guessing ahead gains: tokens a second with a draft and with lookup, against the same model alone.

python benchmarks/speculative.py LARGE TEXT [DRAFT] [--tokens 4] [--given 64] [--again 0] [--length 128] [--rounds 12]
                                 [--precision fp32]

LARGE and DRAFT are checkpoints of CausalLMs with one vocabulary, or published directories, and TEXT is a file in UTF-8
that they were not trained on.  A round goes on from another place of it, after so many given tokens, once in each way,
which take turns in who is first.  "times" is the median over the rounds of how many times as fast as alone a way was,
and "equal" in how many rounds its tokens were those of the model alone; tokens that a draft draws by chance have equal
probabilities instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import torch
from rich.console import Console
from rich.table import Table

import zoo
from zoo.generation import Draft, Drafter, Greedy, Lookup, Sample, Search, Speculative, Written
from zoo.precision import Precision
from zoo.tasks import CausalLM
from zoo.tokenizers import Tokens


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("large", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("draft", type=Path, nargs="?")
    parser.add_argument("--tokens", type=int, nargs="+", default=[4], help="that the draft proposes at a time")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--given", type=int, default=64)
    parser.add_argument("--again", type=int, default=0, help="of them follow once more, so that the rest may be copied")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--precision", choices=get_args(Precision), help="prepare both models for inference in it")
    return parser.parse_args()


def read(path: Path, precision: Precision | None) -> CausalLM:
    task = zoo.load(path) if path.is_dir() else CausalLM.load_from_checkpoint(path, map_location="cpu").eval()
    return task if precision is None else zoo.for_inference(task, precision)


def measured(task: CausalLM, prompt: Tokens, length: int, search: Search) -> tuple[float, Written]:
    """Seconds a token, and what was written."""
    begun = time.perf_counter()
    written = task.generate(prompt, length, search)
    return (time.perf_counter() - begun) / len(written.tokens[0]), written


def compared(task: CausalLM, prompts: list[Tokens], length: int, ways: dict[str, Search]) -> Iterator[list[str]]:
    """A table's row for each of the ways, of which the first is that without a drafter."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    texts: dict[str, list[Written]] = {name: [] for name in ways}
    for search in ways.values():
        measured(task, prompts[0], 16, search)  # the first call is slower
    for number, prompt in enumerate(prompts):
        first = number % len(ways)
        for name in [*ways][first:] + [*ways][:first]:
            spent, written = measured(task, prompt, length, ways[name])
            seconds[name].append(spent)
            texts[name].append(written)
    alone = next(iter(ways))
    for name in ways:
        times = statistics.median(a / b for a, b in zip(seconds[alone], seconds[name], strict=True))
        pairs = zip(texts[name], texts[alone], strict=True)
        equal = sum(torch.equal(one.tokens[0], other.tokens[0]) for one, other in pairs)
        proposed = sum(written.proposed for written in texts[name])
        accepted = sum(written.accepted for written in texts[name])
        speed, share = 1 / statistics.median(seconds[name]), f"{accepted / proposed:.2f}" if proposed else ""
        yield [name, f"{speed:.0f}", f"{times:.2f}", share, f"{equal} of {len(prompts)}"]


def main() -> None:
    how = arguments()
    task = read(how.large, how.precision)
    drafters: dict[str, Drafter] = {}
    if how.draft is not None:
        draft = read(how.draft, how.precision)
        drafters = {f"draft, {count} at a time": Draft(draft, count) for count in how.tokens}
    drafters["lookup"] = Lookup()
    ids = task.tokenizer.prompt(how.text.read_text(encoding="utf-8"))
    step = (len(ids) - how.given) // how.rounds
    given = [ids[number * step :][: how.given] for number in range(how.rounds)]
    prompts = [Tokens(torch.cat((part, part[: how.again]))[None]) for part in given]
    table = Table("search", "way", "tokens/s", "times", "accepted", "equal")
    searches: dict[str, Greedy | Sample] = {"greedy": Greedy(), f"sampled, {how.temperature}": Sample(how.temperature)}
    for kind, search in searches.items():
        ways: dict[str, Search] = {
            "alone": search,
            **{name: Speculative(drafter, search) for name, drafter in drafters.items()},
        }
        for row in compared(task, prompts, how.length, ways):
            table.add_row(kind, *row)
    Console(width=120).print(f"{how.large}, {how.length} tokens after {how.given} of {how.text}", table)


if __name__ == "__main__":
    main()
