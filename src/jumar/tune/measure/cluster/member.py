"""What runs on a machine of the cluster: a worker process of tuning, and one lock a machine.

Imported on workers too, where only this Jumar and its dependencies are.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jumar.base.files import write_bytes
from jumar.base.host import usable_cores
from jumar.tune.measure.worker.client import Turns, Worker
from jumar.tune.measure.worker.messages import Limits, Trial
from jumar.tune.model.machine import this_machine
from jumar.tune.model.process import OwnFolder
from jumar.tune.providers import load_provider


class Member:
    """One worker of the cluster; Ray makes it an actor. Everything it takes and gives is plain data."""

    def __init__(self, provider_paths: Sequence[str], device: str, num_threads: int) -> None:
        # Ray tells OpenMP to use the CPUs that were reserved, which is none; PyTorch is not imported yet.
        os.environ["OMP_NUM_THREADS"] = str(min(num_threads, usable_cores()))
        self._worker = Worker([load_provider(path) for path in provider_paths], Turns())
        self._device = device
        self._folder = OwnFolder("jumar-member-")

    def describe(self) -> dict[str, Any]:
        """Return this machine's name, process and what measurements hold for."""
        return {"host": platform.node(), "pid": os.getpid(), "machine": asdict(this_machine(self._device))}

    def has(self, contents: str) -> bool:
        """Tell whether the data file with these contents is here."""
        return self._path(contents).exists()

    def put(self, contents: str, data: bytes) -> None:
        """Keep a data file."""
        write_bytes(self._path(contents), data)

    def run(self, trial: dict[str, Any], limits: dict[str, Any], contents: str) -> dict[str, Any]:
        """Measure a trial while nothing else is measured on this machine; return its outcome.

        It is `busy` when others measure there for as long as the trial itself may take.
        """
        asked = Trial.from_json(trial)
        if contents:
            asked = replace(asked, data=str(self._path(contents)))
        return self._worker.run(asked, Limits(**limits)).to_json()

    def clear(self) -> None:
        """Remove the data files, also while a trial is measured; the worker process ends with this one."""
        self._folder.remove()

    def _path(self, contents: str) -> Path:
        return self._folder.path / f"{contents}.pt"
