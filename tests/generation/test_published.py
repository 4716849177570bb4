"""Published generation settings in our words and back, as the reference reads them."""

import logging
from types import SimpleNamespace

import pytest
import torch
import transformers as hf

from zoo.described import describe
from zoo.generation.publish import write
from zoo.generation.published import Wishes, read
from zoo.generation.rules import (
    Force,
    ForceLast,
    MinLength,
    MinTotal,
    NoRepeat,
    OneOf,
    Renormalise,
    RepetitionPenalty,
    Suppress,
    SuppressFirst,
)

GPT2 = {"_from_model_config": True, "bos_token_id": 50256, "eos_token_id": 50256, "transformers_version": "4.26.0.dev0"}
LLAMA = {"bos_token_id": 128000, "do_sample": True, "eos_token_id": [128001, 128008, 128009]}
LLAMA |= {"temperature": 0.6, "top_p": 0.9, "transformers_version": "4.42.3"}
BART = {"model_type": "bart", "is_encoder_decoder": True, "d_model": 1024, "bos_token_id": 0, "eos_token_id": 2}
BART |= {"decoder_start_token_id": 2, "early_stopping": True, "forced_bos_token_id": 0, "forced_eos_token_id": 2}
BART |= {"length_penalty": 2.0, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3, "num_beams": 4}
BART |= {"pad_token_id": 1, "prefix": " ", "task_specific_params": {"summarization": {"num_beams": 8}}, "dropout": 0.1}
MARIAN = {"bad_words_ids": [[58100]], "bos_token_id": 0, "decoder_start_token_id": 58100, "eos_token_id": 0}
MARIAN |= {
    "forced_eos_token_id": 0,
    "max_length": 512,
    "num_beams": 6,
    "pad_token_id": 58100,
    "renormalize_logits": True,
}
T5 = {"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
LANGUAGES = {"<|en|>": 50259, "<|zh|>": 50260, "<|de|>": 50261}
WHISPER = {"decoder_start_token_id": 50258, "eos_token_id": 50257, "begin_suppress_tokens": [220, 50257]}
WHISPER |= {"forced_decoder_ids": [[1, 50259], [2, 50359], [3, 50363]], "suppress_tokens": [1, 2, 7], "max_length": 448}
WHISPER |= {"lang_to_id": LANGUAGES, "task_to_id": {"transcribe": 50359, "translate": 50358}, "is_multilingual": True}
WHISPER |= {"no_timestamps_token_id": 50363, "alignment_heads": [[2, 2]], "max_initial_timestamp_index": 50}
WHISPER |= {"return_timestamps": False, "prev_sot_token_id": 50361, "pad_token_id": 50257, "bos_token_id": 50257}
HEARS = [OneOf([50259, 50260, 50261]), Force(50359, 1), Force(50363, 2)]
NEVER, FIRST = Suppress([1, 2, 7]), [220, 50257]
BEAMS = {"width": 4, "length_penalty": 2.0, "early_stopping": True}
SIX = {"width": 6, "length_penalty": 1.0, "early_stopping": False}
SOME = {"temperature": 0.6, "top_k": 50, "top_p": 0.9, "min_p": None}
SPEAKS = {"length": 448, "ends": (50257,), "start": 50258, "languages": LANGUAGES}

CASES = {  # config.json, generation_config.json, what they mean
    "gpt2": ({"eos_token_id": 50256}, GPT2, Wishes(ends=(50256,))),
    "llama": ({}, LLAMA, Wishes(search="Sample", arguments=SOME, ends=(128001, 128008, 128009))),
    "bart-large-cnn": (
        BART,
        None,
        Wishes(
            total=142, search="Beam", arguments=BEAMS, ends=(2,), last=(2,), start=2,
            rules=(NoRepeat(3), MinTotal(56, [2]), Force(0)),
        ),
    ),
    "opus-mt": (
        {"is_encoder_decoder": True},
        MARIAN,
        Wishes(
            total=512, search="Beam", arguments=SIX, ends=(0,), last=(0,), start=58100,
            rules=(Suppress([58100]), Renormalise()),
        ),
    ),
    "t5-small": ({"is_encoder_decoder": True}, T5, Wishes(ends=(1,), start=0)),
    "whisper in English": (
        {"is_encoder_decoder": True},
        WHISPER,
        Wishes(**SPEAKS, rules=(NEVER, SuppressFirst(FIRST)), begin=(50259, 50359, 50363)),
    ),
    "whisper that hears the language": (
        {"is_encoder_decoder": True, "forced_decoder_ids": [[1, 50259], [2, 50359], [3, 50363]]},
        WHISPER | {"forced_decoder_ids": [[1, None], [2, 50359]]},
        Wishes(**SPEAKS, rules=(*HEARS, NEVER, SuppressFirst(FIRST, 3))),
    ),
    "everything else": (
        {},
        {
            "max_new_tokens": 7, "max_length": 20, "min_new_tokens": 3, "do_sample": True, "top_k": 0, "min_p": 0.1,
            "eos_token_id": 5, "repetition_penalty": 1.2, "stop_strings": "\n\n", "typical_p": 1.0, "num_beams": 1,
        },
        Wishes(
            length=7, search="Sample", arguments={"temperature": 1.0, "top_k": None, "top_p": None, "min_p": 0.1},
            ends=(5,), rules=(RepetitionPenalty(1.2), MinLength(3, [5])), stops=("\n\n",),
        ),
    ),
}  # fmt: skip


def plain(wishes: Wishes) -> dict:
    return describe(wishes)["init_args"]


@pytest.mark.parametrize(("config", "generation", "wanted"), CASES.values(), ids=CASES)
def test_published_settings(config, generation, wanted, caplog):
    with caplog.at_level(logging.WARNING):
        assert plain(read(config, generation)) == plain(wanted)
    assert not caplog.messages


@pytest.mark.parametrize(("config", "generation", "wishes"), CASES.values(), ids=CASES)
def test_what_is_written_is_read_by_the_reference_and_again(config, generation, wishes, tmp_path):
    theirs = hf.GenerationConfig(**write(wishes))
    theirs.save_pretrained(tmp_path)
    again = hf.GenerationConfig.from_pretrained(tmp_path).to_dict()
    assert plain(read(config, again)) == plain(wishes)
    original = hf.GenerationConfig(**generation) if generation else hf.GenerationConfig.from_model_config(dict(config))
    usual = hf.GenerationConfig._get_default_generation_params()
    for key in SAID:
        before, after = (values.get(key) for values in (original.to_dict(), again))
        assert (usual.get(key) if before is None else before) == (usual.get(key) if after is None else after), key


SAID = [  # in the same words
    "do_sample", "num_beams", "temperature", "top_k", "top_p", "min_p", "length_penalty", "early_stopping",
    "no_repeat_ngram_size", "max_new_tokens", "repetition_penalty", "min_new_tokens", "min_length",
    "forced_bos_token_id", "forced_eos_token_id", "eos_token_id", "lang_to_id", "decoder_start_token_id",
    "begin_suppress_tokens", "renormalize_logits",
]  # fmt: skip


def test_the_usual_search_of_the_reference(tmp_path):
    """What a file leaves open is what the reference would do."""
    usual = hf.GenerationConfig._get_default_generation_params()
    assert read({}, {"do_sample": True}).arguments["top_k"] == usual["top_k"] == 50
    assert (read({}, {}).search == "Greedy") is not usual["do_sample"]
    assert read({}, {"num_beams": 2}).arguments == {
        "width": 2,
        "length_penalty": usual["length_penalty"],
        "early_stopping": usual["early_stopping"],
    }


def test_older_files_speak_in_config_json_and_in_its_decoder():
    config = {"eos_token_id": None, "max_length": 30, "decoder": {"eos_token_id": 4, "max_length": 20, "num_beams": 3}}
    wishes, theirs = read(config), hf.GenerationConfig.from_model_config(dict(config))
    assert wishes.ends == (theirs.eos_token_id,) == (4,)
    assert wishes.total == theirs.max_length == 30 and wishes.arguments["width"] == theirs.num_beams == 3
    assert read({"eos_token_id": 9}, {"max_length": 3}).ends == (9,)  # the file forgets how a text ends


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"language": "de", "task": "translate"}, (50261, 50358, 50363)),
        ({"language": "<|DE|>"}, (50261, 50359, 50363)),
        ({"forced_decoder_ids": [[1, 50259]]}, (50259, 50363)),
        ({"forced_decoder_ids": None, "lang_to_id": None}, (50363,)),
        ({"forced_decoder_ids": [[1, None], [2, 50358]], "lang_to_id": None}, (50358, 50363)),
        ({"forced_decoder_ids": [[1, 50362]], "no_timestamps_token_id": 50362}, (50362,)),
    ],
)
def test_what_whisper_reads_first(change, wanted):
    wishes = read({}, WHISPER | change)
    assert wishes.begin == wanted == whisper(WHISPER | change)[1:] and len(wishes.rules) == 2


