"""Gradient splits: the dynamic programme against every split there is, the published table, and what DDP would do."""

from __future__ import annotations

import itertools
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError, UsageError
from jumar.tune.search.gradients.model import Gradient, Link, fit_link, in_ready_order, parse_link
from jumar.tune.search.gradients.solve import Bounds, solve
from jumar.tune.search.gradients.splits import (
    MIB,
    best_cap,
    capped,
    ddp_default,
    evaluated,
    one_bucket,
    per_tensor,
    sizes_of,
)

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from gradients_model import resnet50

TIE_S = 1e-9


def gradients_of(sizes: list[int], gaps_us: list[int]) -> list[Gradient]:
    times = itertools.accumulate(gaps_us)
    count = len(sizes)
    return [
        Gradient(name=f"g{place}", size_bytes=size, ready_ns=1000 * ready, place=count - 1 - place)
        for place, (size, ready) in enumerate(zip(sizes, times, strict=True))
    ]


def every_split(count: int) -> list[tuple[int, ...]]:
    inner = range(count - 1)
    cuts = itertools.chain.from_iterable(itertools.combinations(inner, number) for number in range(count))
    return [(*one, count - 1) for one in cuts]


def keeps_to(sizes: list[int], bounds: Bounds, gradients: list[Gradient]) -> bool:
    """Tell whether a split's buckets are within the bounds: the definition, apart from the solver's windows."""
    if bounds.max_buckets is not None and len(sizes) > bounds.max_buckets:
        return False
    if any(size < bounds.min_bytes for size in sizes[:-1]):
        return False
    singles = {one.size_bytes for one in gradients}
    return bounds.max_bytes is None or all(size <= bounds.max_bytes or size in singles for size in sizes)


SIZES = st.lists(st.integers(1, 4000), min_size=1, max_size=8)
LINKS = st.builds(Link, latency_s=st.sampled_from([0.0, 1e-6, 5e-5, 1e-3]), bandwidth=st.sampled_from([1e6, 1e7, 1e9]))
BOUNDS = st.builds(
    Bounds,
    max_buckets=st.none() | st.integers(1, 8),
    min_bytes=st.sampled_from([0, 500, 3000]),
    max_bytes=st.none(),
)


@given(data=st.data(), sizes=SIZES, link=LINKS, bounds=BOUNDS)
def test_no_split_has_a_smaller_tail_and_none_as_good_has_fewer_buckets(
    data: st.DataObject, sizes: list[int], link: Link, bounds: Bounds
) -> None:
    gaps = data.draw(st.lists(st.integers(0, 800), min_size=len(sizes), max_size=len(sizes)))
    gradients = gradients_of(sizes, gaps)
    allowed = [ends for ends in every_split(len(sizes)) if keeps_to(sizes_of(gradients, ends), bounds, gradients)]
    tails = {ends: evaluated(gradients, link, ends).tail_s for ends in allowed}
    found = solve(gradients, link, bounds, tie_s=TIE_S)
    least = min(tails.values())
    assert found.ends in tails
    assert found.tail_s == pytest.approx(least, abs=2 * TIE_S)
    assert found.num_buckets <= min(len(ends) for ends, tail in tails.items() if tail <= least + TIE_S / 2)


@given(data=st.data(), sizes=SIZES, link=LINKS, most=st.integers(1, 9000))
def test_a_greatest_size_holds_for_every_bucket_of_several_gradients(
    data: st.DataObject, sizes: list[int], link: Link, most: int
) -> None:
    gaps = data.draw(st.lists(st.integers(0, 800), min_size=len(sizes), max_size=len(sizes)))
    gradients = gradients_of(sizes, gaps)
    tails = []
    for ends in every_split(len(sizes)):
        starts = [0, *(end + 1 for end in ends[:-1])]
        buckets = zip(starts, ends, sizes_of(gradients, ends), strict=True)
        if all(size <= most or start == end for start, end, size in buckets):
            tails.append(evaluated(gradients, link, ends).tail_s)
    found = solve(gradients, link, Bounds(max_bytes=most), tie_s=TIE_S)
    assert found.tail_s == pytest.approx(min(tails), abs=2 * TIE_S)


TABLE = [
    # backward ms, alpha us, GB/s: one bucket, per tensor, [85,160], best two, GDAT, DDP 25, DDP 100, solved, buckets
    (60, 50, 20.0, "5.16 0.05 0.69 0.07 0.23 0.54 4.75 0.05", 3),
    (60, 200, 10.0, "10.42 0.20 1.49 0.28 0.55 1.17 9.60 0.20", 3),
    (60, 200, 1.25, "82.0 54.0 49.6 33.1 61.8 22.8 75.4 22.6", 4),
    (100, 1000, 3.0, "35.1 95.1 5.3 2.2 2.2 4.2 32.3 1.0", 3),
]
"""Tails in ms that were published for a model of ResNet-50."""


