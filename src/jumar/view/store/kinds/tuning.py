"""Recognises what tuning leaves while it runs: the vendor's result file, and the journal of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jumar.base.text import counted
from jumar.recording.documents import mapping, read
from jumar.view.data.journal import parts_of, read_journal
from jumar.view.store.folder import Listing
from jumar.view.store.items import Description, Spotted, State

_RESULT = re.compile(r"aoe_result_(opat|sgat)_\d+_pid\d+\.json")
_SUFFIX = ".job"
_MARK = b'"jumar_job"'


def spot(listing: Listing) -> Iterator[Spotted]:
    """Yield the result files and journals in a folder."""
    for name in sorted(listing.files):
        path = listing.path / name
        if _RESULT.fullmatch(name):
            yield Spotted(kind="tuning", path=path, form="json", watched=(path,), describe=result_file)
        elif name.endswith(_SUFFIX) and _is_journal(path):
            yield Spotted(kind="tuning", path=path, form="journal", watched=(path,), describe=journal)


def _is_journal(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK in file.read(64)
    except OSError:
        return False


def result_file(path: Path) -> Description:
    """Describe a vendor's result file."""
    parts = parts_of(mapping(read(path)) if not _is_list(path) else {"": read(path)})
    part = next((parts[name] for name in ("OPAT", "SGAT") if name in parts), {})
    status = str(part.get("opat_tuning_result", "")) or ("tuning ended" if "tuning_time(s)" in parts["basic"] else "")
    state: State = "failed" if "failed" in status else "fine" if "tuning_time(s)" in parts["basic"] else "running"
    summary = part.get("repo_summary", {})
    told = ", ".join(
        f"{summary[name]} {words}"
        for name, words in (("repo_add_num", "added"), ("repo_update_num", "updated"), ("total_num", "in all"))
        if name in summary
    )
    headline = (
        f"{status[:1].upper()}{status[1:] or 'The tuning goes on, or it was ended'}{f': {told}' if told else ''}."
    )
    return Description(title=path.name, state=state, headline=headline)


def _is_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"["


def journal(path: Path) -> Description:
    """Describe a journal: a tuning that runs, or was interrupted; one that came to its end has none."""
    found = read_journal(path)
    faster = sum(one.outcome.gain is not None and one.outcome.gain.ratio_low > 1 for one in found.screenings)
    headline = f"{counted(len(found.screenings), 'candidate')} measured so far, {faster} of them faster."
    return Description(title=f"Tuning of {found.name}", state="running", headline=headline)
