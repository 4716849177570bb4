"""The command line's front door: it answers what it can at once and imports torch only for the verbs that need it."""

import os
import sys


def keep_out_working_directory() -> None:
    """A ``random.py`` that lies there is not to be run: neither by this process, to whose path -m has added the
    directory, nor by those that libraries start."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[0] == os.getcwd():
        del sys.path[0]
    if home not in sys.path:  # a checkout that is not installed: found, but after all that is
        sys.path.append(home)
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), home)))


if __name__ == "__main__":
    keep_out_working_directory()

import difflib  # noqa: E402 -- from the library and not from the working directory
import importlib  # noqa: E402

USAGE = """\
usage: python -m zoo VERB ...

train and evaluate (every value of a config can be given as a flag: --model.backbone.depth=6)
  fit       python -m zoo fit --config vit_digits     python -m zoo fit runs/NAME (goes on from its last checkpoint)
  test      python -m zoo test runs/NAME              (its config and its best checkpoint)
  validate  python -m zoo validate runs/NAME
  predict   python -m zoo predict runs/NAME           (writes predictions.pt)

write
  generate  python -m zoo generate runs/NAME --prompt "To be"    (or --from DIR; from --image and --audio, too)

look around
  list      python -m zoo list [configs|families|tasks|...] [FILTER]
  compare   python -m zoo compare RUN RUN ...         (what differs, what was best, and the curves; W&B folders too)

published checkpoints
  convert   python -m zoo convert SRC DST             (a run, a directory, timm:NAME -> what from_pretrained reads)
  verify    python -m zoo verify DIR                  (the reference beside ours, layer by layer)
  diff      python -m zoo diff bert roberta           (what differs, part by part; families, sizes or directories)

prepare
  plan             python -m zoo plan --config gpt2 --devices 64 --device h100 --tokens 300e9   (memory, FLOPs, days)
  train-tokenizer  python -m zoo train-tokenizer FILE... --vocabulary 8000 --out tokenizer.json
  tokenize         python -m zoo tokenize SOURCE... --tokenizer tokenizer.json --output shards   (a large corpus, once)
  schema           python -m zoo schema --out zoo.schema.json  (an editor completes and checks configs with it)
  completion       eval "$(zoo completion bash)"               (what TAB completes, for bash, zsh and fish)

python -m zoo VERB --help says more;  --version prints the version;  ZOO_TRACEBACK=1 shows where an error comes from."""

TRAINING = "zoo.cli.train"
VERBS = {
    "fit": TRAINING,
    "validate": TRAINING,
    "test": TRAINING,
    "predict": TRAINING,
    "generate": "zoo.cli.generate",
    "list": "zoo.cli.listing",
    "compare": "zoo.cli.compare",
    "convert": "zoo.cli.convert",
    "verify": "zoo.cli.verify",
    "diff": "zoo.cli.diff",
    "train-tokenizer": "zoo.cli.tokenizer",
    "tokenize": "zoo.cli.tokenize",
    "plan": "zoo.cli.plan",
    "schema": "zoo.cli.schema",
    "completion": "zoo.cli.completion",
}
AT_ONCE = ("list", "completion")  # import nothing that could be of a wrong version


def main(argv: list[str] | None = None) -> int:
    """Runs one verb; the result is the exit code."""
    argv = verb_first(list(sys.argv[1:] if argv is None else argv))
    verb = argv[0] if argv else "--help"
    if verb in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if verb == "--version":
        print(importlib.import_module("zoo").__version__)
        return 0
    if verb not in VERBS:
        words = [word for word in argv if not word.startswith("-")]
        close = [name for word in words for name in difflib.get_close_matches(word, VERBS, n=1)]
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(VERBS)}."
        what = "a verb comes first" if verb.startswith("-") else f"no verb '{verb}'"
        print(f"zoo: error: {what}; {hint}", file=sys.stderr)
        return 2
    if verb not in AT_ONCE and (wrong := importlib.import_module("zoo.cli.versions").complaint()):
        print(f"zoo: error: {wrong}", file=sys.stderr)
        return 1
    try:
        return importlib.import_module(VERBS[verb]).main(argv)
    except SystemExit as stop:  # argparse's
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:  # while the verb was still being imported
        return 130


def verb_first(argv: list[str]) -> list[str]:
    """``--config x fit`` -> ``fit --config x``: a forgivable order."""
    if argv and argv[0].startswith("-") and argv[0] not in ("-h", "--help", "--version"):
        for place, word in enumerate(argv):
            if word in VERBS and not (place and argv[place - 1] in ("-c", "--config", "--out")):
                return [word, *argv[:place], *argv[place + 1 :]]
    return argv


def script() -> int:
    """The command ``zoo``, to whose path nothing was added."""
    keep_out_working_directory()
    return main()


if __name__ == "__main__":
    sys.exit(main())
