"""What a run is asked to do, and what it and the processes of the training say to each other in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.files import write_text
from jumar.tune.search.gradients.model import ALL_REDUCE, Link
from jumar.tune.search.gradients.solve import Bounds

if TYPE_CHECKING:
    from jumar.tune.bank.store import Bank

STEPS = 8
"""Backward passes of the training that are watched; the first of them only warm it up."""
SECONDS = 60.0
REQUEST, ANSWER, PROGRESS = "request.json", "answer.json", "progress.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the processes are asked to measure."""

    bounds: Bounds = field(default_factory=Bounds)
    min_gain: float = 0.02
    seconds: float = SECONDS
    """Aim for the pairs of the proposal and DDP's own split."""
    known: Sequence[str] = ()
    """Keys of tasks and machines, `task:machine`, whose answer the bank has: nothing more is measured for them."""
    link: Link | None = None
    """Given instead of measured."""

    @classmethod
    def read(cls, folder: Path) -> Request:
        """Return the request in a folder."""
        data: Mapping[str, Any] = json.loads((folder / REQUEST).read_text("utf-8"))
        link = data["link"]
        return cls(
            **{**data, "bounds": Bounds(**data["bounds"]), "link": None if link is None else Link.from_json(link)}
        )

    def write(self, folder: Path) -> None:
        """Write the request into a folder."""
        link = None if self.link is None else self.link.to_json()
        write_text(folder / REQUEST, json.dumps({**asdict(self), "known": list(self.known), "link": link}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientOptions:
    """What a run is asked to do."""

    bounds: Bounds = field(default_factory=Bounds)
    link: Link | None = None
    """Given; None: measured."""
    num_processes: int | None = None
    min_gain: float = 0.02
    time_budget_s: float | None = None
    repeat: bool = False
    """Measure again what the bank knows."""

    def request(self, bank: Bank) -> Request:
        """Return what the processes of a training are asked."""
        known = [] if self.repeat or self.bounds != Bounds() else [*_known(bank, self.min_gain)]
        seconds = SECONDS if self.time_budget_s is None else min(SECONDS, self.time_budget_s / 3)
        return Request(bounds=self.bounds, min_gain=self.min_gain, seconds=seconds, known=known, link=self.link)


def _known(bank: Bank, min_gain: float) -> Sequence[str]:
    """Return the keys whose answer the bank has: a policy, or none after an at least as eager search."""
    return [
        f"{entry.task.key}:{entry.machine.key}"
        for entry in bank.answers()
        if entry.task.operator == ALL_REDUCE and (entry.policy is not None or entry.min_gain <= min_gain)
    ]


class Told:
    """What a process writes while it runs; only the first rank writes."""

    def __init__(self, folder: Path, *, is_first: bool) -> None:
        self.folder = folder
        self._is_first = is_first
        self._num_steps = -1

    @classmethod
    def of_environment(cls, folder: str) -> Told:
        """Return it for this process, by the launcher's variables."""
        return cls(Path(folder), is_first=os.environ.get("RANK", "0") == "0")

    def steps(self, count: int) -> None:
        """Tell how many backward passes are over."""
        if self._is_first and count > self._num_steps:
            self._num_steps = count
            write_text(self.folder / PROGRESS, json.dumps({"steps": count}), durable=False)

    def answer(self, data: Mapping[str, Any]) -> None:
        """Leave the answer; whichever process has one."""
        write_text(self.folder / ANSWER, json.dumps(data))


def read_json(folder: Path, name: str) -> dict[str, Any] | None:
    """Return what a process left; None where it left nothing."""
    try:
        found: dict[str, Any] = json.loads((folder / name).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found
