"""Pairs calls that one run made at another place: in another module, or in another order.

Views and the backward calls of some functions move with the framework's version, and independent
calls may swap. Two calls left over are taken for the same when they read the same values or hand
theirs to the same calls; without known dataflow, when operator and shape agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

from jumar.accuracy.matching import Matching


def match_moved(matching: Matching) -> None:
    """Pair what is left on both sides, first along the reads, then against them."""
    left = matching.left(0)
    if not left or not any(j < 0 for j in matching.partners[1]):
        return
    if matching.knows_values:
        for order in (left, left[::-1]):
            for i in order:
                if matching.partners[0][i] < 0:
                    _pair_by_values(matching, i)
    _pair_in_order(matching)


def _pair_by_values(matching: Matching, i: int) -> None:
    call = matching.calls[0][i]
    if call.row.kind != "op" or call.layout_only:
        return
    mine = dict(matching.flows[0].reads[i])
    for j in (*_readers_of_the_same(matching, i), *_makers_for_the_same(matching, i)):
        other = matching.calls[1][j]
        if matching.partners[1][j] >= 0 or (other.row.phase, other.token) != (call.row.phase, call.token):
            continue
        theirs = dict(matching.flows[1].reads[j])
        known = [(matching.counterpart(mine[name]), theirs[name]) for name in mine if name in theirs]
        if not any(value is not None and value != found for value, found in known):
            matching.pair(i, j)
            matching.moved.append((i, j))
            return


def _readers_of_the_same(matching: Matching, i: int) -> Iterator[int]:
    """Yield the target's calls that read what the reference's i-th call reads."""
    flow = matching.flows[1]
    for _, value in matching.flows[0].reads[i]:
        other = matching.counterpart(value)
        if other is not None:
            yield from (flow.readers[other] if other >= 0 else flow.leaf_readers.get(other, ()))


def _makers_for_the_same(matching: Matching, i: int) -> Iterator[int]:
    """Yield the target's calls whose results are read where the result of the reference's i-th call is."""
    for reader in matching.flows[0].readers[i]:
        other = matching.partners[0][reader]
        if other >= 0:
            theirs = dict(matching.flows[1].reads[other])
            for name, value in matching.flows[0].reads[reader]:
                if value == i and theirs.get(name, -1) >= 0:
                    yield theirs[name]


def _pair_in_order(matching: Matching) -> None:
    """Pair views, and where no values are known any calls, by phase, operator and shape."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for j in reversed(matching.left(1)):
        call = matching.calls[1][j]
        if call.row.kind == "op":
            waiting[call.row.phase, call.token].append(j)
    for i in matching.left(0):
        call = matching.calls[0][i]
        if call.row.kind != "op" or not (call.layout_only or not matching.knows_values or not call.inputs):
            continue
        candidates = waiting.get((call.row.phase, call.token))
        if candidates:
            matching.pair(i, candidates.pop())
