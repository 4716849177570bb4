"""``generate``, as typed: from a run, a checkpoint and a directory; texts, images and sound; and mistakes."""

import io
import json
import math
import subprocess
import sys
import wave
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

import zoo
from zoo.cli.generate import texts as generated_texts
from zoo.data import read_audio
from zoo.generation import Generation, Sample
from zoo.generation.rules import Force, SuppressFirst
from zoo.models import BERT, GPT2, LLaMA, T5Gated, ViT
from zoo.tasks import CausalLM, Classify, MaskedLM, Multimodal, Seq2Seq
from zoo.tokenizers import BPE, Frames, Ids, LogMel, Patches, Subword
from zoo.tokenizers.image import pixels

TEXT = "To be, or not to be 😀, that is the question 🌍🌍."
PATCHES = Patches(size=8, patch=2, channels=1)
FRAMES = Frames(LogMel(rate=8000, mels=16, window=256, hop=80), stack=2)
FORCED = [Force(int(BPE().prompt("<"))), SuppressFirst(BPE().prompt("<").tolist(), after=1)]
SMALL = {"dim": 16, "depth": 1, "heads": 2}
PAIR = {**SMALL, "head_dim": 8, "hidden": 16}


def gpt(length: int = 96, tokenizer=None, **more) -> CausalLM:
    return CausalLM(GPT2(**SMALL, length=length), tokenizer or BPE(), **more)


