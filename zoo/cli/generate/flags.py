"""The flags of ``generate``, and what is wrong with them as far as it can be told without the checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from zoo.cli.arguments import PACKAGES, PACKAGES_HELP, Arguments

EPILOG = """\
python -m zoo generate runs/NAME --prompt "To be"             a run of one's own: its best checkpoint
python -m zoo generate --ckpt_path last.ckpt --prompt "To be" --temperature 0.8 --top_p 0.95 --seed 1
python -m zoo generate --from gpt2 --file prompts.jsonl --out answers.jsonl --batch_size 16
python -m zoo generate runs/NAME --image one.png two.png      completes images, or names them, as the model learnt to
python -m zoo generate runs/NAME --prompt "2 + 2 =" --continuation " 4" --continuation " 5"     which is likelier?

Without --temperature, --top_k, --top_p, --min_p, --seed and --width a checkpoint writes as its own settings say."""
PRECISIONS = ("fp32", "bf16", "int8", "int4")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
WRITING = (  # what says how text is written, and is idle where a given text is scored
    *("length", *SAMPLING, "repetition_penalty", "width", "length_penalty", "stops", "draft", "lookup", "samples"),
    *("begin", "given"),
)


def arguments() -> Arguments:
    parser = Arguments("generate", "Write with a checkpoint: on from prompts, or about them.", EPILOG)
    parser.usage = "%(prog)s (RUN | --ckpt_path FILE | --from DIR) (--prompt TEXT | --file FILE | ...) [how]"
    who = parser.add_argument_group("who writes, one of")
    who.add_argument("run", nargs="?", help="the folder of a run: its best checkpoint")
    who.add_argument("--ckpt_path", metavar="FILE", help="a checkpoint of a run")
    who.add_argument("--from", dest="published", metavar="DIR", help="a directory as published, or a model of the hub")
    who.add_argument("--task", metavar="NAME", help="which task of a checkpoint that has several")
    who.add_argument(PACKAGES, action="append", metavar="PACKAGE", help=PACKAGES_HELP)
    what = parser.add_argument_group("on from what, one of")
    what.add_argument("--prompt", action="append", metavar="TEXT", help="a text; may be given several times")
    what.add_argument(
        "--file", help="a prompt a line, text or JSON (.jsonl, or any with --key); - is the standard input"
    )
    what.add_argument("--key", help="where the prompt stands in a line of JSON (prompt, or image, or audio)")
    what.add_argument("--image", nargs="+", metavar="FILE", help="for models that read images")
    what.add_argument("--audio", nargs="+", metavar="FILE", help="for models that read sound")
    what.add_argument(
        "--given", type=int, metavar="N", help="tokens of an image or a sound that are gone on from (half)"
    )
    what.add_argument("--begin", metavar="TEXT", help="how an answer begins, such as Whisper's '<|en|><|transcribe|>'")
    how = parser.add_argument_group("how")
    how.add_argument("--length", type=int, help="tokens at most")
    how.add_argument(
        "--temperature", type=float, help="draw by chance; below 1 the likely is likelier, 0 draws nothing"
    )
    how.add_argument("--top_k", type=int, help="draw from so many of the likeliest tokens")
    how.add_argument("--top_p", type=float, help="draw from the fewest tokens that have this share of the probability")
    how.add_argument("--min_p", type=float, help="draw from tokens with this share of the likeliest's probability")
    how.add_argument("--seed", type=int, help="of the draws (0)")
    how.add_argument("--samples", type=int, metavar="N", help="so many answers to each prompt, drawn by chance (1)")
    how.add_argument("--repetition_penalty", type=float, metavar="P", help="above 1: less of what stood already")
    how.add_argument("--width", type=int, help="beams: search for the likeliest text")
    how.add_argument("--length_penalty", type=float, metavar="P", help="of beams: above 0 prefers longer texts (1)")
    how.add_argument("--stops", nargs="+", metavar="TEXT", help="a text ends before these")
    how.add_argument(
        "--continuation", action="append", metavar="TEXT", help="write nothing, but say how likely this is"
    )
    speed = parser.add_argument_group("how fast")
    speed.add_argument("--draft", metavar="SMALLER", help="a run, checkpoint or directory that proposes tokens")
    speed.add_argument("--lookup", action="store_true", help="tokens that followed before are proposed")
    speed.add_argument("--precision", choices=PRECISIONS, default="fp32", help="of the weights (%(default)s)")
    speed.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="(%(default)s)")
    speed.add_argument("--batch_size", type=int, default=8, metavar="N", help="prompts at once (%(default)s)")
    out = parser.add_argument_group("where to")
    out.add_argument(
        "--out", help="texts: a file with a line of JSON each, - for the output; images and sound: a folder (generated)"
    )
    return parser


def refusal(options: argparse.Namespace) -> str | None:
    """What is wrong with a command line, as far as it can be told without the checkpoint."""
    given = said(options)
    sources = [name for name in ("run", "ckpt_path", "published") if name in given]
    inputs = [name for name in ("prompt", "file", "image", "audio") if name in given]
    drawing = [name for name in SAMPLING if name in given]
    if len(sources) != 1:
        return f"give one of the folder of a run, --ckpt_path and --from; here are {counted(sources)}"
    if len(inputs) != 1:
        return (
            f"give one of --prompt, --file (- is the standard input), --image and --audio; here are {counted(inputs)}"
        )
    if "width" in given and drawing:
        return f"--width searches for the likeliest text, and --{drawing[0]} draws by chance; give one of them"
    if "length_penalty" in given and "width" not in given:
        return "--length_penalty compares beams; give --width, how many, as well"
    if options.temperature is not None and options.temperature < 0:
        return (
            f"--temperature={options.temperature} is below 0, where the likeliest token is taken; 1 changes no chances"
        )
    if options.temperature == 0 and len(drawing) > 1:
        other = next(name for name in drawing if name != "temperature")
        return f"--temperature=0 takes the likeliest token, so --{other} has no say; leave one of them out"
    if options.draft and options.lookup:
        return "--draft and --lookup both propose tokens; give one of them"
    proposer = "draft" if options.draft else "lookup"
    if proposer in given and "width" in given:
        return (
            f"--{proposer} helps to decide one token after another, and --width compares whole texts; give one of them"
        )
    if "key" in given and "file" not in given:
        return "--key names the prompt in a --file of JSON lines, and there is no --file"
    if "continuation" in given:
        idle = next((name for name in WRITING if name in given), None)
        if idle:
            return f"--continuation writes nothing, so --{idle} has no say; leave one of them out"
        if "" in options.continuation:
            return "--continuation is empty, and its probability 1"
    for name in ("batch_size", "samples", "length", "given"):
        value = getattr(options, name)
        if value is not None and value < 1:
            return f"--{name}={value} is too small; 1 is the least"
    return None


def said(options: argparse.Namespace) -> set[str]:
    """The names of the flags that have a value."""
    return {name for name, value in vars(options).items() if value is not None and value is not False}


def counted(names: Sequence[str]) -> str:
    flags = {"run": "the run", "published": "--from"}
    return " and ".join(flags.get(name, f"--{name}") for name in names) or "none"
