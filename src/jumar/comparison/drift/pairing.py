"""Pairs the places of two histories: `Pairing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from jumar.recording.history.model import ROLES, HistoryStep, Place

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Group:
    """Places that are judged together. `order` is that of the training step."""

    order: int
    role: str
    owner: str
    slot: str

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        if self.role == "state":
            return f"{self.slot} of {self.owner}"
        if self.role == "copy":
            return f"averaged copy of {self.owner}"
        if self.role == "gradient":
            return f"gradients of {self.owner}" if self.owner else "gradients"
        return {"buffer": f"buffers {self.slot}", "clipped": "norm before clipping", "scale": "loss scale"}.get(
            self.role, f"{self.role}s" if self.role != "loss" else "loss"
        )


class Pairing:
    """The places that two steps have in common, by row. Owners of the target are named as those of the reference."""

    def __init__(self, reference: Sequence[Place], target: Sequence[Place], owners: Mapping[str, str]) -> None:
        of_target = {
            (place.role, owners.get(place.owner, place.owner), place.name, place.slot): row
            for row, place in enumerate(target)
        }
        keys = [(place.role, place.owner, place.name, place.slot) for place in reference]
        rows = [
            (row, of_target[key])
            for row, key in enumerate(keys)
            if key in of_target and target[of_target[key]].shape == reference[row].shape
        ]
        self.places = [reference[row] for row, _ in rows]
        self.rows: tuple[Rows, Rows] = (
            np.array([row for row, _ in rows], np.intp),
            np.array([row for _, row in rows], np.intp),
        )
        self.has_samples = np.array([target[b].order == reference[a].order for a, b in rows], bool)
        self.sizes: Array = np.array([float(max(1, prod(place.shape))) for place in self.places])

    @cached_property
    def groups(self) -> dict[Group, Rows]:
        """The rows of each group, in the order of a training step."""
        found: dict[Group, list[int]] = {}
        for row, place in enumerate(self.places):
            slot = place.name.rpartition(".")[2] if place.role == "buffer" else place.slot
            found.setdefault(Group(ROLES.index(place.role), place.role, place.owner, slot), []).append(row)
        return {group: np.array(found[group], np.intp) for group in sorted(found, key=lambda group: group.order)}

    @cached_property
    def numbers(self) -> dict[tuple[str, str, str, str], int]:
        """The row of each place whose samples can be compared."""
        return {
            (place.role, place.owner, place.name, place.slot): row
            for row, place in enumerate(self.places)
            if self.has_samples[row]
        }

    def values(self, reference: HistoryStep, target: HistoryStep) -> tuple[Array, Array]:
        """Return the numbers of both sides by row."""
        sides = (reference.values, target.values)
        a, b = (side.astype(np.float64)[rows] for side, rows in zip(sides, self.rows, strict=True))
        return a, b

    def distances(self, a: Array, b: Array) -> dict[Group, float]:
        """Return how far each group is apart, relative to the reference's norm; inf where one side alone is not finite.

        The square of the distance is estimated by the samples, and is at least that of the norms.
        """
        with np.errstate(all="ignore"):
            apart = np.square(b[:, 0] - a[:, 0])
            sampled = np.mean(np.square(b[:, 1:] - a[:, 1:]), axis=1) * self.sizes
            apart = np.where(self.has_samples & np.isfinite(sampled), np.fmax(apart, sampled), apart)
            broken = np.isfinite(a[:, 0]) != np.isfinite(b[:, 0])
            apart = np.where(broken, np.inf, np.nan_to_num(apart, nan=0.0, posinf=0.0))
            norms = np.nan_to_num(np.square(a[:, 0]), nan=0.0, posinf=0.0)
        found = {}
        for group, rows in self.groups.items():
            norm, distance = float(norms[rows].sum()), float(apart[rows].sum())
            found[group] = float(np.sqrt(distance / norm)) if norm else (np.inf if distance else 0.0)
        return found


def owners_of(reference: HistoryStep, target: HistoryStep) -> dict[str, str]:
    """Return the reference's name of each of the target's optimizers: those of other classes are paired in order."""
    left = [name for name in reference.calls if name not in target.calls]
    right = [name for name in target.calls if name not in reference.calls]
    return dict(zip(right, left, strict=False))
