"""What each run's own numbers say of its rules: how a state, an averaged copy and the parameters follow from the step
before.

Two runs that rounding has driven apart still follow the same rules. A decay or a learning rate that no setting shows,
and a state that was changed between two steps, are found in each run by itself: the coefficients of

    state  = keep · state before + add · gradient (or its square) + decay · parameter before
    copy   = copy before + share · (parameter - copy before)
    change = rate · direction + decay · parameter before

are fitted over the sampled elements (least squares, each tensor weighed by its size).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jumar.comparison.drift.pairing import Array, Pairing, Rows

FITS = 1e-3
"""Relative residual up to which a rule holds."""
FEWEST = 12
"""Sampled elements from which a fit is trusted."""
Key = tuple[str, str, str]
"""Rule (`keep`, `add`, `share`, `rate`), owner and slot."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A fitted coefficient and how far it may be off (one standard deviation)."""

    value: float
    deviation: float


Choices = dict[tuple[str, str], int]
"""Which of the possible rules fitted best before, by owner and slot."""


def coefficients(pairing: Pairing, now: Array, before: Array, choices: Choices) -> dict[Key, Coefficient]:
    """Return what one run's step says of its rules; `now` and `before` are its numbers by the pairing's rows."""
    return dict(_all(pairing, now, before, choices))


def _all(pairing: Pairing, now: Array, before: Array, choices: Choices) -> Iterator[tuple[Key, Coefficient]]:
    numbers = pairing.numbers
    states: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    copies: dict[str, list[tuple[int, int]]] = {}
    for (role, owner, name, slot), row in numbers.items():
        parameter = numbers.get(("parameter", "", name, ""))
        gradient = numbers.get(("gradient", owner, name, ""))
        if role == "state" and gradient is not None and parameter is not None and pairing.sizes[row] > 1:
            states.setdefault((owner, slot), []).append((row, gradient, parameter))
        elif role == "copy" and parameter is not None:
            copies.setdefault(owner, []).append((row, parameter))
    for (owner, slot), found in states.items():
        rows, gradients, parameters = (np.array(column, np.intp) for column in zip(*found, strict=True))
        weights = _weights(now, rows, pairing.sizes)
        state, slope, was = before[rows, 1:], now[gradients, 1:], before[parameters, 1:]
        tries = ((state, np.square(slope)), (state, slope), (state, slope, was))
        fitted = _best(now[rows, 1:], tries, weights, choices, (owner, slot), FITS)
        for name, coefficient in zip(("keep", "add"), fitted, strict=False):
            yield (name, owner, slot), coefficient
    for owner, pairs in copies.items():
        rows, parameters = (np.array(column, np.intp) for column in zip(*pairs, strict=True))
        for slot, share in _copy_rule(now, before, rows, parameters):
            yield ("share", owner, slot), share
    yield from _rates(pairing, now, before, states, choices)


def _best(
    result: Array,
    tries: Sequence[Sequence[Array]],
    weights: Array,
    choices: Choices,
    key: tuple[str, str],
    allowed: float,
) -> Sequence[Coefficient]:
    """Return the coefficients of the rule that fits; the one that fitted in an earlier step is tried alone."""
    chosen = choices.get(key)
    if chosen is not None:
        fit = _fit(result, tries[chosen], weights)
        if fit is not None and fit[1] < allowed:
            return fit[0][:2]
    fits = [(fit[1], number, fit[0]) for number, one in enumerate(tries) if (fit := _fit(result, one, weights))]
    residual, number, found = min(fits, key=lambda one: one[0], default=(np.inf, 0, []))
    if residual >= allowed or (chosen is not None and number != chosen):
        return ()
    choices[key] = number
    return found[:2]


