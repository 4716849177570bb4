"""Who writes, and how: the task of a checkpoint, ready for inference, with the search that the flags ask for."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import zoo
from zoo.cli import allow, convert
from zoo.cli.arguments import near
from zoo.cli.errors import UserError
from zoo.cli.generate.flags import SAMPLING, said
from zoo.generation import Beam, Draft, Drafter, Generation, Greedy, Lookup, Sample, Search, Speculative
from zoo.generation.rules import RepetitionPenalty, Rule
from zoo.generation.settings import after_beginning
from zoo.precision import Precision, for_inference
from zoo.tasks import Classify, Contrastive, MaskedLM, Multimodal
from zoo.tasks.writing import WritingTask
from zoo.tokenizers import Patches, TextTokenizer

ENCODERS = {MaskedLM: "fills masks", Classify: "names classes", Contrastive: "compares pairs"}
READ = {"text": ("prompt", "text"), "image": ("image", "images"), "audio": ("audio", "sound")}  # modality -> its flag
CHOICES = (*SAMPLING, "samples", "width", "repetition_penalty", "stops", "begin", "draft", "lookup", "continuation")


def writer(options: argparse.Namespace) -> WritingTask:
    """The task that the flags name, on their device and in their precision, which writes as they say.  Raises
    UserError."""
    allow.begin(options.allow)
    source = options.run or options.ckpt_path or options.published
    task = writing(read(options), source, options.task)
    require_fitting(task, options)
    device = chosen(options.device)
    task.generation = settings(task, options)
    if options.draft is not None:
        draft = ready(drafting(task, options.draft), device, options.precision)
        task.generation.search = proposed(Draft(draft), task.generation.search, "draft")
    if options.lookup:
        task.generation.search = proposed(Lookup(), task.generation.search, "lookup")
    return ready(task, device, options.precision)


def read(options: argparse.Namespace) -> nn.Module:
    """What a run, a checkpoint of one or a published one holds; one of them is given."""
    if options.published is not None:
        return zoo.load(options.published)
    return convert.read(options.run) if options.run is not None else convert.from_checkpoint(Path(options.ckpt_path))


def writing(task: nn.Module, source: str, name: str | None) -> WritingTask:
    """The task itself, or the one of this name in it.  Raises UserError for one that writes nothing."""
    if isinstance(task, Multimodal):
        known = list(task.tasks)
        if name not in known:
            problem = f"{source} has several tasks" if name is None else f"{source} has no task '{name}'"
            raise UserError(problem + near(str(name), known, f"; --task picks one: {', '.join(known)}"))
        task = task.tasks[name]
    elif name is not None:
        raise UserError(f"{source} has one task, {type(task).__name__}; leave out --task {name}")
    if not isinstance(task, WritingTask):
        does = next((words for kind, words in ENCODERS.items() if isinstance(task, kind)), "reads")
        kind = type(task).__name__
        raise UserError(f"{source}: {kind} {does} and writes nothing; generate needs a CausalLM or Seq2Seq")
    return task


def require_fitting(task: WritingTask, options: argparse.Namespace) -> None:
    """Raise UserError for flags that mean nothing to this task."""
    kind, pen = type(task).__name__, task.pen
    given = said(options)
    modality = task.tokenizer.modality
    flag, reads = READ[modality]
    for name, what in (pair for pair in READ.values() if pair[0] in given and pair[0] != flag):
        raise UserError(f"--{name}: this {kind} reads {reads} and no {what}; give --{flag} or --file")
    if options.begin is not None and task.target_tokenizer is None:
        raise UserError(f"--begin: a {kind} goes on from its prompt, which is how it begins")
    if options.given is not None and (modality == "text" or task.target_tokenizer is not None):
        raise UserError("--given says how much of an image or a sound is gone on from, and here none is")
    if isinstance(pen, TextTokenizer):
        return
    for name in (name for name in CHOICES if name in given):
        raise UserError(f"--{name} is about text, and this {kind} writes {pen.unit}")
    if isinstance(pen, Patches) and options.length is not None:
        raise UserError(f"--length={options.length}: an image is written to its end; leave it out")


def chosen(device: str) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device=cuda: no GPU is available here; --device=auto takes what there is")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def ready(task: WritingTask, device: torch.device, precision: Precision) -> WritingTask:
    for_inference(task.to(device), precision)
    return task


def drafting(task: WritingTask, source: str) -> WritingTask:
    """The draft that is meant.  Raises UserError for one that does not fit the task."""
    draft = writing(convert.read(source), source, None)
    if isinstance(task.pen, TextTokenizer) and not task.pen.agrees(draft.pen):
        raise UserError(
            f"--draft={source} has another vocabulary; give one that was trained with the model's tokenizer"
        )
    if draft.target_tokenizer is not None and draft.tokenizer != task.tokenizer:
        raise UserError(
            f"--draft={source} writes from a source, and reads others than the model; give one that reads the same"
        )
    return draft


# ---- how


def settings(task: WritingTask, options: argparse.Namespace) -> Generation:
    """The task's own, with what the flags change.  Raises UserError."""
    how = copy.copy(task.generation)
    how.search = chosen_search(options, how.search)
    if options.length is not None:
        how.length = options.length
    if options.stops is not None:
        how.stops = tuple(options.stops)
    if options.repetition_penalty is not None:
        how.rules = (*without(how.rules, RepetitionPenalty), RepetitionPenalty(options.repetition_penalty))
    if options.begin is not None:
        how.begin = tuple(task.pen.plain(options.begin).tolist())
        if not how.begin:
            raise UserError("--begin is empty; leave it out")
        how.rules = after_beginning(how.rules)
    return how


def without(rules: Sequence[Rule], kind: type[Rule]) -> list[Rule]:
    return [rule for rule in rules if not isinstance(rule, kind)]


def chosen_search(options: argparse.Namespace, own: Search) -> Search:
    """What the flags ask for, or the task's own, of whose draws they change only what they name.  Raises UserError
    where several answers would be the same."""
    drawing, search = {name: value for name in SAMPLING if (value := getattr(options, name)) is not None}, own
    if options.width is not None:
        penalty = {} if options.length_penalty is None else {"length_penalty": options.length_penalty}
        search = Beam(options.width, **penalty)
    elif options.temperature == 0:
        search = Greedy()
    elif drawing:
        before = {name: getattr(own, name) for name in SAMPLING} if isinstance(own, Sample) else {}
        search = Sample(**{**before, **drawing})
    if (options.samples or 1) > 1 and not isinstance(search, Sample):
        same = type(search).__name__
        raise UserError(f"--samples={options.samples}: {same} gives the same text each time; draw with --temperature=1")
    return search


def proposed(drafter: Drafter, search: Search, flag: str) -> Speculative:
    if not isinstance(search, (Greedy, Sample)):
        kind = type(search).__name__
        raise UserError(
            f"--{flag} speeds up Greedy and Sample, and the checkpoint's own search is {kind}; give --temperature=0"
        )
    return Speculative(drafter, search)
