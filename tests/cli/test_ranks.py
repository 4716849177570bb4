"""One of several processes fails: all end, a few lines say which and why, and the run goes on."""

import faulthandler
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonargparse import Namespace

from tests.long.ranks import Failure, fail, launch, life, living, promises
from zoo.checkpoints import read_checkpoint
from zoo.cli.ranks import processes
from zoo.cli.ranks.cause import End, explain, root
from zoo.cli.ranks.hang import Patience, culprit
from zoo.heartbeat import Frame, Heart, Pulse, Told, call_chain, read_dump, read_pulse, read_told
from zoo.heartbeat import place as named

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def end(rank: int, code: int | None, kind: str = "", text: str = "", when: float = 0.0, expected: bool = False) -> End:
    told = Told(kind, code or 0, text, expected, "Traceback\n  x\nE: 1", when) if kind else None
    return End(rank, code, told, [], "")


# ---- how many processes, and who starts them


@pytest.fixture
def alone(monkeypatch):
    """No launcher, whatever the tests themselves are run by."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "TORCHELASTIC"))] + ["LOCAL_RANK"]:
        monkeypatch.delenv(name, raising=False)


def asked(**given) -> Namespace:
    usual = {"accelerator": "cpu", "strategy": "auto", "devices": 2, "num_nodes": 1, "plugins": None}
    return Namespace(**{**usual, **given})


def test_lightnings_own_launcher_is_taken_over(alone):
    named = Namespace(class_path="lightning.pytorch.strategies.DDPStrategy", init_args=Namespace(static_graph=True))
    assert [processes(asked(strategy=strategy)) for strategy in ("auto", "ddp", named)] == [2, 2, 2]
    assert processes(asked(devices=3)) == 3


def test_other_ways_of_starting_are_left_alone(alone, monkeypatch):
    assert processes(asked(devices=1)) == 1
    assert processes(asked(strategy="ddp_spawn")) == 1
    for name, value in {"NTASKS": 2, "NTASKS_PER_NODE": 2, "JOB_NAME": "train", "LOCALID": 0, "PROCID": 0}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    monkeypatch.setenv("SLURM_NODEID", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert processes(asked()) == 1
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert processes(asked()) == 1


# ---- which one, and why


def test_the_cause_is_whoever_failed_for_a_reason_of_its_own():
    lost = end(0, None, "error", "RuntimeError: Connection closed by peer [127.0.0.1]:4711", when=1.0)
    aborted, killed, left = end(0, -signal.SIGABRT), end(1, -signal.SIGKILL), end(1, 0)
    raised, later = end(1, 1, "error", "ValueError: no", when=2.0), end(2, 1, "error", "KeyError: 'x'", when=3.0)
    for others, cause in [([lost], killed), ([lost], left), ([lost, later], raised), ([aborted], raised)]:
        assert root([*others, cause]) is cause and root([cause, *others]) is cause
    assert root([end(0, 0, "done"), end(1, None)]) is None
    assert root([end(0, 0, "done"), lost]) is lost


def test_the_exit_code_is_that_of_the_cause_and_never_0():
    assert [explain(cause, [cause]).code for cause in (end(1, -9), end(1, -11), end(1, 0), end(1, 3))] == [
        137,
        139,
        1,
        3,
    ]
    stopped = end(0, 0, "exit", "SystemExit: 0")
    assert explain(stopped, [stopped]).code == 1


def test_what_all_say_is_not_one_ranks_fault():
    both = [end(rank, 1, "error", "there is no file x", expected=True) for rank in (0, 1)]
    assert explain(both[1], both).lines == ["zoo: error: there is no file x"]
    assert explain(both[1], [end(0, None), both[1]]).lines == ["zoo: error: rank 1: there is no file x"]


def test_no_more_than_ten_lines():
    long = Told("error", 1, "TypeError: " + "x" * 1000, False, "\n".join(map(str, range(1000))), 0.0)
    cause = explain(End(1, 1, long, [], ""), [])
    assert len(cause.lines) <= 8 and max(map(len, cause.lines)) <= 300 and cause.record.count("\n") == 999


# ---- hanging


def pulses(*given: tuple[int, float]) -> dict[int, Pulse]:
    return {rank: Pulse(steps, steps, limit, "") for rank, (steps, limit) in enumerate(given)}


def test_nobody_hangs_before_the_limit_of_the_slowest():
    patience = Patience()
    for _ in range(10):
        assert patience.over(pulses((5, 3.0), (4, 10.0)), 1.0) == []
    assert patience.over(pulses((5, 3.0), (4, 10.0)), 1.0) == [1]
    assert patience.over(pulses((6, 3.0), (4, 10.0)), 1.0) == []  # somebody moved


def test_what_may_take_any_time_is_waited_for_and_a_machine_may_sleep():
    patience = Patience()
    assert not any(patience.over(pulses((4, 0.0), (5, 3.0)), 1.0) for _ in range(1000))
    assert patience.over(pulses((5, 9.0), (5, 9.0)), 1.0) == patience.over(pulses((5, 9.0), (5, 9.0)), 3600.0) == []


def test_the_one_that_hangs_does_not_wait_for_others():
    waiting = [Frame("/x/torch/distributed/distributed_c10d.py", 1, "all_reduce"), Frame("/my.py", 2, "step")]
    compiling = [Frame("/x/torch/_dynamo/convert_frame.py", 1, "compile"), Frame("/my.py", 2, "step")]
    assert culprit([0, 1], {0: waiting, 1: [Frame("/my.py", 3, "load")]}) == 1
    assert culprit([0], {0: waiting, 1: [Frame("/my.py", 3, "load")]}) == 0
    assert culprit([1], {0: compiling, 1: waiting}) is None


def test_signs_of_life_are_seen_by_another(tmp_path):
    (tmp_path / "1.pulse").write_bytes(bytes(64))
    heart = Heart()
    heart.show(tmp_path, 1)
    heart.step("training: forward", 12.5)
    heart.beat()
    assert read_pulse((tmp_path / "1.pulse").read_bytes()) == heart.pulse == Pulse(2, 3, 12.5, "training: forward")
    assert read_told(tmp_path, 1) is None
    heart.failed(KeyError("x"), 1)
    first = read_told(tmp_path, 1)
    heart.failed(KeyError("x"), 2, "there is no x")
    again = read_told(tmp_path, 1)
    assert first.text == "KeyError: 'x'" and (again.text, again.code, again.expected) == ("there is no x", 2, True)
    assert again.time == first.time


def test_a_place_is_read_from_what_faulthandler_writes(tmp_path):
    def hold() -> None:
        with open(tmp_path / "dump", "w") as file:
            faulthandler.dump_traceback(file, all_threads=True)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    calls = read_dump((tmp_path / "dump").read_text(), threading.main_thread().ident)
    functions = [call.function for call in call_chain()]
    assert "test_a_place_is_read_from_what_faulthandler_writes" in functions
    assert [call.function for call in calls][-10:] == functions[-10:]
    dump = (tmp_path / "dump").read_text()
    assert [call.function for call in read_dump(dump, thread.ident)][:2] == ["hold", "run"] and not read_dump(dump, 1)
    assert f"called from {__file__}" in named(calls) and not named([])


# ---- the whole


@pytest.fixture
def place():
    """A folder with a short name: loaders open sockets in the temporary directory, and a longer one is none."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        yield Path(name)


