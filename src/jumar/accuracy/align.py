"""Pairs the calls of two runs by module path, phase, operator and occurrence.

Within a module and phase the calls of both runs are two sequences. Equal sequences are paired at
once. Otherwise calls that occur once on each side anchor the rest (patience matching), and what lies
between two anchors is matched as a longest common subsequence. Calls that stay alone are findings,
never "agree".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from jumar.accuracy.calls import Call, calls_of
from jumar.recording.schema import CallRow

LONGEST_EXACT_MATCH = 400
"""Calls up to which difflib (quadratic) is used; longer stretches without an anchor are paired greedily."""

LONGEST_SKIP = 20
"""Calls that greedy pairing may leave out at once; one wrong pair further off would lose all between."""


@dataclass(slots=True, eq=False)
class Pair:
    """A call in both runs, or (None on the other side) in one."""

    reference: Call | None
    target: Call | None
    region: str = ""
    """Words for the region of calls, other on each side, that this pair is the border of or this call is within."""


@dataclass(slots=True)
class AlignedStep:
    """The calls of one step of both runs, and which belong together."""

    kind: Literal["op", "module", "none"]
    """What is compared: operators, modules where one side has no operators, nothing."""
    reference: list[Call]
    target: list[Call]
    pairs: list[Pair]


def align_step(reference: Sequence[CallRow], target: Sequence[CallRow], strip: tuple[str, str]) -> AlignedStep:
    """Align the rows of one step and rank. `strip` holds the module path prefixes to leave out on each side."""
    kind = _common_kind(reference, target)
    if kind == "none":
        return AlignedStep(kind, [], [], [])
    mine = calls_of((row for row in reference if row.kind in {kind, "parameter"}), strip[0])
    theirs = calls_of((row for row in target if row.kind in {kind, "parameter"}), strip[1])
    return AlignedStep(kind, mine, theirs, align(mine, theirs))


def _common_kind(reference: Sequence[CallRow], target: Sequence[CallRow]) -> Literal["op", "module", "none"]:
    common = {row.kind for row in reference} & {row.kind for row in target}
    return "op" if "op" in common else "module" if "module" in common else "none"


def align(reference: Sequence[Call], target: Sequence[Call]) -> list[Pair]:
    """Return pairs in the reference's order of execution, calls that only the target has in their place."""
    theirs = _groups(target)
    partner: dict[int, Call] = {}
    for key, calls in _groups(reference).items():
        for mine, other in _match(calls, theirs.get(key, [])):
            partner[id(mine)] = other
    _match_moved(reference, target, partner)
    return _merge(reference, target, partner)


def _groups(calls: Sequence[Call]) -> dict[Hashable, list[Call]]:
    """Return the calls by what must agree. Optimizers have no modules and run in the order of their lists."""
    groups: dict[Hashable, list[Call]] = defaultdict(list)
    for call in calls:
        row = call.row
        if row.phase == "optimizer" and row.kind == "op":
            groups[row.kind, row.phase, call.path, call.token, call.scalars()].append(call)
        else:
            groups[row.kind, row.phase, call.path].append(call)
    return groups


LEVELS: tuple[Callable[[Call], Hashable], ...] = (
    lambda call: (call.token, call.row.arguments if call.item is None else ""),
    lambda call: call.token,
    lambda call: call.operator,
)
"""From what two calls must share to be taken for the same at once, to what is enough in a gap between such."""


def _match(first: Sequence[Call], second: Sequence[Call], level: int = 0) -> Iterator[tuple[Call, Call]]:
    """Yield pairs, in the order of both; what a level leaves between two pairs is matched at the next level."""
    if level == len(LEVELS) or not first or not second:
        return
    a, b = [LEVELS[level](call) for call in first], [LEVELS[level](call) for call in second]
    if a == b:
        yield from zip(first, second, strict=True)
        return
    last_i, last_j = 0, 0
    for i, j in _common(a, b, 0, 0):
        yield from _match(first[last_i:i], second[last_j:j], level + 1)
        yield first[i], second[j]
        last_i, last_j = i + 1, j + 1
    yield from _match(first[last_i:], second[last_j:], level + 1)


