"""Going on where an interrupted run stopped: the job file.

    ASCEND_WORK_PATH/aoe_workspace/<name>_<digest>.job

The bank keeps what was decided; the job file keeps what was measured on the way there, screening by screening, so
that a run that was killed in the middle of a long search does not measure them again. The first line says what the
job is, each further line holds one screening: its key, a checksum and the outcome. A line is written and flushed
to the disk before the next candidate begins; what a kill or a full disk left of a last line is cut off when the
file is opened again. Confirmations are never taken from here: what enters the bank was measured by the run that
writes it.

A job is this work of this source on this machine: a model of another place or name has a file of its own, also where
its graphs are the same, and a run with REPEAT_TUNE, which is to measure anew, takes nothing from one without. A
screening's key holds the whole trial (work, incumbent, candidate, seed, effort) and the contents of its data file, so
that an outcome is used only for exactly the same question. Files of another machine or of other work are left alone
and named. A file is removed when its job comes to its own end with everything judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from jumar.base.files import append, try_lock
from jumar.base.findings import Json
from jumar.base.text import counted
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import digest

FOLDER = "aoe_workspace"
SUFFIX = ".job"
SCHEMA = 1
FINAL = frozenset({"measured", "disagrees", "failed", "memory", "died"})
"""Outcomes of a candidate that another try would not change: not `busy`, and not `timeout`, which a busy machine may
have caused. What ended before the candidate began is not its own."""


class JobFile:
    """The job file of one run; `notes` says in sentences what is worth knowing about it.

    A place that cannot be written to, or a file that another process holds, means a run without a job file.
    """

    def __init__(self, path: Path | None, handle: int | None, known: dict[str, Outcome], notes: list[str]) -> None:
        self.path = path
        self.notes = notes
        self.num_reused = 0
        self._handle = handle
        self._known = known

    @classmethod
    def open(
        cls, work_path: Path, *, name: str, work_keys: Iterable[str], machine: Machine, repeat: bool = False
    ) -> JobFile:
        """Open the job file for this work of the source `name` on this machine, or begin one.

        With `repeat` it is that of a run which measures anew what is known.
        """
        head: dict[str, Json] = {
            "jumar_job": SCHEMA,
            "name": name,
            "work": digest(list[Json](sorted(work_keys))),
            "machine": machine.key,
            **({"repeat": True} if repeat else {}),
        }
        folder = work_path / FOLDER
        path = folder / f"{_file_name(name)}_{digest(list(head.values())[1:])[:16]}{SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            note = f"Nothing is kept for going on after an interruption: {folder} cannot be written ({error.strerror})."
            return cls(None, None, {}, [note])
        if not try_lock(handle):
            os.close(handle)
            note = f"Another process carries out the same job ({path.name}); this run keeps no job file of its own."
            return cls(None, None, {}, [note])
        known, notes = _begin(handle, head)
        notes += _others(path, head)
        return cls(path, handle, known, notes)

    @property
    def num_known(self) -> int:
        """Screenings that an earlier run left."""
        return len(self._known)

    def find(self, trial: Trial, *, count: bool = True) -> Outcome | None:
        """Return what became of this very screening before, or None."""
        outcome = self._known.get(trial_key(trial))
        self.num_reused += count and outcome is not None
        return outcome

    def keep(self, trial: Trial, outcome: Outcome) -> None:
        """Write down an outcome that is final. A disk that is full ends the writing, not the run."""
        if self._handle is None or outcome.status not in FINAL or outcome.phase in {"start", "task"}:
            return
        key = trial_key(trial)
        end = os.lseek(self._handle, 0, os.SEEK_END)
        try:
            append(self._handle, _line(key, outcome, trial).encode())
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, end)
            self.notes.append(f"The job file is no longer kept up to date: {error.strerror}.")
            self.close()
            return
        self._known[key] = outcome

    def finish(self) -> None:
        """Remove the file, and its folder when it is empty: the job has come to its end."""
        path, held = self.path, self._handle is not None
        if path is not None and held:
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()
        self.close()

    def close(self) -> None:
        """Let go of the file; it stays for the next run."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> JobFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def trial_key(trial: Trial) -> str:
    """Return a digest of the trial and of the contents of its data file."""
    described = {name: value for name, value in trial.to_json().items() if name != "data"}
    data = getattr(trial, "data", "")
    return digest(described | {"data": data_contents(data) if data else ""})