def _copy_rule(now: Array, before: Array, rows: Rows, parameters: Rows) -> list[tuple[str, Coefficient]]:
    """Return the share, and whether it is of the parameters of the step `before` or of those `now`: a copy that is
    updated after the optimizer's step belongs to the step before."""
    was = before[rows, 1:]
    moved = now[rows, 1:] - was
    if not np.any(moved):
        return []
    weights = np.ones_like(moved)
    tries = [
        (slot, _fit(moved, (side[parameters, 1:] - was,), weights)) for slot, side in (("before", before), ("now", now))
    ]
    found = [(fit[1], slot, fit[0][0]) for slot, fit in tries if fit is not None and fit[1] < 0.1]
    return [min(found, key=lambda one: one[0])[1:]] if found else []


def _rates(
    pairing: Pairing,
    now: Array,
    before: Array,
    states: dict[tuple[str, str], list[tuple[int, int, int]]],
    choices: Choices,
) -> Iterator[tuple[Key, Coefficient]]:
    """Yield the rate at which parameters follow their optimizer's state, or its gradients where it has none."""
    numbers = pairing.numbers
    for owner in dict.fromkeys(key[1] for key in numbers if key[0] == "gradient"):
        slots = [slot for other, slot in states if other == owner]
        names = [name for role, other, name, _ in numbers if role == "gradient" and other == owner]
        names = [name for name in names if ("parameter", "", name, "") in numbers]
        names = [name for name in names if all(("state", owner, name, slot) in numbers for slot in slots)]
        if not names:
            continue
        parameters = np.array([numbers["parameter", "", name, ""] for name in names], np.intp)
        moved = now[parameters, 1:] - before[parameters, 1:]
        columns = [now[np.array([numbers["gradient", owner, name, ""] for name in names], np.intp), 1:]]
        read = [now[np.array([numbers["state", owner, name, slot] for name in names], np.intp), 1:] for slot in slots]
        columns += read
        with np.errstate(all="ignore"):
            columns += [a / np.sqrt(np.abs(b)) for a in (*read, columns[0]) for b in read if a is not b]
        scale = np.sqrt(np.mean(np.square(moved), axis=1, keepdims=True))
        weights = np.broadcast_to(1 / np.where(scale > 0, scale, np.inf), moved.shape)
        tries = [(column, before[parameters, 1:]) for column in columns]
        found = _best(moved, tries, weights, choices, (owner, ""), 20 * FITS)
        if found:
            yield ("rate", owner, ""), found[0]


def _weights(now: Array, rows: Rows, sizes: Array) -> Array:
    with np.errstate(all="ignore"):
        scale = now[rows, 0] / np.sqrt(sizes[rows])
        weights = np.where((scale > 0) & np.isfinite(scale), 1 / scale, 0.0)
    return np.repeat(weights[:, None], now.shape[1] - 1, axis=1)


def _fit(result: Array, columns: Sequence[Array], weights: Array) -> tuple[list[Coefficient], float] | None:
    """Return the coefficients and the residual relative to the result; None where there is too little to go by."""
    with np.errstate(all="ignore"):
        left = np.stack([(column * weights).ravel() for column in columns], axis=1)
        right = (result * weights).ravel()
        good = np.isfinite(right) & np.all(np.isfinite(left), axis=1) & (right != 0)
        left, right = left[good], right[good]
        scale = np.sqrt(np.square(left).sum(axis=0)) if len(right) else np.zeros(len(columns))
        if len(right) < max(FEWEST, 4 * len(columns)) or not np.all(np.isfinite(scale)) or not np.all(scale > 0):
            return None
        left = left / scale
        normal = left.T @ left
        if np.linalg.cond(normal) > 1e10:
            return None
        inverse = np.linalg.inv(normal)
        values = inverse @ (left.T @ right)
        residual = right - left @ values
        # NOTE: a few elements (a gradient that underflowed) must not decide, so the middle of the residuals is taken
        spread = float(np.median(np.abs(residual))) * 1.4826
        whole = float(np.sqrt(np.mean(np.square(residual))))
        deviations = np.sqrt(np.diag(inverse)) * max(whole, spread) / scale
        size = float(np.sqrt(np.mean(np.square(right))))
    found = [Coefficient(float(v), float(d)) for v, d in zip(values / scale, deviations, strict=True)]
    return found, whole / size if size else np.inf
