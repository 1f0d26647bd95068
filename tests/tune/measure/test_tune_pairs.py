"""Paired timing: interleaved, in random order, without the pairs that other programs disturbed."""

from __future__ import annotations

import math
import random

import pytest

from jumar.tune.measure.worker import pairs as pairs_module
from jumar.tune.measure.worker.messages import Effort
from jumar.tune.measure.worker.pairs import MOST_RESTS, measure_pairs, read_waits, rest, waited_us
from jumar.tune.model.gate import gain_of


class Machine:
    """A clock that only the timed functions move; they take what `durations_us` says, with noise and a drift."""

    def __init__(self, noise: float = 0.0, drift: float = 0.0) -> None:
        self.now_ns = 0
        self.calls: list[str] = []
        self.waits = 0
        self._noise, self._drift = noise, drift
        self._random = random.Random(0)

    def clock(self) -> int:
        return self.now_ns

    def function(self, name: str, duration_us: float, disturb_every: int = 0):
        def call() -> None:
            self.calls.append(name)
            slow = 1 + self._drift * len(self.calls)
            self.now_ns += int(1000 * duration_us * slow * (1 + self._noise * self._random.random()))
            if disturb_every and len(self.calls) % disturb_every == 0:
                self.now_ns += 10_000_000
                self.waits += 10_000_000

        return call

    def read_waits(self):
        return {"main": (self.waits, 1)}


def measure(machine: Machine, before_us: float, after_us: float, monkeypatch, disturb_every: int = 0, **effort):
    monkeypatch.setattr(pairs_module, "read_waits", machine.read_waits)
    return measure_pairs(
        machine.function("before", before_us, disturb_every),
        machine.function("after", after_us, disturb_every),
        Effort(**({"seconds": 0.1, "min_pairs": 15, "max_pairs": 41, "sample_us": 500.0} | effort)),
        min_gain=0.02,
        seed=0,
        clock=machine.clock,
    )


def test_a_true_gain_is_found_through_noise_and_drift(monkeypatch):
    pairs = measure(Machine(noise=0.3, drift=0.001), 100.0, 80.0, monkeypatch)
    measured = gain_of(pairs.before_us, pairs.after_us)
    assert measured.clears(0.02)
    assert measured.ratio == pytest.approx(1.25, rel=0.05)


def test_short_functions_are_called_often_enough_for_the_clock(monkeypatch):
    pairs = measure(Machine(), 10.0, 20.0, monkeypatch, min_pairs=15)
    assert pairs.calls_per_sample == 50
    assert pairs.before_us[0] == pytest.approx(10.0)


def test_a_long_function_still_gets_the_least_number_of_pairs(monkeypatch):
    pairs = measure(Machine(), 1e5, 0.5e5, monkeypatch)
    assert (len(pairs.before_us), pairs.calls_per_sample) == (15, 1)


@pytest.mark.parametrize(
    ("call_s", "min_pairs", "num_pairs"), [(0.1, 25, 25), (0.3, 25, 16), (2.0, 25, 12), (2.0, 7, 7)]
)
def test_calls_that_take_long_get_fewer_pairs_but_enough_for_an_interval(monkeypatch, call_s, min_pairs, num_pairs):
    machine = Machine()
    pairs = measure(machine, call_s * 1e6, call_s * 1e6, monkeypatch, min_pairs=min_pairs, max_pairs=151)
    assert (len(pairs.before_us), pairs.least) == (num_pairs, num_pairs)
    gain = gain_of(pairs.before_us, pairs.after_us)
    assert math.isfinite(gain.ratio_high)


def test_calls_that_take_long_are_not_warmed_up_as_often_as_short_ones(monkeypatch):
    long, short = Machine(), Machine()
    measure(long, 2e6, 1e6, monkeypatch)
    measure(short, 2e3, 1e3, monkeypatch)
    assert len(long.calls) == 2 * (1 + 1 + 12)
    assert len(short.calls) - 2 * 33 == 2 * (3 + 3)


def test_a_hopeless_candidate_is_given_up_early_and_a_close_one_is_not(monkeypatch):
    slow = measure(Machine(noise=0.01), 100.0, 200.0, monkeypatch, max_pairs=100, seconds=10)
    close = measure(Machine(noise=0.5), 100.0, 100.0, monkeypatch, max_pairs=100, seconds=10)
    assert len(slow.before_us) == 16
    assert len(close.before_us) > 16