def whisper(values: dict) -> tuple[int, ...]:
    """What the reference's decoder reads first, where every recording is Chinese."""
    model = SimpleNamespace(device="cpu", detect_language=lambda **_: torch.tensor([LANGUAGES["<|zh|>"]]))
    values = {key: value for key, value in values.items() if value is not None}
    arguments = (None, 1, hf.GenerationConfig(**values), SimpleNamespace(forced_decoder_ids=None), 3000, {})
    return tuple(hf.WhisperForConditionalGeneration._retrieve_init_tokens(model, *arguments)[0].tolist())


@pytest.mark.parametrize("change", [{"forced_decoder_ids": None}, {"task": "transcribe"}])
def test_whisper_hears_the_language_where_none_is_given(change):
    wishes = read({}, WHISPER | change)
    assert wishes.begin == () and isinstance(wishes.rules[0], OneOf)
    forced = [rule.tokens[0] for rule in wishes.rules if isinstance(rule, Force)]
    assert forced == ([50359, 50363] if "task" in change else [50363])
    assert [LANGUAGES["<|zh|>"], *forced] == list(whisper(WHISPER | change)[1:])


def test_what_is_not_followed_is_told_once(caplog):
    settings = {"typical_p": 0.9, "num_beams": 3, "do_sample": True, "bad_words_ids": [[4], [5, 6]], "new_setting": 3}
    settings |= {"encoder_no_repeat_ngram_size": 4, "use_cache": False, "epsilon_cutoff": 0.0, "max_time": None}
    with caplog.at_level(logging.WARNING):
        wishes = read({}, settings)
    assert len(caplog.messages) == 1
    told = "do_sample=True, bad_words_ids=[[4], [5, 6]], typical_p=0.9, new_setting=3, encoder_no_repeat_ngram_size=4"
    assert caplog.messages[0] == f"{told}: not supported here, so the model writes without"
    assert wishes.search == "Beam" and plain(wishes)["rules"] == [describe(Suppress([4]))]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read({"hidden_size": 3, "typical_p": 0.5})
        read({}, WHISPER | {"language": "klingon"})
    assert [message.split(":")[0] for message in caplog.messages] == ["typical_p=0.5", "language='klingon'"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 is below 1"),
        ({"max_length": "many"}, "max_length='many' is not a whole number"),
        ({"do_sample": "yes"}, "do_sample='yes' is not true or false"),
        ({"do_sample": True, "temperature": 0.0}, "temperature=0.0 is not above 0"),
        ({"do_sample": True, "top_p": 1.5}, "top_p=1.5"),
        ({"do_sample": True, "min_p": [1]}, r"min_p=\[1\] is not a number"),
        ({"num_beams": 0}, "num_beams=0 is below 1"),
        ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping='soon' is neither"),
        ({"repetition_penalty": -1.0}, "repetition_penalty=-1.0 is not above 0"),
        ({"no_repeat_ngram_size": 1.5}, "no_repeat_ngram_size=1.5"),
        ({"eos_token_id": ["</s>"]}, r"eos_token_id=\['</s>'\] is neither a token id nor a list"),
        ({"bad_words_ids": [4]}, r"bad_words_ids=\[4\] is not a list of lists"),
        ({"stop_strings": ["a", ""]}, "stop_strings="),
        ({"forced_bos_token_id": "a"}, "forced_bos_token_id='a'"),
        ({"forced_decoder_ids": [[2, 4]]}, r"forced_decoder_ids=\[\[2, 4\]\] is not a list of"),
        ({"forced_decoder_ids": [[1, 4], [2, None]]}, "has something else than token ids"),
        ({"forced_decoder_ids": 4}, "forced_decoder_ids=4"),
        ({"lang_to_id": {"<|en|>": "a"}}, "lang_to_id="),
        (WHISPER | {"task": "sing"}, "task='sing' is not in task_to_id, which has transcribe, translate"),
    ],
)
def test_damaged_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        read({}, values)


def test_the_end_of_a_text_is_never_a_bad_word():
    rules = read({}, {"bad_words_ids": [[4], [2]], "suppress_tokens": [4, 9], "eos_token_id": 2}).rules
    assert [describe(rule) for rule in rules] == [describe(Suppress([4, 9]))]


def test_a_last_token_that_is_forced():
    assert write(Wishes(length=5, rules=(ForceLast(5, [3]),)))["forced_eos_token_id"] == 3


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (Wishes(rules=(Suppress([1]), Suppress([2]))), "has room for one Suppress"),
        (Wishes(rules=(MinLength(3, [4]),), ends=(5,)), "no words for this MinLength"),
        (Wishes(rules=(SuppressFirst([4], after=2),)), "no words for this SuppressFirst"),
        (Wishes(length=5, rules=(ForceLast(6, [4]),)), "no words for this ForceLast"),
        (Wishes(rules=(Force(4, step=2),)), "no words for these Force"),
        (Wishes(rules=(OneOf([4, 5]),)), "no words for these OneOf"),
        (Wishes(search="Own"), "no word for the search Own"),
    ],
)
def test_what_has_no_words_is_told(wishes, message):
    with pytest.raises(ValueError, match=message):
        write(wishes)
