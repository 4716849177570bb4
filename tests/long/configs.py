"""``python -m tests.long.configs``: hostile values and malformed YAML through the command line: nothing is imported,
nothing is run, and each is answered with one line that names the file."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import DIGITS
from tests.long.cases import Case
from tests.long.report import Report, bar

CANARY = "canary"  # what hostile code would leave in the working directory
MODULE = "hostile"  # a module there that makes one when it is imported
CALLBACK = "trainer: {callbacks: [{class_path: %s, init_args: %s}]}"
BACKBONE, OPTIMIZER = "model: {init_args: {backbone: %s}}", "model: {init_args: {optimizer: %s}}"
TRANSFORM = "data: {init_args: {augment: [{class_path: Transform, init_args: {transform: %s}}]}}"
PROFILER = "trainer: {profiler: {class_path: %s}}"
LOGGER, STRATEGY = "trainer: {logger: {class_path: %s}}", "trainer: {strategy: {class_path: %s}}"
TOUCH = "{args: [touch, canary]}"

VALUES = {  # what it tries -> a config that is laid over a sound one
    "a program as a callback": CALLBACK % ("subprocess.Popen", TOUCH),
    "a module of the working directory": CALLBACK % ("hostile.Part", "{}"),
    "its class without arguments": "trainer:\n  callbacks:\n  - hostile.Part",
    "its class added": "trainer: {callbacks+: [hostile.Part]}",
    "its class as a task": "model: {class_path: hostile.Part}",
    "its class as data": "data: {class_path: hostile.Part}",
    "its class as a part": BACKBONE % "{class_path: hostile.Part}",
    "its class below a part": BACKBONE % "{class_path: Backbone, init_args: {block: hostile.Part}}",
    "its class as a logger": LOGGER % "hostile.Part",
    "its class as a strategy": STRATEGY % "hostile.Part",
    "its class as a plugin": "trainer: {plugins: [{class_path: hostile.Part}]}",
    "its class as an accelerator": "trainer: {accelerator: {class_path: hostile.Part}}",
    "its class as a profiler": "trainer: {profiler: {class_path: hostile.Part}}",
    "its class as a transform": TRANSFORM % "{class_path: hostile.Part}",
    "its class as an environment": STRATEGY
    % "DDPStrategy, init_args: {cluster_environment: {class_path: hostile.Part}}",
    "its class where a type is": STRATEGY % "FSDPStrategy, init_args: {activation_checkpointing: [hostile.Part]}",
    "its class where anything goes": LOGGER % "WandbLogger, init_args: {experiment: {class_path: hostile.Part}}",
    "its class in a text": "trainer: {callbacks: '[{class_path: hostile.Part}]'}",
    "a shell as an optimizer": OPTIMIZER % "os.system",
    "a shell as a hook": CALLBACK % ("LambdaCallback", "{on_fit_start: os.system}"),
    "a module as a hook": CALLBACK % ("LambdaCallback", "{setup: hostile.Part}"),
    "a shell as a policy": STRATEGY % "FSDPStrategy, init_args: {auto_wrap_policy: os.system}",
    "a shell as a communication hook": STRATEGY % "DDPStrategy, init_args: {ddp_comm_hook: os.system}",
    "a shell as a transform": TRANSFORM
    % "{class_path: torchvision.transforms.v2.Lambda, init_args: {lambd: os.system}}",
    "a shell by way of the library": BACKBONE % "zoo.cli.facts.subprocess.Popen",
    "a function of the library's insides": OPTIMIZER % "zoo.cli.facts.git",
    "a shell by way of torch": OPTIMIZER % "torch.optim.adamw.os.system",
    "a shell by way of Lightning": OPTIMIZER % "lightning.pytorch.callbacks.model_checkpoint.os.system",
    "a file handler": LOGGER % "logging.FileHandler, init_args: {filename: canary}",
    "eval": OPTIMIZER % "builtins.eval",
    "a partial": OPTIMIZER % "functools.partial",
    "an import": "model: {init_args: {pool: {class_path: importlib.import_module, init_args: {name: hostile}}}}",
    "a pickle": OPTIMIZER % "torch.load",
    "the hub": OPTIMIZER % "torch.hub.load",
    "the parser's settings": OPTIMIZER % "jsonargparse.set_parsing_settings",
    "a module that nobody has imported": OPTIMIZER % "antigravity.fly_crapper",
    "permission for itself": "allow: hostile",
    "permission for an address": "allow_remote: true",
    "a checkpoint at an address": "ckpt_path: http://127.0.0.1:9/x.ckpt",
    "a checkpoint in memory": "ckpt_path: memory://x.ckpt",
    "a checkpoint that may hold code": "weights_only: false",
    "a log outside its directory": LOGGER % "CSVLogger, init_args: {save_dir: ., name: ../../canary}",
    "a version outside its directory": LOGGER % "CSVLogger, init_args: {save_dir: ., version: ../../canary}",
    "a checkpoint outside its directory": CALLBACK % ("ModelCheckpoint", "{filename: ../../canary}"),
    "a checkpoint at the root": CALLBACK % ("ModelCheckpoint", "{filename: /tmp/canary}"),
    "a profile outside its directory": PROFILER % "SimpleProfiler, init_args: {filename: ../canary}",
    "a W&B run outside its directory": LOGGER % "WandbLogger, init_args: {id: ../canary}",
}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")
)
MALFORMED: dict[str, str | bytes] = {  # what is wrong -> a file
    "nothing": "",
    "blank lines": "\n\n",
    "a comment": "# nothing",
    "null": "null",
    "a list": "- a",
    "a number": "3",
    "a word": "word",
    "an open list": "trainer: {callbacks: [1",
    "an open mapping": "trainer: {max_epochs: 1",
    "an open quote": "trainer: 'x",
    "two colons": "trainer: a: b",
    "a tab": "trainer:\n\tmax_epochs: 1",
    "indentation": "trainer: {}\n  model: 2",
    "a key twice": "trainer: {max_epochs: 1}\ntrainer: {max_epochs: 2}",
    "an inner key twice": "trainer: {max_epochs: 1, max_epochs: 2}",
    "an alias of nothing": "trainer: *x",
    "an alias within itself": "trainer: &a {callbacks: [*a]}",
    "an alias bomb": BOMB,
    "an alias bomb in a text": f"trainer: {{callbacks: {BOMB!r}}}",
    "a merge with a number": "<<: 3",
    "a tag of Python's": "trainer: !!python/object/apply:os.system [touch canary]",
    "a binary tag": "trainer: !!binary aaaa",
    "two documents": "trainer: {}\n---\nmodel: {}",
    "a newer YAML": "%YAML 9.9\n---\ntrainer: {}",
    "a reserved character": "trainer: @x",
    "a list as a key": "? [a]\n: b",
    "a mapping as a key": "{a: 1}: b",
    "a number as a key": "1: 2",
    "null as a key": "null: 2",
    "an empty key": "'': 2",
    "a bracket": "]",
    "UTF-16": "trainer: {}".encode("utf-16"),
    "Latin-1": b"trainer: \xe9",
    "a NUL": b"trainer: \0",
    "a bell": b"trainer: \x07",
    "a picture": b"\x89PNG\r\n\x1a\n",
    "deep lists": "[" * 1000 + "]" * 1000,
    "deep mappings": "{a: " * 100 + "1" + "}" * 100,
    "open brackets alone": "[" * 100_000,
    "many values": "trainer: [" + "1," * 150_000 + "]",
    "two megabytes": "trainer: " + "x" * 2_000_000,
    "a number of 400,000 digits": "seed_everything: 1" + ":1" * 200_000,
    "a huge seed": "seed_everything: " + "9" * 100,
    "a trainer that is a number": "trainer: 3",
    "a trainer that is a list": "trainer: [1]",
    "a trainer that is nothing": "trainer: null",
    "a model that is a list": "model: [1]",
    "a class that is a number": "model: {class_path: 3}",
    "a class that is a path": "model: {class_path: ../x}",
    "a word for a number": "trainer: {max_epochs: two}",
    "no such section": "modle: {}",
    "no such accelerator": "trainer: {accelerator: tpuu}",
    "no division by zero": "trainer: {accumulate_grad_batches: 0}",
}
SOUND: dict[str, str | bytes] = {
    "an override": "trainer: {log_every_n_steps: 2}",
    "an alias": "seed_everything: &a 2\ntrainer: {log_every_n_steps: *a}",
    "JSON": '{"trainer": {"log_every_n_steps": 2}}',
    "carriage returns": b"trainer:\r\n  log_every_n_steps: 2\r\n",
    "a byte order mark": b"\xef\xbb\xbftrainer: {log_every_n_steps: 2}",
}


def prepare(folder: Path) -> None:
    """The sound config, and the module that says when it is imported."""
    (folder / "digits.yaml").write_text(DIGITS)
    (folder / f"{MODULE}.py").write_text(f"open({str(folder / CANARY)!r}, 'w')\n\nclass Part:\n    pass\n")


def words(file: Path) -> list[str]:
    return ["fit", "--config", str(file.parent / "digits.yaml"), "--config", str(file), "--trainer.max_steps=1"]


def value_cases(folder: Path) -> Iterator[Case]:
    """Hostile values; ``prepare`` has been called."""
    yield from written(folder, "value", VALUES)


def yaml_cases(folder: Path) -> Iterator[Case]:
    """Malformed and hostile YAML, and sound controls."""
    prepare(folder)
    yield from written(folder, "yaml", MALFORMED)
    yield from written(folder, "yaml", SOUND, control=True)


def written(folder: Path, kind: str, texts: dict, control: bool = False) -> Iterator[Case]:
    for number, (name, text) in enumerate(texts.items()):
        file = folder / f"{kind}{'-sound' if control else ''}-{number}.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        yield Case(kind, name, words(file), str(file), control)


def fault(case: Case, code: int | None, said: str) -> str | None:
    """What is wrong with an answer, None where it is as promised."""
    lines = [line for line in said.splitlines() if line.strip()]
    if case.control:
        return None if code == 0 else f"exit {code}: {said[-200:]}"
    if code not in (1, 2):
        return f"exit {code}"
    if len(lines) != 1 or not lines[0].startswith("zoo: error: "):
        return f"{len(lines)} lines: {said[:200]}"
    return None if Path(case.file).name in lines[0] else f"the file is not named: {lines[0]}"


def inside(case: Case, folder: Path, log: Path, pipe: multiprocessing.connection.Connection) -> None:
    """One attempt in a process of its own; what was imported goes through the pipe."""
    os.chdir(folder)
    for number, place in ((1, Path(os.devnull)), (2, log)):
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["zoo", *case.words]
    from zoo.__main__ import main

    before = set(sys.modules)
    code = main(case.words)
    pipe.send((code, {name.split(".")[0] for name in set(sys.modules) - before}))


def attempt(case: Case, folder: Path, limit: float = 60) -> tuple[int | None, str, set[str]]:
    """The exit code (None for a death or a hang), what was said, and the packages that were imported from."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    log = folder / "said.txt"
    process = multiprocessing.get_context("fork").Process(target=inside, args=(case, folder, log, sender))
    process.start()
    sender.close()
    code, new = None, set()
    if receiver.poll(limit):
        with contextlib.suppress(EOFError):
            code, new = receiver.recv()
    process.kill()
    process.join()
    return code, log.read_text(encoding="utf-8", errors="replace"), new


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.configs", description=__doc__)
    parser.add_argument("--count", type=int, help="attempts of each kind (all)")
    count = parser.parse_args(argv).count
    import lightning.pytorch  # noqa: F401 -- once, and not in every process
    import torchvision  # noqa: F401
    import wandb  # noqa: F401

    import zoo.cli.train  # noqa: F401

    report = Report("configs are input too")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "work" / "here"
        folder.mkdir(parents=True)
        prepare(folder)
        for kind, cases in (("values", list(value_cases(folder))), ("YAML", list(yaml_cases(folder)))):
            wrong, imported = [], set()
            for case in bar(cases[:count], kind):
                code, said, new = attempt(case, folder)
                imported |= new & {MODULE, "antigravity", "this"}
                if problem := fault(case, code, said):
                    wrong.append(f"{case.name}: {problem}")
            report.row(f"hostile {kind}: answered in one line", len(cases[:count]) - len(wrong), len(cases[:count]))
            report.row(f"hostile {kind}: imports outside the list", len(imported), 0)
            print(*wrong, sep="\n")
        left = list(Path(place).rglob(f"*{CANARY}*"))
        report.row("code that was run, files outside their directory", len(left), 0)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
