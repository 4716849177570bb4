"""Plans, against published figures, sums by hand, and what torch counts and keeps while the same runs for real."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import zoo
from zoo.planning import DEVICES, Subject, by_part, device, shapes, strategies
from zoo.planning.batch import Shape

DIM, DEPTH, HEADS, WORDS, SAMPLES, TOKENS = 32, 3, 4, 96, 2, 24


def decoder(**changes) -> zoo.CausalLM:
    return zoo.CausalLM(zoo.GPT2(DIM, DEPTH, HEADS, length=TOKENS), zoo.Ids(WORDS, bos=0, eos=1), **changes)


def pairs() -> zoo.Seq2Seq:
    return zoo.Seq2Seq(zoo.T5(DIM, DEPTH, HEADS, head_dim=8, dropout=0.0), zoo.Ids(WORDS, bos=0, eos=1))


TASKS = {
    "causal": decoder,
    "untied": lambda: decoder(tie=False),
    "masked": lambda: zoo.MaskedLM(zoo.BERT(DIM, DEPTH, HEADS, length=TOKENS), zoo.Ids(WORDS, mask=2)),
    "images": lambda: zoo.Classify(zoo.ViT(DIM, DEPTH, HEADS, grid=4, prefix=0), zoo.Patches(32, 8), classes=10),
    "pairs": pairs,
    "contrastive": lambda: zoo.Contrastive(zoo.BERT(DIM, DEPTH, HEADS, length=TOKENS), zoo.Ids(WORDS)),
}


def shape(task: zoo.Task, samples: int = SAMPLES, tokens: int = TOKENS) -> Shape:
    length = task.tokenizer.length or tokens
    return Shape(task, samples, length, length if task.target_tokenizer else None)


def subject(make, **told) -> Subject:
    with torch.device("meta"):
        task = make()
    return Subject(task, {"": shape(task)}, **told)


@pytest.mark.parametrize("name", TASKS)
def test_flops_are_those_that_torch_counts_while_the_step_runs(name):
    plan = subject(TASKS[name])
    found, task = plan.rehearse(), TASKS[name]()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as alone:
        task.step(shape(task).make(), training=True)
    assert plan.forward_flops() == alone.get_total_flops()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward:
        total, weight = task.step(shape(task).make(), training=True)["loss"]
    with FlopCounterMode(display=False) as backward:
        (total / weight).backward()
    assert sum(found.flops.values()) == forward.get_total_flops() + backward.get_total_flops()


def test_flops_of_a_decoder_are_six_a_parameter_and_those_of_attention():
    found = subject(decoder).rehearse()
    matrices = DEPTH * 12 * DIM * DIM
    tokens, predicted = SAMPLES * TOKENS, SAMPLES * (TOKENS - 1)
    assert found.flops["weights"] == 6 * (matrices * tokens + WORDS * DIM * predicted)
    assert found.flops["attention"] == 3 * DEPTH * 2 * 2 * SAMPLES * TOKENS * TOKENS * DIM


@pytest.mark.parametrize("name", TASKS)
def test_what_stays_from_step_to_step_is_what_a_real_one_keeps(name):
    found = subject(TASKS[name]).rehearse()
    task = TASKS[name]()
    weights = sum(weight.nbytes for weight in task.parameters())
    assert found.sizes["weights"] == weights + sum(buffer.nbytes for buffer in task.buffers())
    assert found.sizes["gradients"] == weights
    moments = [value for value in task.parameters() if value.dim()]
    assert found.sizes["optimizer"] >= 2 * sum(value.nbytes for value in moments)  # and a step's number for each
    assert found.sizes["optimizer"] <= 2 * weights + 8 * len(list(task.parameters()))


@pytest.mark.parametrize("name", TASKS)
def test_activations_are_what_autograd_saves(name):
    """The embedding's and the backbone's: all that saved_tensors_hooks sees there, each piece once."""
    found = subject(TASKS[name]).rehearse()
    task = TASKS[name]()
    own = {value.untyped_storage().data_ptr() for value in (*task.parameters(), *task.buffers())}
    batch, saved = shape(task).make(), {}
    for record in (batch, batch.input, batch.target):
        own |= (
            {v.untyped_storage().data_ptr() for v in vars(record).values() if isinstance(v, torch.Tensor)}
            if record
            else set()
        )

    def pack(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        total, weight = task.step(batch, training=True)["loss"]
    assert found.sizes["activations"] + found.sizes["loss"] == pytest.approx(sum(saved.values()), rel=0.05)
    del total, weight


def test_checkpointing_keeps_less_and_computes_more():
    plan = subject(decoder)
    kept, again = plan.rehearse(), plan.rehearse(checkpointing=True)
    assert again.sizes["activations"] < 0.4 * kept.sizes["activations"]
    assert again.peak().total < kept.peak().total
    assert sum(again.flops.values()) > sum(kept.flops.values())
    assert plan.rehearse().peak() == kept.peak()  # nothing is left behind


def test_what_is_computed_again_is_computed_as_on_the_device():
    """With dropout and in bfloat16 a CPU writes attention out and a GPU does not, in both passes."""

    def thinned() -> zoo.CausalLM:
        return zoo.CausalLM(zoo.GPT2(DIM, DEPTH, HEADS, length=TOKENS, dropout=0.1), zoo.Ids(WORDS))

    for precision in ("32-true", "bf16-mixed"):
        here, there = (subject(thinned, precision=precision, gpu=gpu) for gpu in (False, True))
        assert there.rehearse().sizes["activations"] < here.rehearse().sizes["activations"]
        kept = [plan.rehearse(checkpointing=True).sizes["activations"] for plan in (here, there)]
        assert kept[1] == pytest.approx(kept[0], rel=0.05)


def test_lower_precisions_keep_less():
    names = ("32-true", "bf16-mixed", "bf16-true")
    full, mixed, pure = (subject(decoder, precision=name, gpu=True).rehearse() for name in names)
    assert mixed.sizes["weights"] == full.sizes["weights"] == 2 * pure.sizes["weights"]
    assert pure.sizes["activations"] < 0.6 * full.sizes["activations"]
    assert pure.sizes["activations"] < mixed.sizes["activations"] < full.sizes["activations"]


def test_weights_that_are_shared_are_counted_once():
    assert by_part(decoder())["embedding"] == WORDS * DIM and "head" not in by_part(decoder())
    assert by_part(decoder(tie=False))["head"] == WORDS * DIM


def test_published_parameters():
    with torch.device("meta"):
        gpt2, llama = zoo.create("gpt2"), zoo.create("llama-7b")
    assert sum(by_part(gpt2).values()) == 124_439_808
    assert 2 * sum(by_part(llama).values()) == pytest.approx(13.5e9, rel=0.005)  # 13.5 GB in bfloat16


def test_llama_7b_took_what_a_plan_says():
    """82,432 hours of an A100 for 1T tokens (Touvron et al. 2023, table 15): 47 % of the peak."""
    with torch.device("meta"):
        task = zoo.create("llama-7b")
    found = Subject(task, {"": Shape(task, 1, 2048, None)}, "bf16-mixed", gpu=True).rehearse()
    training = sum(found.flops.values()) / 2048
    hours = 1e12 * training / device("a100-80").peak("bf16-mixed") / 3600
    assert 0.44 < hours / 82_432 < 0.50


def test_strategies_share_out_what_they_say():
    with torch.device("meta"):
        task = decoder()
    found = {(s.name, s.checkpointing): s for s in strategies(Subject(task, {"": shape(task)}), 8)}
    one, ddp, fsdp = (found[name, False] for name in ("one device", "DDP x 8", "FSDP2 x 8"))
    assert ddp.copies == one.sizes["gradients"] and ddp.total == one.total + ddp.copies
    assert fsdp.sizes["weights"] == one.sizes["weights"] / 8
    assert fsdp.sizes["activations"] == one.sizes["activations"]
    (cut,) = [s for (name, again), s in found.items() if name.startswith("tensor x 4") and not again]
    assert cut.data == 2
    assert cut.sizes["activations"] < one.sizes["activations"]
    assert cut.sizes["weights"] < one.sizes["weights"] / 2


def test_the_cache_holds_keys_and_values_of_every_layer():
    assert subject(decoder).cache_bytes() == 2 * DEPTH * SAMPLES * TOKENS * DIM * 4
    assert subject(decoder, precision="bf16-mixed").cache_bytes() == 2 * DEPTH * SAMPLES * TOKENS * DIM * 2
    assert subject(TASKS["images"]).cache_bytes() is None


def test_lengths_come_from_whoever_knows_them():
    text, task = zoo.Text("nowhere", length=16, batch_size=5), decoder()
    assert (shapes(task, text, None, None)[""].size, shapes(task, text, None, None)[""].input) == (5, 16)
    assert shapes(task, text, 3, 8)[""].tokens == 24
    writer = zoo.Seq2Seq(zoo.T5(DIM, 1, HEADS, head_dim=8), zoo.BPE("docs-2048"))
    read = shapes(writer, zoo.Pairs(batch_size=4), None, None)[""]
    assert read.input > 1 and read.target > 1


def test_a_device_has_a_peak_for_each_precision():
    assert DEVICES["a100-80"].peak("bf16-mixed") == 312e12 and DEVICES["a100-80"].peak("32-true") == 156e12
    with pytest.raises(ValueError, match="t4 has no units for bfloat16.*16-mixed"):
        device("t4").peak("bf16-mixed")
    with pytest.raises(ValueError, match="did you mean 'h100'"):
        device("h1000")
