"""``python -m zoo plan`` as it is typed."""

import json

import pytest


def test_gpt2_on_sixty_four_devices(command, tmp_path):
    answer = command("plan", "--config", "gpt2", "--devices=64", "--device=h100", "--tokens=300e9", "--json")
    assert answer.code == 0, answer.err
    plan = json.loads(answer.out)
    assert plan["parameters"]["total"] == 124_439_808
    seconds = 300e9 * plan["flops"]["training"] / (64 * 989.4e12 * 0.4)
    assert plan["time"]["days"] == pytest.approx(seconds / 86_400)
    assert plan["time"]["device_hours"] == pytest.approx(64 * 24 * plan["time"]["days"])
    assert all(row["fits"] == (row["peak"] <= 80e9) for row in plan["strategies"])
    assert not list(tmp_path.rglob("runs"))


def test_a_config_and_values_of_it(command):
    answer = command("plan", "--config", "vit_digits", "--model.backbone.depth=1", "--batch_size=8", "--device=t4")
    assert answer.code == 0, answer.err
    assert "8 samples of 16 tokens" in answer.out and "t4 has 16 GB" in answer.out
    assert "one device" in answer.out and "DDP" not in answer.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--config", "gpt2", "--device=h1000"), "did you mean 'h100'?"),
        (("--config", "gpt2", "--tokens=-3"), "-3 is no number above 0"),
        (("--config", "gpt2", "--utilisation=40"), "40 is no share"),
        (("--config", "gpt2", "--device=t4"), "t4 has no units for bfloat16"),
        (("--config", "gpt2", "--length=2048"), "2048 tokens, the position table 1024 rows"),
        (("--config", "gpt2", "--model.backbone.deph=3"), "did you mean 'depth'?"),
        ((), "plan needs a config"),
    ],
)
def test_mistakes_are_answered_in_a_line(words, said, command):
    answer = command("plan", *words)
    assert answer.code in (1, 2)
    assert said in answer.err and len(answer.err.strip().splitlines()) == 1