def run(kind: str, rank: int, place: Path) -> Failure:
    failure = fail(place, kind, rank)
    assert promises(failure, kind, rank) == [], failure.life.said()
    return failure


def test_an_exception_on_one_rank_ends_all_and_keeps_the_last_checkpoint(place):
    failure = run("raise", 1, place)
    assert failure.cause == "zoo: error: rank 1: ZeroDivisionError: division by zero"
    assert any("faults.py" in line for line in failure.lines)
    assert read_checkpoint(failure.life.run / "checkpoints" / "last.ckpt")["global_step"] == 14


def test_a_rank_that_hangs_is_found(place):
    failure = run("hang", 0, place)
    assert "rank 0 made no progress for 10 s; it is in" in failure.cause and "faults.py" in failure.cause


def test_all_end_when_the_one_that_watches_is_killed(place):
    made = life(place, "orphans")
    (made.folder / "fault").write_text("hang 0")
    watcher = launch(made, [f"--config={made.config}"])
    assert until(lambda: (made.folder / "failed").exists(), 60) and len(living(made.folder)) >= 2
    watcher.kill()
    watcher.join()
    assert until(lambda: not living(made.folder), 15)
    assert not [*made.temporary.glob("zoo*")]


def until(happened: Callable[[], bool], seconds: float) -> bool:
    end = time.time() + seconds
    while not happened() and time.time() < end:
        time.sleep(0.1)
    return happened()