def test_which_goes_first_is_drawn_for_each_pair(monkeypatch):
    machine = Machine()
    measure(machine, 600.0, 600.0, monkeypatch, max_pairs=41, seconds=10, min_pairs=41)
    timed = machine.calls[-82:]
    firsts = timed[::2]
    assert 8 < firsts.count("before") < 33


def test_disturbed_pairs_are_left_out_and_taken_again(monkeypatch):
    machine = Machine()
    pairs = measure(machine, 600.0, 500.0, monkeypatch, disturb_every=7, min_pairs=20, max_pairs=20)
    assert len(pairs.before_us) == 20
    assert pairs.num_disturbed > 3
    assert max(pairs.before_us) == pytest.approx(600.0)


def test_a_machine_that_is_always_busy_gives_too_few_pairs_in_the_end(monkeypatch):
    pairs = measure(Machine(), 600.0, 500.0, monkeypatch, disturb_every=1)
    assert pairs.before_us == []
    assert pairs.num_disturbed >= 15


def test_waking_up_is_the_operators_own_and_waiting_for_a_core_is_not():
    before = {"main": (0, 0), "pool": (0, 0)}
    woken = {"main": (0, 0), "pool": (300_000, 100)}
    kept = {"main": (0, 0), "pool": (4_000_000, 2)}
    assert waited_us(before, woken) == 0.0
    assert waited_us(before, kept) == 4000.0
    assert waited_us({}, {"new": (9_000_000, 1)}) == 9000.0
    assert waited_us(before, {}) == 0.0


def test_without_the_kernels_counters_nothing_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(pairs_module, "TASKS", tmp_path / "absent")
    assert read_waits() == {}


def test_what_the_first_call_of_a_turn_pays_is_not_timed(monkeypatch):
    """Two sides that give memory back when they take turns: the pages are paid for in the call that settles."""
    machine = Machine()
    last = [""]

    def paying(name: str, duration_us: float):
        plain = machine.function(name, duration_us)

        def call() -> None:
            if last[0] != name:
                machine.now_ns += 5_000_000
            last[0] = name
            plain()

        return call

    monkeypatch.setattr(pairs_module, "read_waits", machine.read_waits)
    effort = Effort(seconds=0.1, min_pairs=15, max_pairs=41, sample_us=500.0, settling_calls=1)
    sides = paying("before", 1000.0), paying("after", 500.0)
    pairs = measure_pairs(*sides, effort, min_gain=0.02, seed=0, clock=machine.clock)
    assert gain_of(pairs.before_us, pairs.after_us).ratio == pytest.approx(2.0)
    assert {round(us) for us in pairs.before_us} == {1000}


@pytest.mark.parametrize(("rest_s", "num_pairs"), [(0.0, 0), (1e-6, 15)])
def test_threads_that_spin_after_a_call_come_to_rest_before_the_other_side_is_timed(monkeypatch, rest_s, num_pairs):
    """The first call after each change of sides finds the cores taken; without rest it is a timed one."""
    machine = Machine()
    last = [""]

    def spinning(name: str, duration_us: float):
        plain = machine.function(name, duration_us)

        def call() -> None:
            if last[0] != name:
                machine.now_ns += 10_000_000
                machine.waits += 10_000_000
            last[0] = name
            plain()

        return call

    monkeypatch.setattr(pairs_module, "read_waits", machine.read_waits)
    effort = Effort(seconds=0.05, min_pairs=15, max_pairs=15, sample_us=500.0)
    sides = spinning("before", 1000.0), spinning("after", 500.0)
    pairs = measure_pairs(*sides, effort, min_gain=0.02, seed=0, rest_s=rest_s, clock=machine.clock)
    assert len(pairs.before_us) == num_pairs
    assert set(map(round, pairs.before_us)) <= {1000}
    assert set(map(round, pairs.after_us)) <= {500}
    assert bool(pairs.num_disturbed) == (not num_pairs)


@pytest.mark.parametrize(("spinning_ms", "num_rests"), [(0.0, 1), (8.0, 3), (1e9, MOST_RESTS)])
def test_a_rest_lasts_until_no_thread_spins_any_longer(monkeypatch, spinning_ms, num_rests):
    rests, now_ms = [], [0.0]

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        now_ms[0] += seconds * 1000

    monkeypatch.setattr(pairs_module, "_ran_ns", lambda: int(1e6 * min(now_ms[0], spinning_ms)))
    monkeypatch.setattr(pairs_module.time, "sleep", sleep)
    rest(0.005)
    assert rests == [0.005] * num_rests