def recited(task: CausalLM) -> CausalLM:
    """Trained until it knows ``TEXT`` by heart."""
    ids = task.tokenizer.encode(TEXT)[None]
    optimizer = torch.optim.Adam(task.parameters(), lr=0.02)
    for _ in range(120):
        loss = torch.nn.functional.cross_entropy(task.head(task(zoo.Tokens(ids)))[0, :-1], ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1
    return task.eval()


def saved(task, path: Path) -> None:
    """As a Trainer saves it."""
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(task)
    trainer.save_checkpoint(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with checkpoints of every kind, a run and published directories."""
    folder = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    known = recited(gpt())
    tasks = {
        "text": known,
        "image": gpt(16, PATCHES),
        "sound": CausalLM(LLaMA(**SMALL, hidden=16), FRAMES),
        "caption": Seq2Seq(T5Gated(**PAIR), PATCHES, BPE(), generation=Generation(length=6)),
        "speech": Seq2Seq(T5Gated(**PAIR), FRAMES, BPE(), generation=Generation(length=6)),
        "draw": Seq2Seq(T5Gated(**PAIR), BPE(), PATCHES),
        "speak": Seq2Seq(T5Gated(**PAIR), BPE(), FRAMES, generation=Generation(length=10)),
        "translate": Seq2Seq(T5Gated(**PAIR), BPE(), generation=Generation(length=6)),
        "forced": Seq2Seq(T5Gated(**PAIR), BPE(), generation=Generation(4, rules=FORCED)),
        "masked": MaskedLM(BERT(**SMALL, length=32), BPE()),
        "classes": Classify(ViT(**SMALL, grid=4, prefix=0), PATCHES, classes=3),
        "drawing": gpt(generation=Generation(length=8, search=Sample(top_k=4, seed=5))),
        "words": gpt(tokenizer=words()),
        "several": Multimodal(
            LLaMA(**SMALL, hidden=16),
            {"text": partial(CausalLM, tokenizer=BPE()), "image": partial(CausalLM, tokenizer=PATCHES)},
        ),
    }
    for name, task in tasks.items():
        saved(task, folder / f"{name}.ckpt")
    (folder / "run" / "checkpoints").mkdir(parents=True)
    (folder / "run" / "config.yaml").write_text("")
    (folder / "text.ckpt").rename(folder / "run" / "checkpoints" / "best.ckpt")
    (folder / "text.ckpt").symlink_to(folder / "run" / "checkpoints" / "best.ckpt")
    zoo.save(known, folder / "published")
    zoo.save(gpt(16, Ids(20)), folder / "ids")
    (folder / "cut.ckpt").write_bytes((folder / "image.ckpt").read_bytes()[:3000])
    return folder


def words() -> Subword:
    """A vocabulary without a token for what it does not know."""
    backend = Tokenizer(models.WordLevel({"to": 0, "be": 1, "[PAD]": 2}))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return Subword(content=backend.to_str(), pad="[PAD]")


@pytest.fixture
def here(made, tmp_path, monkeypatch, command) -> Path:
    """The working directory of the commands, in which all of these stand."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    Image.new("L", (8, 8), 90).save("grey.png")
    Image.linear_gradient("L").resize((20, 12)).save("ramp.png")
    tone("high.wav", 900, 0.4)
    tone("low.wav", 300, 0.3)
    return tmp_path


def tone(path: str, frequency: float, seconds: float) -> None:
    samples = (torch.arange(int(8000 * seconds)) * frequency / 8000 * 2 * math.pi).sin() * 0.3
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((samples * 32767).to(torch.int16).numpy().tobytes())


def told(answer, code: int) -> str:
    """The one line that was said, after "zoo: error: "."""
    (line,) = answer.err.splitlines()
    assert answer.code == code and line.startswith("zoo: error: "), answer
    return line.removeprefix("zoo: error: ").removesuffix(" ('python -m zoo generate --help' says more)")


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


# ---- one text


@pytest.mark.parametrize("source", [["run"], ["--ckpt_path", "text.ckpt"], ["--from", "published"]], ids=" ".join)
def test_a_text_goes_on_from_its_prompt(command, here, source):
    answer = command("generate", *source, "--prompt", "To be, or")
    assert answer.code == 0, answer.err
    assert answer.out == TEXT + "\n"
    (line,) = answer.err.splitlines()
    count = len(BPE().encode(TEXT)) - len(BPE().prompt("To be, or"))
    assert line.startswith(f"{count} tokens in ") and line.endswith(" tokens/s; ended by its own end")


def test_a_text_is_seen_as_it_is_decided_and_never_with_half_a_letter(command, here, monkeypatch):
    pieces = []
    monkeypatch.setattr(generated_texts, "say", pieces.append)
    assert command("generate", "run", "--prompt", "To be").code == 0
    seen = [piece for piece in pieces if piece]
    assert seen[0] == "To be" and "".join(seen) == TEXT + "\n" and len(seen) > 30
    assert {"😀", "🌍"} <= set(seen) and "\N{REPLACEMENT CHARACTER}" not in "".join(seen)


def test_why_it_stopped(command, here):
    stopped = command("generate", "run", "--prompt", "To be", "--stops", " that", "xyz")
    assert stopped.out == "To be, or not to be 😀,\n" and stopped.err.endswith("ended by a stop string\n")
    short = command("generate", "run", "--prompt", "To be", "--length", "4")
    assert short.out == "To be, or\n" and short.err.endswith("ended by the length\n")
    full = command("generate", "--from", "ids", "--prompt", "1 2 3", "--length", "99")
    assert full.err.startswith("14 tokens") and full.err.endswith("ended by the model's last position\n")
    assert full.out.startswith("1 2 3 ") and len(full.out.split()) == 17


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "int4"])
def test_every_precision_writes(command, here, precision):
    answer = command("generate", "run", "--prompt", "To be, or not to", "--precision", precision, "--length", "4")
    assert answer.code == 0 and answer.out.startswith("To be, or not to")
    if precision != "int4":
        assert answer.out == "To be, or not to be \n"


@pytest.mark.parametrize("flags", [["--lookup"], ["--draft", "text.ckpt"], ["--draft", "run", "--temperature", "0"]])
def test_proposals_change_nothing_but_the_speed(command, here, flags):
    answer = command("generate", "run", "--prompt", "To be, or not to be", *flags)
    assert answer.code == 0 and answer.out == TEXT + "\n"
    assert "% of " in answer.err and answer.err.endswith("proposed tokens accepted\n")
    if "--draft" in flags:
        assert "100% of" in answer.err


def test_beams_and_a_repetition_penalty(command, here):
    assert (
        command("generate", "run", "--prompt", "To be, or", "--width", "3", "--length_penalty", "0").out == TEXT + "\n"
    )
    bent = command("generate", "run", "--prompt", "To be, or", "--repetition_penalty", "50")
    assert bent.code == 0 and bent.out != TEXT + "\n"


