"""Keeps the trials in a file, so that a bisection that was stopped can continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, OutputError
from jumar.base.files import explained, write_text
from jumar.comparison.bisect.results import Trial
from jumar.comparison.bisect.units import Unit

FILE = "bisection.json"


class State:
    """Trials by their units, kept in `folder`; `question` is what they answer (script, arguments, device, …).

    Raises OutputError when the folder holds another question's trials (unless `force`) or cannot be written,
    InputError when its file is damaged.
    """

    def __init__(self, folder: Path, question: Mapping[str, Any], *, force: bool = False) -> None:
        self._path = folder / FILE
        self._question = json.loads(json.dumps(question))
        self._trials: dict[str, Trial] = {}
        self.facts: dict[str, Any] = {}
        """Facts that are found once: the reference's losses, the units of the script."""
        self.num_resumed = 0
        with explained(folder, "choose another folder with -o"):
            folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and not force:
            self._read()

    def _read(self) -> None:
        try:
            data = json.loads(self._path.read_text("utf-8"))
            question, trials = data["question"], [_from_json(item) for item in data["trials"]]
            self.facts = data["facts"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{self._path} is damaged ({error}). Start anew with --force.") from error
        if question != self._question:
            other = [name for name in self._question if question.get(name) != self._question[name]]
            raise OutputError(
                f"{self._path} belongs to another bisection (other {', '.join(other) or 'question'}). Choose another "
                "folder with -o, or start anew with --force."
            )
        self._trials = {_key(trial.units): trial for trial in trials}
        self.num_resumed = len(trials)

    def get(self, units: Iterable[Unit]) -> Trial | None:
        """Return the trial of exactly these units, if it was made."""
        return self._trials.get(_key(units))

    def add(self, trial: Trial) -> None:
        """Keep a trial, on the disk too. Raises OutputError."""
        self._trials[_key(trial.units)] = trial
        self.save()

    def save(self) -> None:
        """Write the file; a kill at any moment leaves the old or the new one. Raises OutputError."""
        data = {
            "question": self._question,
            "facts": self.facts,
            "trials": [_to_json(trial) for trial in self._trials.values()],
        }
        with explained(self._path, "free some space"):
            write_text(self._path, json.dumps(data, indent=1) + "\n")

    def __len__(self) -> int:
        return len(self._trials)


def _key(units: Iterable[Unit]) -> str:
    text = "\n".join(sorted(f"{unit.operator} {unit.module_path}" for unit in units))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _to_json(trial: Trial) -> dict[str, Any]:
    return {
        "units": sorted(trial.units),
        "losses": {str(step): loss for step, loss in trial.losses.items()},
        "closed": trial.closed,
        "switched": trial.switched,
        "failed": list(trial.failed),
    }


def _from_json(data: Mapping[str, Any]) -> Trial:
    return Trial(
        units=frozenset(Unit(*item) for item in data["units"]),
        losses={int(step): float(loss) for step, loss in data["losses"].items()},
        closed=float(data["closed"]),
        switched=int(data["switched"]),
        failed=tuple(data["failed"]),
    )
