"""Finds common subsequences of two token sequences in near-linear time.

Equal heads and tails first; tokens that occur once on each side anchor the rest (patience matching);
what lies between two anchors is a shortest edit script (E. W. Myers, "An O(ND) difference algorithm
and its variations", Algorithmica 1, 1986), and where that would cost too much, greedy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

MOST_EDITS = 400
"""Insertions and removals between two anchors up to which the shortest edit script is sought (time grows squared)."""

LONGEST_SKIP = 20
"""Tokens that greedy pairing may leave out at once; one wrong pair further off would lose all between."""

Tokens = Sequence[Hashable]


def common(a: Tokens, b: Tokens, i: int = 0, j: int = 0, *, certain: bool = False) -> Iterator[tuple[int, int]]:
    """Yield index pairs (offset by i and j), both rising, of a common subsequence of `a` and `b`.

    With `certain` only heads, tails and anchors: no choice among several equal tokens.
    """
    shorter = min(len(a), len(b))
    head = next((k for k in range(shorter) if a[k] != b[k]), shorter)
    tail = next((k for k in range(shorter - head) if a[-1 - k] != b[-1 - k]), shorter - head)
    yield from ((i + k, j + k) for k in range(head))
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    if middle_a and middle_b:
        yield from _between_anchors(middle_a, middle_b, i + head, j + head, certain=certain)
    yield from ((i + len(a) - k, j + len(b) - k) for k in range(tail, 0, -1))


def _between_anchors(a: Tokens, b: Tokens, i: int, j: int, *, certain: bool) -> Iterator[tuple[int, int]]:
    anchors = _anchors(a, b)
    if not anchors:
        if not certain:
            yield from ((i + x, j + y) for x, y in _shortest_edits(a, b))
        return
    last_a, last_b = 0, 0
    for at, other in anchors:
        yield from common(a[last_a:at], b[last_b:other], i + last_a, j + last_b, certain=certain)
        yield i + at, j + other
        last_a, last_b = at + 1, other + 1
    yield from common(a[last_a:], b[last_b:], i + last_a, j + last_b, certain=certain)


def _anchors(a: Tokens, b: Tokens) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of positions of tokens that occur once in each."""
    once_a, once_b = Counter(a), Counter(b)
    where = {token: k for k, token in enumerate(b) if once_b[token] == 1}
    return longest_rising([(k, where[token]) for k, token in enumerate(a) if once_a[token] == 1 and token in where])


def longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest subsequence of `pairs` (sorted by their first number) whose second numbers rise."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for k, (_, second) in enumerate(pairs):
        pile = bisect_left(tops, second)
        before.append(ends[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(second)
            ends.append(k)
        else:
            tops[pile], ends[pile] = second, k
    rising = []
    k = ends[-1] if ends else -1
    while k >= 0:
        rising.append(pairs[k])
        k = before[k]
    return rising[::-1]


def _shortest_edits(a: Tokens, b: Tokens) -> list[tuple[int, int]]:
    """Return the matches of a shortest edit script, or of greedy pairing when it needs more than `MOST_EDITS`."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MOST_EDITS) + 1):
        history.append(furthest.copy())
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _matches(history, len(a), len(b))
    return _greedy(a, b)


def _matches(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Walk an edit script back from its end and return its matches in order."""
    matches: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, 0, -1):
        furthest, diagonal = history[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        start_x = furthest[diagonal + 1] if down else furthest[diagonal - 1]
        start_y = start_x - (diagonal + 1 if down else diagonal - 1)
        while x > start_x + (not down) and y > start_y + down:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = start_x, start_y
    matches.extend((k, k) for k in range(x - 1, -1, -1))
    return matches[::-1]


def _greedy(a: Tokens, b: Tokens) -> list[tuple[int, int]]:
    """Pair each token with its next occurrence after the last pair, if that skips few (linear time)."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for k in range(len(b) - 1, -1, -1):
        places[b[k]].append(k)
    last, pairs = -1, []
    for k, token in enumerate(a):
        later = places[token]
        while later and later[-1] <= last:
            later.pop()
        if later and later[-1] - last <= LONGEST_SKIP:
            last = later.pop()
            pairs.append((k, last))
    return pairs