def test_a_closed_pipe_is_no_error(here):
    code = """
import sys, types
writing = types.ModuleType("zoo.cli.generate.job")  # without torch, which takes seconds
writing.job = lambda options: [print("To be, or not to be") for _ in range(100_000)]
sys.modules[writing.__name__] = writing
from zoo.__main__ import main
sys.exit(main(["generate", "run", "--prompt", "To be"]))
"""
    root = Path(zoo.__file__).resolve().parent.parent
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": str(root)}
    )
    run.stdout.readline()
    run.stdout.close()
    assert run.stderr.read() == b"" and run.wait() == 0


# ---- many texts


def test_a_batch_gives_what_each_gives_alone(command, here):
    prompts = ["To be, or", "To", "that is the", "To be, or not to be"]
    alone = [command("generate", "run", "--prompt", prompt).out for prompt in prompts]
    flags = [word for prompt in prompts for word in ("--prompt", prompt)]
    for size in ("1", "3", "8"):
        together = command("generate", "run", *flags, "--batch_size", size)
        assert together.out == "---\n".join(alone)
        assert together.err.startswith("4 texts, ") and "its own end (4)" in together.err


def test_lines_of_text_and_of_json(command, here, monkeypatch):
    Path("p.txt").write_text("To be, or\n\nthat is\n", encoding="utf-8")
    rows = [{"id": 7, "prompt": "To be, or"}, {"prompt": "that is", "tags": ["a", None]}]
    Path("p.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    Path("q.txt").write_text(json.dumps({"question": "To be, or", "text": 1, "id": 3}).replace("text", "note"))
    assert command("generate", "run", "--file", "p.txt", "--out", "out.jsonl").code == 0
    found = objects(Path("out.jsonl").read_text(encoding="utf-8"))
    assert [row["prompt"] for row in found] == ["To be, or", "that is"]
    assert found[0] == {"prompt": "To be, or", "text": TEXT[9:], "tokens": len(TEXT[9:].encode()) + 1, "reason": "end"}
    carried = objects(command("generate", "run", "--file", "p.jsonl", "--out", "-").out)
    assert carried[0] == {**found[0], "id": 7} and carried[1] == {**found[1], "tags": ["a", None]}
    (other,) = objects(command("generate", "run", "--file", "q.txt", "--key", "question", "--out", "-").out)
    assert other == {**found[0], "note": 1, "id": 3}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"To be, or\nthat is\n")))
    assert objects(command("generate", "run", "--file", "-", "--out", "-").out) == found


def test_seeds_repeat_and_do_not_depend_on_the_batch(command, here):
    def drawn(*flags: str) -> list[dict]:
        prompts = ("--prompt", "To", "--prompt", "To", "--prompt", "be")
        answer = command("generate", "--ckpt_path", "drawing.ckpt", *prompts, "--out", "-", *flags)
        assert answer.code == 0, answer.err
        return objects(answer.out)

    first = drawn("--seed", "1", "--samples", "3")
    assert [row["sample"] for row in first] == [0, 1, 2] * 3 and len({row["text"] for row in first}) > 6
    assert first == drawn("--seed", "1", "--samples", "3", "--batch_size", "2")
    assert first != drawn("--seed", "2", "--samples", "3")
    own = drawn()
    assert (
        own == drawn("--seed", "5") == drawn("--top_k", "4") != drawn("--top_k", "200")
    )  # else as the checkpoint says
    assert drawn("--temperature", "0")[0] == drawn("--temperature", "0")[1] and own[0] != own[1]


def test_a_killed_job_keeps_what_it_has(command, here, monkeypatch):
    Path("p.txt").write_text("To be\n" * 3)
    generate, calls = CausalLM.generate, []

    def killed(self, *args, **kwargs):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return generate(self, *args, **kwargs)

    monkeypatch.setattr(CausalLM, "generate", killed)
    assert command("generate", "run", "--file", "p.txt", "--out", "o.jsonl", "--batch_size", "1").code == 130
    assert [row["text"] for row in objects(Path("o.jsonl").read_text())] == [TEXT[5:]] * 2


def test_beams_tell_their_scores(command, here):
    (row,) = objects(command("generate", "run", "--prompt", "To be, or", "--width", "2", "--out", "-").out)
    assert row["text"] == TEXT[9:] and -0.2 < row["score"] < 0


