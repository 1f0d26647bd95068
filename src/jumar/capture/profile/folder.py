"""The folder of a profile and its `profile.json`, which says at any time what is finished. Imports no torch.

Each process that has something to say replaces `profile.json` as a whole, under a lock on the folder. A rank that was
killed still says `running`; `settle` turns that into `killed` when the run is known to be over.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, OutputError
from jumar.base.files import lock_folder, write_text
from jumar.capture.profile.plan import ProfilePlan

PROFILE_FILE = "profile.json"
FORMAT, VERSION = "jumar-profile", 1
ABOUT = "A rank that is `running` and whose process is gone was killed. Files that are listed are whole."
_PATIENCE_S = 5.0
"""How long to wait for the lock. A process that holds it writes a few kilobytes."""


def create(plan: ProfilePlan, facts: Mapping[str, Any]) -> None:
    """Make the folder with a `profile.json` that says `running`.

    Raises OutputError when it cannot be written, is there already (without `plan.force`), or holds something that is
    not a profile (even with it).
    """
    folder = Path(plan.out)
    _clear(folder, plan.force)
    asked = {name: value for name, value in asdict(plan).items() if name not in {"out", "force", "prepared", "command"}}
    document = {
        "format": FORMAT, "version": VERSION, "about": ABOUT, "status": "running",
        "command": list(plan.command), "asked": asked, **facts, "ranks": {},
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, document)
    except OSError as error:
        raise OutputError(
            f"the profile's folder {folder} cannot be written: {error.strerror}. Choose another with -o."
        ) from error


def read(folder: Path) -> dict[str, Any]:
    """Return the content of `profile.json`. Raises InputError where there is none that can be read."""
    try:
        document = json.loads((folder / PROFILE_FILE).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} holds no profile: {error}. Make one with jumar profile -o {folder} SCRIPT."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{folder / PROFILE_FILE} is not Jumar's. Name the folder of a profile.")
    return document


def launch_of(environ: Mapping[str, str]) -> str:
    """Return what the ranks of one launch have in common, and no earlier launch has; empty outside of a launcher."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    return ":".join(environ.get(name, "") for name in names) if "MASTER_PORT" in environ else ""


def wait_for(folder: Path, launch: str, patience_s: float) -> None:
    """Wait until rank 0 of this launch has made the folder. Raises OutputError when it does not."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with suppress(InputError):
            if read(folder).get("launch") == launch:
                return
        time.sleep(0.05)
    raise OutputError(f"rank 0 made no profile in {folder} within {patience_s:g} s. Begin one there, too.")


def claim(folder: Path, rank: int) -> int:
    """Take a rank for this process; return the number of the process that has it. Raises OSError, InputError."""
    with _changed(folder) as document:
        facts = document["ranks"].setdefault(str(rank), {"pid": os.getpid(), "status": "running"})
    return int(facts["pid"])


def update(folder: Path, rank: int, facts: Mapping[str, Any], world_size: int = 1) -> None:
    """Add facts to a rank. Raises OSError, InputError."""
    with _changed(folder) as document:
        document["ranks"].setdefault(str(rank), {"pid": os.getpid()}).update(facts)
        document["world_size"] = max(world_size, document.get("world_size", 1), len(document["ranks"]))
        document["status"] = _status(document)


def settle(folder: Path, status: str) -> dict[str, Any]:
    """Say that the run is over and return the document: who still says `running` was killed.

    `status` is that of a run of which no rank was profiled. Raises OSError, InputError.
    """
    with _changed(folder) as document:
        for facts in document["ranks"].values():
            if facts["status"] == "running":
                facts["status"] = "killed"
        document["status"] = _status(document) if document["ranks"] else status
    return document


def _status(document: Mapping[str, Any]) -> str:
    """Return `running` while a rank runs, else the status of the rank that ended worst."""
    found = {facts["status"] for facts in document["ranks"].values()}
    worst_first = ("running", "killed", "raised", "interrupted", "exited", "stopped", "finished")
    return next((status for status in worst_first if status in found), "running")


@contextmanager
def _changed(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the document for changes, which are written at the end; one process at a time."""
    deadline = time.monotonic() + _PATIENCE_S
    handle = lock_folder(folder)
    while handle is None and hasattr(os, "O_DIRECTORY") and time.monotonic() < deadline:
        time.sleep(0.01)
        handle = lock_folder(folder)
    try:
        document = read(folder)
        yield document
        _write(folder, document)
    finally:
        if handle is not None:
            os.close(handle)


def _write(folder: Path, document: Mapping[str, Any]) -> None:
    write_text(folder / PROFILE_FILE, json.dumps(document, indent=2) + "\n")


def _clear(folder: Path, force: bool) -> None:
    """Remove a profile that is to be replaced. Raises OutputError."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not force:
            raise OutputError(f"{folder} exists and is not replaced; choose another folder with -o, or pass --force.")
        try:
            read(folder)
        except InputError as error:
            raise OutputError(
                f"{folder} is no profile, and --force replaces nothing else. Choose another folder."
            ) from error
        shutil.rmtree(folder)
    except OSError as error:
        raise OutputError(f"{folder} cannot be replaced: {error.strerror}. Choose another folder with -o.") from error