@pytest.mark.parametrize(("backward_ms", "latency_us", "rate", "tails", "num_buckets"), TABLE)
def test_the_published_table_comes_out(
    backward_ms: int, latency_us: int, rate: float, tails: str, num_buckets: int
) -> None:
    gradients = resnet50(backward_ms * 1e-3)
    link = Link(latency_s=latency_us * 1e-6, bandwidth=rate * 1e9)
    assert (len(gradients), sum(one.size_bytes for one in gradients)) == (161, 4 * 25_557_032)
    solved = solve(gradients, link)
    hand = [one_bucket(gradients), per_tensor(gradients), [74, 160]]
    two = min(([first, 160] for first in range(160)), key=lambda ends: evaluated(gradients, link, ends).tail_s)
    share = next(place for place in range(161) if sizes_of(gradients, [place, 160])[0] >= 0.9654 * 4 * 25_557_032)
    others = [two, [share, 160], ddp_default(gradients), capped(gradients, 100 * MIB, MIB), solved.ends]
    found = [1000 * evaluated(gradients, link, ends).tail_s for ends in (*hand, *others)]
    published = tails.split()
    digits = [len(text.partition(".")[2]) for text in published]
    assert [f"{tail:.{number}f}" for tail, number in zip(found, digits, strict=True)] == published
    assert solved.num_buckets == num_buckets


def test_it_is_quick() -> None:
    draw = random.Random(0)
    many = gradients_of([draw.choice([4096, 10**6, 5 * 10**6]) for _ in range(3000)], [draw.randint(1, 60)] * 3000)
    link = Link(latency_s=2e-4, bandwidth=1e10)
    began = time.process_time()
    solve(resnet50(0.06), link)
    few_s = time.process_time() - began
    solve(many, link)
    best_cap(many, link)
    assert few_s < 0.25  # some 10 ms; the machine may be shared
    assert time.process_time() - began < 20  # some 0.5 s


def test_a_bucket_is_closed_once_it_has_its_bytes_as_ddp_does() -> None:
    gradients = gradients_of([10, 10, 10, 10, 10], [0] * 5)
    assert capped(gradients, 20) == [1, 3, 4]
    assert capped(gradients, 20, first=5) == [0, 2, 4]
    assert capped(gradients, 1) == [0, 1, 2, 3, 4]
    assert capped(gradients, 1000) == [4]


def test_the_best_cap_is_no_worse_than_the_usual_ones() -> None:
    for backward_ms, latency_us, rate, _, _ in TABLE:
        gradients = resnet50(backward_ms * 1e-3)
        link = Link(latency_s=latency_us * 1e-6, bandwidth=rate * 1e9)
        cap, split = best_cap(gradients, link)
        assert split == evaluated(gradients, link, capped(gradients, cap))
        usual = [evaluated(gradients, link, capped(gradients, size * MIB)).tail_s for size in (1, 5, 25, 100)]
        assert solve(gradients, link).tail_s <= split.tail_s + 1e-6
        assert split.tail_s <= min(usual) + 2e-3


def test_bounds_that_nothing_keeps_to_and_foreign_indices_are_told() -> None:
    gradients = gradients_of([100, 100, 100], [1, 1, 1])
    link = Link(latency_s=0.0, bandwidth=1e9)
    with pytest.raises(UsageError, match="2 buckets at most, 150 bytes at most"):
        solve(gradients, link, Bounds(max_buckets=2, max_bytes=150))
    with pytest.raises(UsageError, match="end with 2"):
        evaluated(gradients, link, [0, 1])
    with pytest.raises(UsageError, match="in the order in which they are ready"):
        solve(gradients[::-1], link)


def test_gradients_ready_at_one_time_come_in_the_order_of_the_backward_pass() -> None:
    one, two = (Gradient(name=str(place), size_bytes=1, ready_ns=5, place=place) for place in (0, 1))
    assert in_ready_order([one, two]) == [two, one]


def test_a_link_is_found_from_its_own_times() -> None:
    times = [(size, [1e-4 + size / 2e9] * 3) for size in (4096, 65536, 10**6, 10**8)]
    link = fit_link(times)
    assert link.latency_s == pytest.approx(1e-4)
    assert link.bandwidth == pytest.approx(2e9)
    assert link.residual == pytest.approx(0, abs=1e-9)
    assert Link.from_json(link.to_json()) == link


def test_the_residual_says_how_far_the_times_are_from_the_line() -> None:
    bent = fit_link([(1000, [1e-3]), (2000, [3e-3]), (3000, [3e-3])])
    assert bent.residual > 0.1
    assert bent.latency_s >= 0
    with pytest.raises(InputError, match="do not grow"):
        fit_link([(1000, [2e-3]), (10**6, [1e-9])])
    with pytest.raises(InputError, match="two sizes or more; got 1"):
        fit_link([(1000, [1e-3])])


@pytest.mark.parametrize(
    ("text", "latency_s", "bandwidth"),
    [("200us,10GB/s", 2e-4, 1e10), ("0.5 ms, 100 MB/s", 5e-4, 1e8), ("0us,1GiB/s", 0.0, 2.0**30)],
)
def test_a_link_is_read(text: str, latency_s: float, bandwidth: float) -> None:
    link = parse_link(text)
    assert (link.latency_s, link.bandwidth) == pytest.approx((latency_s, bandwidth))


@pytest.mark.parametrize("text", ["", "200us", "200,10GB/s", "200us,0GB/s", "-1us,1GB/s", "nanus,1GB/s", "1us,infGB/s"])
def test_what_is_no_link_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="must be LATENCY,BANDWIDTH"):
        parse_link(text)