def test_how_likely_a_continuation_is(command, here):
    flags = ("--continuation", ", or not", "--continuation", " xyz")
    answer = command("generate", "run", "--prompt", "To be", *flags, "--out", "-")
    likely, unlikely = objects(answer.out)
    task = CausalLM.load_from_checkpoint("text.ckpt", weights_only=True, map_location="cpu").eval()
    with torch.no_grad():
        chances = task.head(task(task.tokenizer(["To be, or not"]))).log_softmax(-1)[0]
    ids = task.tokenizer.prompt("To be, or not")
    expected = sum(float(chances[i - 1, ids[i]]) for i in range(5, len(ids)))
    assert likely["log_probability"] == pytest.approx(expected, abs=1e-4) and likely["tokens"] == 8
    assert unlikely["log_probability"] < likely["log_probability"] - 5
    shown = command("generate", "run", "--prompt", "To be", *flags).out.splitlines()
    assert shown[0] == f"{likely['log_probability']:9.3f}      8 tokens  , or not" and len(shown) == 2


# ---- other modalities


def test_texts_from_other_texts_images_and_sound(command, here):
    once = command("generate", "--ckpt_path", "translate.ckpt", "--prompt", "one")
    assert once.code == 0 and "6 tokens" in once.err
    twice = command("generate", "--ckpt_path", "translate.ckpt", "--prompt", "one", "--prompt", "two")
    assert twice.out.startswith(f"one -> {once.out}") and "two -> " in twice.out
    images = objects(
        command("generate", "--ckpt_path", "caption.ckpt", "--image", "grey.png", "ramp.png", "--out", "-").out
    )
    assert [row["file"] for row in images] == ["grey.png", "ramp.png"] and images[0]["tokens"] == 6
    sounds = objects(
        command("generate", "--ckpt_path", "speech.ckpt", "--audio", "high.wav", "low.wav", "--out", "-").out
    )
    assert [row["file"] for row in sounds] == ["high.wav", "low.wav"]


def test_how_an_answer_begins(command, here):
    begun = command("generate", "--ckpt_path", "translate.ckpt", "--prompt", "one", "--begin", "x", "--out", "-")
    task = Seq2Seq.load_from_checkpoint("translate.ckpt", weights_only=True, map_location="cpu").eval()
    written = task.generate(["one"], prompt=["x"])
    assert objects(begun.out)[0]["text"] == written.outputs[0] != task.generate(["one"]).outputs[0]
    forced = command("generate", "--ckpt_path", "forced.ckpt", "--prompt", "one", "--out", "-")
    begun = command("generate", "--ckpt_path", "forced.ckpt", "--prompt", "one", "--begin", "<", "--out", "-")
    assert objects(forced.out)[0]["text"].startswith("<") and "<" not in objects(begun.out)[0]["text"]


def test_images_named_in_a_file_stand_beside_it(command, here):
    Path("more").mkdir()
    Image.new("L", (8, 8), 3).save("more/a.png")
    Path("more/list.jsonl").write_text('{"image": "a.png", "label": 1}\n')
    Path("list.txt").write_text("more/a.png\n")
    (row,) = objects(command("generate", "--ckpt_path", "caption.ckpt", "--file", "more/list.jsonl", "--out", "-").out)
    assert row["file"] == "more/a.png" and row["label"] == 1
    (same,) = objects(command("generate", "--ckpt_path", "caption.ckpt", "--file", "list.txt", "--out", "-").out)
    assert same == {key: value for key, value in row.items() if key != "label"}


@pytest.mark.parametrize("given", [None, 4])
def test_images_are_completed(command, here, given):
    flags = [] if given is None else ["--given", str(given)]
    answer = command("generate", "--ckpt_path", "image.ckpt", "--image", "grey.png", "ramp.png", *flags)
    assert answer.code == 0, answer.err
    assert answer.out.split() == [f"generated/{n}.png" for n in ("grey-completed", "ramp-completed", "sheet-001")]
    image = Image.open("generated/grey-completed.png")
    assert image.size == (8, 8) and image.mode == "L"
    rows = 2 * (given or 8) // 4
    (levels,) = pixels(image)
    assert (levels[:rows] == 90).all()
    assert not (levels[rows : rows + 2, :2] == 90).any()  # the first patch that was not given
    assert Image.open("generated/sheet-001.png").size[0] > 300


