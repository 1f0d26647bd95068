"""Paired, interleaved timing of two functions without arguments.

Both are warmed up together, then timed in pairs; which of the two goes first is drawn anew for each
pair, so that neither always finds the caches and the clock speed as the other left them. Pairs during
which another program kept a thread from running are left out and taken again, as long as the time allows.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jumar.tune.measure.worker.messages import Effort
from jumar.tune.model.gate import median_interval

Clock = Callable[[], int]
NUM_WARM_UP, WARM_UP_S = 3, 1.0
"""Calls of each side before pairs are taken, and again as many whose length counts; fewer, at least one, where they
take long."""
PATIENCE = 6
"""On a busy machine, measure for up to this many times the effort's seconds."""
REST_S = 0.005
"""Between two sides that use several threads, so often that none spins any longer."""
FUTILITY_EVERY = 8
"""Pairs between two looks at whether the gate can still be reached. Stopping early only ever rejects, so
it cannot let anything through."""


@dataclass(slots=True)
class Pairs:
    """Times per call in microseconds, index by index one pair."""

    calls_per_sample: int
    before_us: list[float] = field(default_factory=list)
    after_us: list[float] = field(default_factory=list)
    least: int = 1
    """So few are enough for an answer."""
    num_disturbed: int = 0
    """Pairs that were left out."""


def measure_pairs(
    before: Callable[[], object],
    after: Callable[[], object],
    effort: Effort,
    *,
    min_gain: float,
    seed: int,
    rest_s: float = 0.0,
    clock: Clock = time.perf_counter_ns,
) -> Pairs:
    """Time `before` and `after` in pairs until `effort` is spent or the gate is out of reach.

    `rest_s` seconds pass before each side is timed, more while threads still run, and after them one call of it that
    is not: threads that go on spinning would keep those of the other side from running, as another program does.
    """
    if rest_s:
        effort = replace(effort, settling_calls=max(effort.settling_calls, 1))
    calls, least, num_pairs = _calibrate(before, after, effort, rest_s, clock)
    order = random.Random(seed)
    pairs = Pairs(calls, least=least)
    deadline = clock() + effort.seconds * 1e9 * PATIENCE
    gc.collect()
    gc.disable()
    try:
        while len(pairs.before_us) < num_pairs:
            after_first = order.random() < 0.5
            sides = (after, before) if after_first else (before, after)
            timed = [_time_side(side, calls, effort, rest_s, clock) for side in sides]
            (late, _), (early, _) = timed if after_first else timed[::-1]
            if max(kept for _, kept in timed) > effort.max_wait_share * (early + late):
                pairs.num_disturbed += 1
                if clock() > deadline and pairs.num_disturbed >= least:
                    break
                continue
            pairs.before_us.append(early / calls)
            pairs.after_us.append(late / calls)
            if _is_time_to_look(pairs) and _hopeless(pairs, min_gain):
                break
    finally:
        gc.enable()
    return pairs


def _calibrate(
    before: Callable[[], object], after: Callable[[], object], effort: Effort, rest_s: float, clock: Clock
) -> tuple[int, int, int]:
    """Return (calls a sample, least number of pairs, number of pairs) for this effort, from warm calls of both."""
    _least_us(before, after, clock)
    once = _least_us(before, after, clock)
    calls = max(effort.min_calls, math.ceil(effort.sample_us / min(once)))
    while calls > effort.min_calls and calls * max(once) > 100 * effort.sample_us:
        calls = max(effort.min_calls, calls // 2)  # one side is far slower: it has long been clear which
    pair_us = (calls + effort.settling_calls) * sum(once) + 2e6 * rest_s
    least = effort.least_pairs(pair_us / 1e6)
    return calls, least, max(least, min(effort.max_pairs, int(effort.seconds * 1e6 / pair_us)))


def _least_us(before: Callable[[], object], after: Callable[[], object], clock: Clock) -> list[float]:
    """Call both in turn, up to `NUM_WARM_UP` times within `WARM_UP_S`; return the least microseconds of each."""
    found: list[list[float]] = []
    start = clock()
    while len(found) < NUM_WARM_UP and (not found or clock() - start < WARM_UP_S * 1e9):
        found.append([max(_time(function, 1, clock), 1e-3) for function in (before, after)])
    return [min(column) for column in zip(*found, strict=True)]


def _time_side(
    function: Callable[[], object], calls: int, effort: Effort, rest_s: float, clock: Clock
) -> tuple[float, float]:
    """Return the microseconds of `calls` calls, and for how many of them a thread was kept from running."""
    if rest_s:
        rest(rest_s)
    for _ in range(effort.settling_calls):
        function()
    waits = read_waits()
    taken = _time(function, calls, clock)
    return taken, waited_us(waits, read_waits())


def _time(function: Callable[[], object], calls: int, clock: Clock) -> float:
    """Return the microseconds of `calls` calls; at least a nanosecond, so that a ratio exists."""
    start = clock()
    for _ in range(calls):
        function()
    return max(clock() - start, 1) / 1000


def _is_time_to_look(pairs: Pairs) -> bool:
    done = len(pairs.before_us)
    return done >= pairs.least and done % FUTILITY_EVERY == 0


def _hopeless(pairs: Pairs, min_gain: float) -> bool:
    logs = [math.log(early / late) for early, late in zip(pairs.before_us, pairs.after_us, strict=True)]
    return median_interval(logs)[1] < math.log1p(min_gain)


TASKS = Path("/proc/self/task")
WAKE_UP_US = 50.0
"""Waiting longer than this each time is waiting for another program."""
MOST_RESTS = 10
BUSY_SHARE = 0.2
"""Of a rest; what looks and sleeps takes less."""

Reading = Mapping[str, tuple[int, int]]
"""Thread to (nanoseconds waited, times run); empty where the system does not tell."""


def read_waits() -> Reading:
    """Return the waits of every thread so far."""
    waits = {}
    try:
        for task in TASKS.iterdir():
            fields = (task / "schedstat").read_text("ascii").split()
            waits[task.name] = (int(fields[1]), int(fields[2]))
    except (OSError, IndexError, ValueError):  # not Linux, a kernel without the counters, a thread that ended
        return waits
    return waits


def rest(seconds: float) -> None:
    """Sleep for `seconds`, again while another thread of this process runs in them, at most `MOST_RESTS` times.

    Threads of a pool go on spinning after a call: those of OpenMP for 300,000 pauses, which is 6 to 15 ms.
    """
    for _ in range(MOST_RESTS):
        before = _ran_ns()
        time.sleep(seconds)
        if _ran_ns() - before < BUSY_SHARE * seconds * 1e9:
            return


def _ran_ns() -> int:
    """Return the time that all threads have run; 0 where the system does not tell."""
    try:
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in TASKS.iterdir())
    except (OSError, IndexError, ValueError):
        return 0


def waited_us(before: Reading, after: Reading) -> float:
    """Return how long the thread that waited longest was kept from a processor by other programs, in microseconds."""
    return max((_kept_us(before.get(thread, (0, 0)), now) for thread, now in after.items()), default=0.0)


def _kept_us(before: tuple[int, int], now: tuple[int, int]) -> float:
    delay_us = (now[0] - before[0]) / 1000
    return delay_us if delay_us > WAKE_UP_US * max(now[1] - before[1], 1) else 0.0
