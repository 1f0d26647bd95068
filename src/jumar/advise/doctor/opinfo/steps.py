"""`first_step_end`: where the first training step ends in a sequence of operators, by its repetition.

A plog does not mark steps. Steps repeat the same types of operators, whatever their shapes; so the end of the sequence
is compared with itself, moved by every number of operators (the Z function of the sequence read backwards).
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST_SHARE = 0.5
"""Share of the sequence that the steps must cover …"""
LEAST_TYPES = 0.8
"""… and share of the types that one step must have: the last part of one step, which repeats for each parameter, has
few."""


def first_step_end(types: Sequence[int]) -> int | None:
    """Return the index after the first whole step, None where the sequence does not repeat.

    What comes before the steps (initialisation) counts to the first.
    """
    number = len(types)
    reversed_types = types[::-1]
    same = z_function(reversed_types)
    wanted = LEAST_TYPES * len(set(types))
    for period in range(1, number // 2 + 1):
        covered = same[period] + period
        if same[period] < period or covered < LEAST_SHARE * number:
            continue
        if len(set(reversed_types[:period])) >= wanted:
            return number - covered + period
    return None


def z_function(values: Sequence[int]) -> list[int]:
    """Return for each index how many values from there on equal those from the beginning on (0 for index 0)."""
    number = len(values)
    found = [0] * number
    left = right = 0
    for index in range(1, number):
        size = min(right - index, found[index - left]) if index < right else 0
        while index + size < number and values[size] == values[index + size]:
            size += 1
        found[index] = size
        if index + size > right:
            left, right = index, index + size
    return found