def test_no_file_is_written_over_or_twice(command, here):
    Path("a").mkdir()
    Image.new("L", (8, 8), 3).save("a/grey.png")
    Path("generated").mkdir()
    Image.new("L", (8, 8), 3).save("generated/grey-completed.png")
    images = ["grey.png", "a/grey.png", "generated/grey-completed.png"]
    before = Path("generated/grey-completed.png").read_bytes()
    answer = command("generate", "--ckpt_path", "image.ckpt", "--image", *images, "--batch_size", "2")
    names = ["grey-completed-2", "grey-completed-3", "sheet-001", "grey-completed-completed", "sheet-002"]
    assert answer.out.split() == [f"generated/{name}.png" for name in names]
    assert Path("generated/grey-completed.png").read_bytes() == before


def test_sound_is_gone_on_from(command, here):
    answer = command("generate", "--ckpt_path", "sound.ckpt", "--audio", "high.wav", "low.wav", "--out", "sounds")
    assert answer.code == 0, answer.err
    assert answer.out.split() == ["sounds/high-completed.wav", "sounds/low-completed.wav", "sounds/sheet-001.png"]
    for name in ("high", "low"):
        given, made = read_audio(Path(f"{name}.wav")), read_audio(Path(f"sounds/{name}-completed.wav"))
        assert made.rate == 8000 and abs(len(made.samples) - len(given.samples)) <= 240
    longer = command("generate", "--ckpt_path", "sound.ckpt", "--audio", "low.wav", "--length", "30", "--given", "10")
    assert longer.err.startswith("30 tokens")
    assert abs(len(read_audio(Path("generated/low-completed.wav")).samples) - 40 * 160) <= 240


def test_images_and_sound_are_written_from_text(command, here):
    answer = command("generate", "--ckpt_path", "draw.ckpt", "--prompt", "one", "--prompt", "two")
    assert answer.out.split() == [f"generated/{n}.png" for n in ("written-001", "written-002", "sheet-001")]
    assert Image.open("generated/written-002.png").size == (8, 8)
    answer = command("generate", "--ckpt_path", "speak.ckpt", "--prompt", "one", "--out", "spoken")
    assert answer.out.split() == ["spoken/written-001.wav", "spoken/sheet-001.png"]
    assert abs(len(read_audio(Path("spoken/written-001.wav")).samples) - 20 * 80) <= 240


def test_one_of_several_tasks(command, here):
    assert (
        command("generate", "--ckpt_path", "several.ckpt", "--task", "text", "--prompt", "a", "--length", "3").code == 0
    )
    answer = command("generate", "--ckpt_path", "several.ckpt", "--task", "image", "--image", "grey.png")
    assert answer.out.split()[0] == "generated/grey-completed.png"


# ---- mistakes


NO_TEXT = "there is no tokenizer.json beside this model, so it reads token ids, such as '15 27', and not 'one two'"
USAGE = {  # a command line -> what must be said of it, without a look at the checkpoint
    "--prompt a": "give one of the folder of a run, --ckpt_path and --from; here are none",
    "run --from published --prompt a": (
        "give one of the folder of a run, --ckpt_path and --from; here are the run and --from"
    ),
    "run": "give one of --prompt, --file (- is the standard input), --image and --audio; here are none",
    "run --prompt a --file -": (
        "give one of --prompt, --file (- is the standard input), --image and --audio; here are --prompt and --file"
    ),
    "run --prompt a --width 4 --temperature 0.8": (
        "--width searches for the likeliest text, and --temperature draws by chance; give one of them"
    ),
    "run --prompt a --length_penalty 2": "--length_penalty compares beams; give --width, how many, as well",
    "run --prompt a --temperature 0 --top_p 0.9": (
        "--temperature=0 takes the likeliest token, so --top_p has no say; leave one of them out"
    ),
    "run --prompt a --temperature -1": (
        "--temperature=-1.0 is below 0, where the likeliest token is taken; 1 changes no chances"
    ),
    "run --prompt a --draft run --lookup": "--draft and --lookup both propose tokens; give one of them",
    "run --prompt a --lookup --width 2": (
        "--lookup helps to decide one token after another, and --width compares whole texts; give one of them"
    ),
    "run --prompt a --key text": "--key names the prompt in a --file of JSON lines, and there is no --file",
    "run --prompt a --continuation b --length 3": (
        "--continuation writes nothing, so --length has no say; leave one of them out"
    ),
    "run --prompt a --length 0": "--length=0 is too small; 1 is the least",
    "run --prompt a --samples 0": "--samples=0 is too small; 1 is the least",
    "run --prompt a --precision int9": "there is no 'int9'; did you mean 'int8'?",
    "run --prompt a --temprature 1": "there is no argument '--temprature'; did you mean '--temperature'?",
    "run --prompt a --length x": "argument --length: invalid int value: 'x'",
}


