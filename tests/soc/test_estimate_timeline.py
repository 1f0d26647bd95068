"""Host and device are two clocks that meet where the host waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.soc.estimate import Cost, Kernel, Prices, Timeline


def kernel(duration_us: float, *, link: bool = False) -> Kernel:
    core = "HCCL" if link else "AI_CORE"
    return Kernel(type="K", core=core, duration_us=duration_us, bound_by="cube")


def cost(host_us: float, device_us: float, *, waits: bool = False, link: bool = False) -> Cost:
    kernels = (kernel(device_us, link=link),) if device_us else ()
    return Cost(name="op", kernels=kernels, host_us=host_us, waits=waits)


def run(*costs: Cost) -> Timeline:
    timeline = Timeline()
    timeline.step("0")
    for item in costs:
        timeline.issue(item)
    return timeline


def test_a_step_of_long_kernels_takes_the_devices_time() -> None:
    (step,) = run(*[cost(10, 100)] * 5).steps()
    assert (step.duration_us, step.computing_us, step.host_us) == (510, 500, 50)
    assert 10 == step.free_us == step.preparing_us


def test_a_step_of_short_kernels_takes_the_hosts_time() -> None:
    (step,) = run(*[cost(10, 1)] * 5).steps()
    assert (step.duration_us, step.computing_us, step.free_us) == (51, 5, 46)


def test_a_wait_stalls_the_host_and_leaves_a_bubble_on_the_device() -> None:
    free, stalled = run(*[cost(10, 100)] * 4), run(cost(10, 100), cost(10, 100, waits=True), *[cost(10, 100)] * 2)
    assert free.end_us == 410
    assert 410 + Prices().synchronise_us + 10 == stalled.end_us
    assert Prices().synchronise_us + 10 == stalled.device[2].wait_us


def test_communication_runs_beside_computing_and_starts_after_what_it_needs() -> None:
    timeline = run(cost(10, 100), cost(10, 50, link=True), cost(10, 100))
    (step,) = timeline.steps()
    assert (timeline.device[1].stream, *_times(timeline, 1)) == ("communication", 110, 160)
    assert _times(timeline, 2) == (110, 210)
    assert (step.communicating_us, step.uncovered_us) == (50, 0)


def test_a_join_makes_computing_wait_for_the_communication() -> None:
    timeline = run(cost(10, 100), cost(10, 500, link=True))
    timeline.join()
    timeline.issue(cost(10, 100))
    (step,) = timeline.steps()
    assert _times(timeline, 2) == (610, 710)
    assert step.uncovered_us == 500


def test_a_compile_holds_the_host() -> None:
    timeline = Timeline(Prices(compile_us=1000))
    timeline.issue(cost(10, 5), compiled=True)
    assert timeline.host_us == 1010
    assert [span.kind for span in timeline.host] == ["compile", "operator"]


def test_the_next_step_begins_when_the_device_has_done_the_one_before() -> None:
    timeline = Timeline()
    for name in ("0", "1", "2"):
        timeline.step(name)
        for _ in range(10):
            timeline.issue(cost(10, 100))
    assert [step.duration_us for step in timeline.steps()] == [1010, 1000, 1000]
    assert sorted({span.step for span in timeline.device}) == ["0", "1", "2"]


def test_the_programs_own_work_is_time_of_the_host() -> None:
    timeline = Timeline()
    timeline.step("0")
    timeline.issue(cost(10, 5))
    timeline.program(1000)
    timeline.issue(cost(10, 5))
    (step,) = timeline.steps()
    assert (step.duration_us, step.computing_us) == (1025, 10)


def _times(timeline: Timeline, number: int) -> tuple[float, float]:
    return timeline.device[number].start_us, timeline.device[number].end_us


COSTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50), st.booleans()), min_size=1, max_size=30)


@given(COSTS)
def test_a_timeline_lasts_at_least_as_long_as_the_host_and_as_the_device(costs: list[tuple[int, int, bool]]) -> None:
    timeline = run(*[cost(host, device, waits=waits) for host, device, waits in costs])
    (step,) = timeline.steps()
    assert step.duration_us >= max(sum(host for host, _, _ in costs), sum(device for _, device, _ in costs))
    assert pytest.approx(sum(device for _, device, _ in costs)) == step.computing_us
    starts = [span.start_us for span in timeline.device]
    assert starts == sorted(starts)
