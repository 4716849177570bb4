"""How a published model wants to write: generation_config.json in our words."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import torch

from zoo.generation.rules import (
    Force,
    MinLength,
    MinTotal,
    NoRepeat,
    OneOf,
    Renormalise,
    RepetitionPenalty,
    Rule,
    Suppress,
    SuppressFirst,
)
from zoo.generation.warp import warped
from zoo.settings import Config, fits

log = logging.getLogger(__name__)

IGNORED: dict[str, tuple[Any, ...]] = {  # settings that change a text and are not followed -> values that change none
    "constraints": (), "diversity_penalty": (0,), "dola_layers": (), "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,), "epsilon_cutoff": (0,), "eta_cutoff": (0,), "force_words_ids": (),
    "exponential_decay_length_penalty": (), "guidance_scale": (1,), "max_time": (), "num_beam_groups": (1,),
    "num_return_sequences": (1,), "penalty_alpha": (0,), "return_timestamps": (False,), "sequence_bias": (),
    "token_healing": (False,), "top_h": (), "typical_p": (1,), "watermarking_config": (),
}  # fmt: skip
NO_MATTER = {  # what changes no text, or only with other settings that ask for it
    "transformers_version", "_from_model_config", "_commit_hash", "use_cache", "cache_implementation", "cache_config",
    "max_cache_len", "pad_token_id", "bos_token_id", "output_attentions", "output_hidden_states", "output_scores",
    "output_logits", "return_dict_in_generate", "remove_invalid_values", "low_memory", "prefill_chunk_size",
    "compile_config", "disable_compile", "continuous_batching_config", "is_assistant", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "use_mtp", "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_lookbehind", "target_lookbehind", "speculation_type", "assistant_ensemble_weight",
    "prompt_lookup_num_tokens", "max_matching_ngram_size", "alignment_heads", "is_multilingual",
    "max_initial_timestamp_index", "prev_sot_token_id", "median_filter_width", "top_k", "temperature", "top_p", "min_p",
    "length_penalty", "early_stopping", "renormalize_logits", "task_to_id", "forced_bos_token_id", "forced_decoder_ids",
}  # fmt: skip
SPEECH = ("forced_decoder_ids", "lang_to_id", "no_timestamps_token_id")  # what only Whisper's files speak of


@dataclass(frozen=True)
class Wishes:
    """What a file asks for: a ``search`` by the name of its class with its ``arguments``, and ``rules``.

    ``length`` is the most new tokens, ``total`` the most with those that were given; one of them at most is there.
    ``ends`` end a text, one of ``last`` is its last token where it becomes that long (see ``ForceLast``), ``stops`` are
    strings that end it.  A decoder with a source begins with ``start`` and then reads ``begin``.  ``languages`` are the
    ids of Whisper's, by their names.
    """

    length: int | None = None
    total: int | None = None
    search: str = "Greedy"
    arguments: dict[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    ends: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    stops: tuple[str, ...] = ()
    start: int | None = None
    begin: tuple[int, ...] = ()
    languages: dict[str, int] = field(default_factory=dict)


def read(config: Config, generation: Config | None = None) -> Wishes:
    """The wishes of a generation_config.json; without one, those of the same words in a config.json.

    What cannot be followed is told in one warning.  Raises ValueError for a value that none of this can have.
    """
    words = Words(generation or given(config))
    if words.values.get("forced_decoder_ids") is None:
        words.values["forced_decoder_ids"] = config.get("forced_decoder_ids")
    speech = any(words.values.get(key) is not None for key in SPEECH)
    ends = words.tokens("eos_token_id") or Words(config).tokens("eos_token_id")  # without one, no text would end
    begin, forced = spoken(words) if speech else ((), first(words, config))
    search, arguments = searched(words)
    new, total = words.number("max_new_tokens", int, 1), words.number("max_length", int, 1)
    if speech:  # what its decoder reads first does not count
        new, total = new or total, None
    rules = [*repeated(words), *shortest(words, ends), *forced, *forbidden(words, ends, len(forced))]
    if search == "Beam" and words.value("renormalize_logits", bool, "true or false"):  # else it changes no choice
        rules.append(Renormalise())
    wishes = Wishes(
        length=new,
        total=None if new else total,
        search=search,
        arguments=arguments,
        rules=tuple(rules),
        ends=ends,
        last=words.tokens("forced_eos_token_id"),
        stops=words.texts("stop_strings"),
        start=words.number("decoder_start_token_id", int, 0),
        begin=begin,
        languages=words.ids("lang_to_id"),
    )
    words.tell(everything=bool(generation))
    return wishes


def given(config: Config) -> Config:
    """What an older config.json says, also in its part about the decoder."""
    parts = [part for name in ("decoder", "generator", "text_config") if (part := config.get(name))]
    part = parts[0] if parts and isinstance(parts[0], dict) else {}
    return {**part, **{key: value for key, value in config.items() if value is not None}}


class Words:
    """Settings by their names, each read as what it must be; what was asked for is known."""

    def __init__(self, values: Config):
        self.values = dict(values)
        self.known: set[str] = set()
        self.refused: list[str] = []

    def value(self, key: str, kind: Any, what: str) -> Any:
        self.known.add(key)
        value = self.values.get(key)
        if value is not None and not fits(value, kind):
            raise ValueError(f"{key}={value!r} is not {what}")
        return value

    def number(self, key: str, kind: Any, least: int | None = None) -> Any:
        value = self.value(key, kind, "a whole number from 0 on" if kind is int else "a number")
        if value is not None and least is not None and not value >= least:
            raise ValueError(f"{key}={value!r} is below {least}")
        return value

    def tokens(self, key: str) -> tuple[int, ...]:
        """One id or several; negative ones stand for none."""
        self.known.add(key)
        value = self.values.get(key)
        found = [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(token, bool) or not isinstance(token, int) for token in found):
            raise ValueError(f"{key}={value!r} is neither a token id nor a list of them")
        return tuple(token for token in found if token >= 0)

    def texts(self, key: str) -> tuple[str, ...]:
        self.known.add(key)
        value = self.values.get(key)
        found = [] if value is None else value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(text, str) and text for text in found):
            raise ValueError(f"{key}={value!r} is neither a text nor a list of them")
        return tuple(found)

    def ids(self, key: str) -> dict[str, int]:
        """Token ids by names."""
        value = self.value(key, dict, "an object of names and token ids") or {}
        if not all(fits(token, int) for token in value.values()):
            raise ValueError(f"{key}={value!r} is not an object of names and token ids")
        return dict(value)

    def tell(self, everything: bool) -> None:
        """Warn about what changes a text and was not followed, or, if ``everything`` in there should be a setting of
        this kind, is not known."""
        for key, value in self.values.items():
            usual = (None, *IGNORED.get(key, ()))
            strange = everything and key not in IGNORED and key not in self.known and key not in NO_MATTER
            if (strange and value is not None) or (key in IGNORED and value not in usual):
                self.refused.append(key)
        if self.refused:
            listed = ", ".join(f"{key}={self.values[key]!r}" for key in self.refused)
            log.warning("%s: not supported here, so the model writes without", listed[:500])


# ---- the parts of a file


def searched(words: Words) -> tuple[str, dict[str, Any]]:
    """The name of a search, and its arguments where they differ from the usual ones of such files."""
    width = words.number("num_beams", int, 1) or 1
    sample = words.value("do_sample", bool, "true or false")
    if width > 1:
        if sample:
            words.refused.append("do_sample")
        early = words.values.get("early_stopping")
        if early not in (None, True, False, "never"):
            raise ValueError(f"early_stopping={early!r} is neither true, false nor 'never'")
        penalty = words.number("length_penalty", float)
        penalty = 1.0 if penalty is None else float(penalty)
        return "Beam", {"width": width, "length_penalty": penalty, "early_stopping": early or False}
    if not sample:
        return "Greedy", {}
    temperature, top_k = words.number("temperature", float), words.number("top_k", int)
    top_p, min_p = words.number("top_p", float), words.number("min_p", float)
    arguments = {
        "temperature": 1.0 if temperature is None else float(temperature),
        "top_k": 50 if top_k is None else top_k or None,  # these files mean 50 where they say nothing
        "top_p": None if top_p is None or top_p == 1 else float(top_p),
        "min_p": min_p,
    }
    warped(torch.zeros(1, 2), **arguments)  # says what is out of range
    return "Sample", arguments


def repeated(words: Words) -> list[Rule]:
    penalty, size = words.number("repetition_penalty", float), words.number("no_repeat_ngram_size", int)
    if penalty is not None and not penalty > 0:
        raise ValueError(f"repetition_penalty={penalty!r} is not above 0")
    rules: list[Rule] = [] if penalty in (None, 1) else [RepetitionPenalty(float(penalty))]
    return [*rules, NoRepeat(size)] if size else rules


def shortest(words: Words, ends: tuple[int, ...]) -> list[Rule]:
    new, total = words.number("min_new_tokens", int), words.number("min_length", int)
    if not ends or not (new or total):
        return []
    return [MinLength(new, ends)] if new is not None else [MinTotal(total, ends)]


def first(words: Words, config: Config) -> list[Rule]:
    token = words.number("forced_bos_token_id", int)
    return [] if token is None or config.get("is_encoder_decoder") is False else [Force(token)]


def forbidden(words: Words, ends: tuple[int, ...], after: int) -> list[Rule]:
    """Tokens that are never written, and those that are not written after ``after`` forced ones."""
    bad = words.value("bad_words_ids", list[list[int]], "a list of lists of token ids") or []
    if any(len(word) > 1 for word in bad):
        words.refused.append("bad_words_ids")
    never = [word[0] for word in bad if len(word) == 1 and word[0] not in ends]
    never = list(dict.fromkeys([*never, *words.tokens("suppress_tokens")]))
    begin = words.tokens("begin_suppress_tokens")
    return [*([Suppress(never)] if never else []), *([SuppressFirst(begin, after)] if begin else [])]


def spoken(words: Words) -> tuple[tuple[int, ...], list[Rule]]:
    """What Whisper's decoder reads first: language, task, and that no times are written.  Where the language is not
    given, the model hears it, and the same tokens are forced instead."""
    language, task = words.value("language", str, "a text"), words.value("task", str, "a text")
    languages, tasks, silent = words.ids("lang_to_id"), words.ids("task_to_id"), words.number(SPEECH[2], int)
    tokens: list[int | None] = numbered(words) if language is None and task is None else [None]
    if language is not None:
        tokens = [languages.get(language.lower(), languages.get(f"<|{language.lower()}|>"))]
        if tokens == [None]:
            words.refused.append("language")
    if task is not None or (language is not None and tasks):
        name = task or "transcribe"
        if name not in tasks:
            raise ValueError(f"task={name!r} is not in task_to_id, which has {', '.join(tasks) or 'none'}")
        tokens.append(tasks[name])
    if languages and not tokens:
        tokens = [None]
    if silent is not None and tokens[-1:] != [silent]:
        tokens.append(silent)
    if None not in tokens or not languages:
        return tuple(token for token in tokens if token is not None), []
    rest = [Force(token, step) for step, token in enumerate(tokens) if token is not None]
    return (), [OneOf(sorted(languages.values())), *rest]


def numbered(words: Words) -> list[int | None]:
    """The tokens of forced_decoder_ids, [place, token] pairs from 1 on, of which the first may be null."""
    words.known.add(SPEECH[0])
    pairs = words.values.get(SPEECH[0]) or []
    right = isinstance(pairs, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
    )
    if not right or [place for place, _ in pairs] != list(range(1, len(pairs) + 1)):
        raise ValueError(f"{SPEECH[0]}={pairs!r} is not a list of [place, token] with the places 1, 2, ...")
    tokens = [token for _, token in pairs]
    if not all(fits(token, int) or (token is None and place == 0) for place, token in enumerate(tokens)):
        raise ValueError(f"{SPEECH[0]}={pairs!r} has something else than token ids")
    return tokens