@pytest.mark.parametrize("words", USAGE)
def test_a_senseless_command_line_is_told_in_a_line(command, here, words):
    assert told(command("generate", *words.split()), 2) == USAGE[words]


MISTAKES = {  # a command line -> what must be said of it
    "rum --prompt a": "there is no run 'rum'; did you mean 'run'?",
    "more --prompt a": "there is no run 'more'",
    "published --prompt a": "published is a published checkpoint and no run; give it as --from published",
    "text.ckpt --prompt a": "text.ckpt is a checkpoint and no run; give it as --ckpt_path text.ckpt",
    "empty --prompt a": "the run empty has no checkpoint yet",
    "folder --prompt a": "folder is no run: it has no config.yaml",
    "--ckpt_path none.ckpt --prompt a": "no file none.ckpt",
    "--ckpt_path cut.ckpt --prompt a": "cut.ckpt is no checkpoint, or was cut off",
    "--from folder --prompt a": "folder has no config.json",
    "--from run --prompt a": "run is a run and no published checkpoint; give it without --from",
    "--ckpt_path masked.ckpt --prompt a": (
        "masked.ckpt: MaskedLM fills masks and writes nothing; generate needs a CausalLM or Seq2Seq"
    ),
    "--ckpt_path classes.ckpt --image grey.png": (
        "classes.ckpt: Classify names classes and writes nothing; generate needs a CausalLM or Seq2Seq"
    ),
    "--ckpt_path several.ckpt --prompt a": "several.ckpt has several tasks; --task picks one: text, image",
    "--ckpt_path several.ckpt --task txt --prompt a": "several.ckpt has no task 'txt'; did you mean 'text'?",
    "run --task text --prompt a": "run has one task, CausalLM; leave out --task text",
    "run --image grey.png": "--image: this CausalLM reads text and no images; give --prompt or --file",
    "--ckpt_path image.ckpt --prompt a": "--prompt: this CausalLM reads images and no text; give --image or --file",
    "--ckpt_path speech.ckpt --image grey.png": (
        "--image: this Seq2Seq reads sound and no images; give --audio or --file"
    ),
    "run --prompt=": "the prompt is empty; give at least one token to go on from",
    "run --file blank.txt": "blank.txt has no prompts",
    "run --file none.txt": "no file none.txt",
    "run --file latin.txt": "latin.txt, line 1: not UTF-8 text at byte 1 of the line: convert the file to UTF-8",
    "run --file other.jsonl": "other.jsonl:2: no key 'prompt'; it has 'text', 'id'; --key says which is the prompt",
    "run --file other.jsonl --key id": "other.jsonl:2: 'id' is 3 and no text",
    "run --file broken.jsonl": "broken.jsonl:1: not JSON (Expecting ',' delimiter: line 1 column 16 (char 15))",
    "run --file list.jsonl": "list.jsonl:1: '[1, 2]' is not an object {...}",
    "run --file other.jsonl --key text --out o.jsonl": (
        "other.jsonl:3: 'tokens' is a name that the output itself uses; rename the key"
    ),
    "run --file mixed.jsonl --out -": "mixed.jsonl:3: the prompt is empty; give at least one token to go on from",
    "run --file long.jsonl": (
        "long.jsonl:2: the prompt has 200 tokens, and the model positions for 96; give a shorter one"
    ),
    "run --prompt a --out no/where.jsonl": "--out=no/where.jsonl: there is no folder no",
    "run --file blank.txt --out blank.txt": "--out=blank.txt would be written over the prompts; give another name",
    "run --prompt a --samples 3": "--samples=3: Greedy gives the same text each time; draw with --temperature=1",
    "run --prompt a --top_p 2": "top_p=2.0 is no share of the probability; give a number from 0 to 1",
    "run --prompt a --width 0": "width=0 is no number of beams; 4 is usual, and 1 is Greedy",
    "run --prompt a --repetition_penalty 0": "penalty=0.0 is not above 0; 1.2 is usual, and 1.0 changes nothing",
    "run --prompt a --stops=": "one of the stop strings is empty, and would stop every text; leave it out",
    "run --prompt a --begin b": "--begin: a CausalLM goes on from its prompt, which is how it begins",
    "run --prompt a --given 3": "--given says how much of an image or a sound is gone on from, and here none is",
    "run --prompt a --draft words.ckpt": (
        "--draft=words.ckpt has another vocabulary; give one that was trained with the model's tokenizer"
    ),
    "run --prompt a --draft masked.ckpt": (
        "masked.ckpt: MaskedLM fills masks and writes nothing; generate needs a CausalLM or Seq2Seq"
    ),
    "--ckpt_path words.ckpt --prompt question": (
        "the tokenizer cannot read 'question' (WordLevel error: Missing [UNK] token from the vocabulary)"
    ),
    "--ckpt_path words.ckpt --prompt to --continuation x": (
        "the tokenizer cannot read 'tox' (WordLevel error: Missing [UNK] token from the vocabulary)"
    ),
    "--from ids --prompt=3,77": NO_TEXT.replace("one two", "3,77"),
    "--from ids --prompt 77": "there is no token 77: the vocabulary has the ids 0 to 19",
    "--ckpt_path image.ckpt --image none.png": "no file none.png",
    "--ckpt_path image.ckpt --image cut.ckpt": (
        "cut.ckpt: not a whole image that can be read (cannot identify image file 'cut.ckpt'): replace or remove it"
    ),
    "--ckpt_path image.ckpt --image grey.png --given 16": (
        "grey.png: --given=16 of its 16 tokens, and one at least is to be written; give 15 at most"
    ),
    "--ckpt_path image.ckpt --image grey.png --length 3": "--length=3: an image is written to its end; leave it out",
    "--ckpt_path image.ckpt --image grey.png --top_k 3": "--top_k is about text, and this CausalLM writes patches",
    "--ckpt_path image.ckpt --image grey.png --out -": "--out=-: patches are written to files; give a folder",
    "--ckpt_path sound.ckpt --audio half.wav": "half.wav: holds 1000 of the 3200 samples that its header promises",
    "--ckpt_path sound.ckpt --audio low.wav --given 99": "low.wav: --given=99 of its 16 tokens; give 16 at most",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_in_a_line(command, here, words):
    for folder in ("empty", "folder"):
        Path(folder).mkdir()
    Path("empty/config.yaml").write_text("")
    Path("blank.txt").write_text("\n \n")
    Path("latin.txt").write_bytes(b"h\xe9")
    Path("broken.jsonl").write_text('{"prompt": "a" "b"}\n')
    Path("list.jsonl").write_text("[1, 2]\n")
    Path("other.jsonl").write_text('\n{"text": "a", "id": 3}\n{"text": "b", "id": 3, "tokens": 2}\n')
    Path("mixed.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": ""}\n')
    Path("long.jsonl").write_text('{"prompt": "a"}\n' + json.dumps({"prompt": "a" * 200}) + "\n")
    Path("half.wav").write_bytes(Path("high.wav").read_bytes()[:2044])
    assert told(command("generate", *words.split()), 1) == MISTAKES[words]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_where_there_is_none(command, here):
    said = "--device=cuda: no GPU is available here; --device=auto takes what there is"
    assert told(command("generate", "run", "--prompt", "a", "--device", "cuda"), 1) == said


def test_help_imports_no_torch():
    code = "import sys; from zoo.__main__ import main; main(['generate', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "lightning", "numpy"} & set(done.stdout.splitlines()[-1].split())
