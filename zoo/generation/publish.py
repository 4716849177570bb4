"""A generation_config.json for wishes, as other libraries read it: the inverse of ``published.read``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zoo.generation.published import Wishes
from zoo.generation.rules import (
    Force,
    ForceLast,
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
from zoo.settings import Config

WORDS: dict[type[Rule], Callable[[Any], Config]] = {
    RepetitionPenalty: lambda rule: {"repetition_penalty": float(rule.penalty)},
    NoRepeat: lambda rule: {"no_repeat_ngram_size": rule.size},
    MinLength: lambda rule: {"min_new_tokens": rule.length},
    MinTotal: lambda rule: {"min_length": rule.length},
    Suppress: lambda rule: {"suppress_tokens": list(rule.tokens)},
    SuppressFirst: lambda rule: {"begin_suppress_tokens": list(rule.tokens)},
    ForceLast: lambda rule: {"forced_eos_token_id": single(rule.tokens)},
    Renormalise: lambda rule: {"renormalize_logits": True},
}


def write(wishes: Wishes) -> Config:
    """Raises ValueError for rules that such a file has no words for."""
    forced = [rule for rule in wishes.rules if isinstance(rule, (OneOf, Force))]
    speech = bool(wishes.begin or wishes.languages)
    config: Config = {
        "max_new_tokens": None if speech else wishes.length,
        "max_length": wishes.length if speech else wishes.total,
        **searching(wishes.search, wishes.arguments),
        "eos_token_id": single(wishes.ends),
        "forced_eos_token_id": single(wishes.last),
        "stop_strings": list(wishes.stops) or None,
        "decoder_start_token_id": wishes.start,
        "lang_to_id": dict(wishes.languages) or None,
        **beginning(wishes, forced),
    }
    for rule in wishes.rules:
        if rule in forced:
            continue
        name = type(rule).__name__
        if type(rule) not in WORDS or not sayable(rule, wishes, len(forced)):
            raise ValueError(
                f"generation_config.json has no words for this {name}; leave the rule out to save the model"
            )
        for key, value in WORDS[type(rule)](rule).items():
            if config.get(key) is not None:
                raise ValueError(f"generation_config.json has room for one {name}; give one that says all")
            config[key] = value
    return {key: value for key, value in config.items() if value is not None}


def searching(search: str, arguments: dict[str, Any]) -> Config:
    """Raises ValueError for a search that such a file does not know."""
    if search == "Greedy":
        return {"do_sample": False}
    if search == "Beam":
        rest = {key: arguments[key] for key in ("length_penalty", "early_stopping")}
        return {"do_sample": False, "num_beams": arguments["width"], **rest}
    if search == "Sample":
        top = {key: arguments[key] for key in ("top_p", "min_p")}
        return {"do_sample": True, "temperature": arguments["temperature"], "top_k": arguments["top_k"] or 0, **top}
    raise ValueError(f"generation_config.json has no word for the search {search}; Greedy, Sample and Beam are saved")


def beginning(wishes: Wishes, forced: Sequence[OneOf | Force]) -> Config:
    """What is forced before the model may choose: one token, or what Whisper reads first, its language null where the
    model hears it.  Raises ValueError for anything else."""
    tokens: list[int | None] = list(wishes.begin)
    tokens += [None if isinstance(rule, OneOf) else rule.tokens[0] for rule in forced]
    if len(forced) == 1 and tokens[0] is not None and forced[0].step == 0:
        return {"forced_bos_token_id": tokens[0]}
    hears = not wishes.begin and set(forced[0].tokens) == set(wishes.languages.values()) if forced else True
    if not hears or None in tokens[1:] or any(rule.step != step for step, rule in enumerate(forced)):
        name = type(forced[0]).__name__
        raise ValueError(f"generation_config.json has no words for these {name}; leave the rules out to save the model")
    return {"forced_decoder_ids": [[place, token] for place, token in enumerate(tokens, 1)] or None}


def sayable(rule: Rule, wishes: Wishes, forced: int) -> bool:
    """Does what such a file says about a rule mean the same?"""
    if isinstance(rule, (MinLength, MinTotal)):
        return set(rule.tokens) == set(wishes.ends)
    if isinstance(rule, SuppressFirst):
        return rule.after == forced
    return not isinstance(rule, ForceLast) or rule.length == wishes.length


def single(tokens: Sequence[int]) -> int | list[int] | None:
    """Several ids as a list, one as itself, none as None."""
    return list(tokens) if len(tokens) > 1 else tokens[0] if tokens else None
