"""Which event of a lane holds which: parents, own times and waits, without a Python loop over events.

An event's parent is the nearest event before it that ends no earlier than it. That is the rule of
`torch.autograd.profiler`, so that own times agree with `key_averages()`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Integers, Kind

NO_PARENT = -1


def in_order(lanes: Integers, starts: Integers, durations: Integers) -> Integers:
    """Return the order that `parents` needs: by lane, then by begin, the longer first."""
    return np.lexsort((-durations, starts, lanes))


def parents(lanes: Integers, starts: Integers, durations: Integers) -> Integers:
    """Return for each event the index of the event that holds it, or -1. Events are in the order of `in_order`.

    Every event first points at the one before it. One that ends too early is skipped along its own pointer: all
    between it and its target end earlier still. Pointers double, so the rounds grow with the depth and not the length.
    """
    size = len(starts)
    ends = np.append(starts + durations, np.iinfo(np.int64).max)
    pointers = np.arange(-1, size)
    pointers[:-1][np.concatenate(([True], lanes[1:] != lanes[:-1]))[:size]] = size
    pointers[size] = size
    open_ = np.flatnonzero(ends[pointers[:-1]] < ends[:-1])
    while len(open_):
        pointers[open_] = pointers[pointers[open_]]
        open_ = open_[ends[pointers[open_]] < ends[open_]]
    found = pointers[:-1]
    while (touching := (found < size) & (ends[found] <= starts)).any():  # of length 0, at the end of its holder
        found[touching] = pointers[found[touching]]
    found[found == size] = NO_PARENT
    return found


def children_ns(holders: Integers, durations: Integers) -> Integers:
    """Return for each event the time of the events directly in it, in nanoseconds."""
    inside = holders != NO_PARENT
    sums = np.zeros(len(holders), np.int64)
    np.add.at(sums, holders[inside], durations[inside])
    return sums


def nearest(holders: Integers, wanted: npt.NDArray[np.bool_]) -> Integers:
    """Return for each event the innermost of the wanted events that hold it, itself included; -1 for none."""
    size = len(holders)
    pointers = np.append(np.where(wanted, np.arange(size), holders), size)
    pointers[pointers == NO_PARENT] = size
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            break
        pointers = further
    found = pointers[:size]
    return np.asarray(np.where(found == size, NO_PARENT, found), np.int64)


def that_wait(holders: Integers, kinds: npt.NDArray[np.uint8], may_wait: npt.NDArray[np.bool_]) -> Integers:
    """Return the operators that read a value of a device: those that hold a call of the runtime that waits."""
    found: list[Integers] = []
    climbing = holders[kinds == Kind.WAIT]
    while len(climbing := np.unique(climbing[climbing != NO_PARENT])):
        found.append(climbing[may_wait[climbing]])
        climbing = holders[climbing]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def spine(holders: Integers, lanes: Integers) -> Integers:
    """Return the events that a later one may still lie in: the last of each lane and all that hold it."""
    last = np.flatnonzero(np.append(lanes[1:] != lanes[:-1], True)[: len(lanes)])
    found: list[Integers] = []
    while len(last):
        found.append(last)
        last = holders[last]
        last = last[last != NO_PARENT]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def lanes_of(numbers: Integers, kinds: npt.NDArray[np.uint8]) -> Integers:
    """Return lanes in which events nest: Python's functions apart, which formats write after all operators."""
    return np.asarray(numbers.astype(np.int64) * 2 + (kinds == Kind.PYTHON), np.int64)