def data_contents(path: str) -> str:
    """Return a digest of what a data file holds, whatever its name; the path itself when it cannot be looked at."""
    try:
        state = Path(path).stat()
    except OSError:
        return path
    return _fingerprint(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=64)
def _fingerprint(path: str, size: int, _modified: int) -> str:
    """Return a digest of what a file holds: `torch.save` writes a zip archive, whose directory has checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts: list[Json] = [
                [info.filename.partition("/")[2], info.CRC, info.file_size] for info in archive.infolist()
            ]
        return digest(parts)
    except (OSError, zipfile.BadZipFile):
        return f"{path} {size}"


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", Path(name).name).strip("._")[:60] or "job"


def _begin(handle: int, head: Mapping[str, Any]) -> tuple[dict[str, Outcome], list[str]]:
    """Read what an earlier run left and cut off what is not whole; write the first line of a new file."""
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        data = file.read()
    known, end = _read(data, head)
    try:
        if end < len(data):
            os.ftruncate(handle, end)
        if end == 0:
            append(handle, f"{json.dumps(head)}\n".encode())
    except OSError as error:
        return known, [f"The job file cannot be written ({error.strerror}); an interruption costs what is measured."]
    if known:
        return known, [f"Going on where an earlier run stopped: {counted(len(known), 'screening')} taken over."]
    return known, []


def _read(data: bytes, head: Mapping[str, Any]) -> tuple[dict[str, Outcome], int]:
    """Return the outcomes by key and where the last whole line ends; none of a file with another first line."""
    known: dict[str, Outcome] = {}
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True)):
        if number == 0:
            if not line.endswith(b"\n") or _parsed(line) != head:
                return {}, 0
        else:
            entry = _entry(line)
            if entry is None:
                break
            known[entry[0]] = entry[1]
        end += len(line)
    return known, end


def _line(key: str, outcome: Outcome, trial: Trial) -> str:
    """Return the line of a screening. `of` and `candidate` are for who looks on while it runs; nothing is taken from
    them, and files of older releases have none."""
    text = json.dumps(outcome.to_json(), sort_keys=True)
    named = {"of": f"{trial.task.operator} {trial.task.key[:12]}", "candidate": ", ".join(map(str, trial.candidate))}
    return json.dumps({"trial": key, "crc": _checksum(key, text), "outcome": text, **named}) + "\n"


def _checksum(key: str, outcome: str) -> int:
    return zlib.crc32(f"{key} {outcome}".encode())


def _entry(line: bytes) -> tuple[str, Outcome] | None:
    found = _parsed(line) if line.endswith(b"\n") else None
    try:
        if found is None or _checksum(found["trial"], found["outcome"]) != found["crc"]:
            return None
        return str(found["trial"]), Outcome.from_json(json.loads(found["outcome"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _others(own: Path, own_head: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each job file of a source of the same name that is not this job's."""
    notes = []
    name = own_head["name"]
    for path in sorted(own.parent.glob(f"{_file_name(name)}_{'[0-9a-f]' * 16}{SUFFIX}")):
        if path == own:
            continue
        try:
            with path.open("rb") as file:
                head = _parsed(file.readline(1 << 16)) or {}
        except OSError:
            continue
        if head.get("name", name) != name:
            notes.append(f"{path.name} is left alone: it is of {head.get('name')}.")
        elif head.get("machine") != own_head["machine"]:
            notes.append(f"{path.name} is left alone: it was measured on another machine or with other versions.")
        elif head.get("work") == own_head["work"]:
            which = "with" if head.get("repeat") else "without"
            notes.append(f"{path.name} is left alone: it is of a run {which} REPEAT_TUNE=True.")
        else:
            notes.append(f"{path.name} is left alone: it is of other operators or graphs than {name} holds now.")
    return notes