def _common(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> Iterator[tuple[int, int]]:
    """Yield index pairs (offset by i and j), both rising, of a common subsequence of `a` and `b`."""
    shorter = min(len(a), len(b))
    head = next((k for k in range(shorter) if a[k] != b[k]), shorter)
    tail = next((k for k in range(shorter - head) if a[-1 - k] != b[-1 - k]), shorter - head)
    yield from ((i + k, j + k) for k in range(head))
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    if middle_a and middle_b:
        yield from _between_anchors(middle_a, middle_b, i + head, j + head)
    yield from ((i + len(a) - k, j + len(b) - k) for k in range(tail, 0, -1))


def _between_anchors(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> Iterator[tuple[int, int]]:
    anchors = _anchors(a, b)
    if not anchors:
        yield from _without_anchor(a, b, i, j)
        return
    last_a, last_b = 0, 0
    for at, other in anchors:
        yield from _common(a[last_a:at], b[last_b:other], i + last_a, j + last_b)
        yield i + at, j + other
        last_a, last_b = at + 1, other + 1
    yield from _common(a[last_a:], b[last_b:], i + last_a, j + last_b)


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of positions of tokens that occur once in each."""
    once_a, once_b = Counter(a), Counter(b)
    where = {token: k for k, token in enumerate(b) if once_b[token] == 1}
    pairs = [(k, where[token]) for k, token in enumerate(a) if once_a[token] == 1 and token in where]
    best: list[tuple[int, int]] = []
    piles: list[list[tuple[tuple[int, int], int]]] = []
    for pair in pairs:
        k = next((k for k, pile in enumerate(piles) if pile[-1][0][1] > pair[1]), len(piles))
        if k == len(piles):
            piles.append([])
        piles[k].append((pair, len(piles[k - 1]) - 1 if k else -1))
    back = len(piles[-1]) - 1 if piles else -1
    for pile in reversed(piles):
        pair, previous = pile[back]
        best.append(pair)
        back = previous
    return best[::-1]


def _without_anchor(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> Iterator[tuple[int, int]]:
    if max(len(a), len(b)) > LONGEST_EXACT_MATCH:
        yield from _greedy(a, b, i, j)
        return
    for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            yield i + block.a + k, j + block.b + k


def _greedy(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> Iterator[tuple[int, int]]:
    """Pair each token with its next occurrence after the last pair, if that skips few (linear time)."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for k in range(len(b) - 1, -1, -1):
        places[b[k]].append(k)
    last = -1
    for k, token in enumerate(a):
        later = places[token]
        while later and later[-1] <= last:
            later.pop()
        if later and later[-1] - last <= LONGEST_SKIP:
            last = later.pop()
            yield i + k, j + last


def _match_moved(reference: Sequence[Call], target: Sequence[Call], partner: dict[int, Call]) -> None:
    """Pair calls that one run made in another module (views and backward calls move with the framework's version).

    Only what is left on both sides of a phase, in order, with equal operator and shape.
    """
    taken = {id(call) for call in partner.values()}
    waiting: dict[Hashable, list[Call]] = defaultdict(list)
    for call in reversed(target):
        if id(call) not in taken and call.row.kind == "op":
            waiting[call.row.phase, call.token].append(call)
    for call in reference:
        if id(call) not in partner and call.row.kind == "op" and waiting.get((call.row.phase, call.token)):
            partner[id(call)] = waiting[call.row.phase, call.token].pop()


def _merge(reference: Sequence[Call], target: Sequence[Call], partner: dict[int, Call]) -> list[Pair]:
    """Return all calls once: the reference's order, target-only calls before the next pair that follows them."""
    taken = {id(call) for call in partner.values()}
    before: dict[int, list[Call]] = {}
    alone: list[Call] = []
    for call in target:
        if id(call) in taken:
            if alone:
                before[id(call)] = alone
                alone = []
        else:
            alone.append(call)
    pairs: list[Pair] = []
    for call in reference:
        other = partner.get(id(call))
        if other is not None:
            pairs.extend(Pair(None, extra) for extra in before.get(id(other), ()))
        pairs.append(Pair(call, other))
    pairs.extend(Pair(None, extra) for extra in alone)
    return pairs
