"""Recognises folders: recordings, ports, profiles, and banks, which are a file that stands for its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jumar.base.errors import RecordingError
from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.port.layout import MARKER, Layout
from jumar.recording.documents import read, read_run_end, read_run_info
from jumar.recording.schema import RUN_FILE, STEPS_FOLDER, RunEnd
from jumar.tune.bank.location import FILE_NAME
from jumar.view.store.folder import Listing
from jumar.view.store.items import Description, Spotted, State
from jumar.view.store.kinds.documents import told_findings

_STEP = re.compile(r"step-(\d+)-rank-(\d+)\.parquet")
_END = re.compile(r"end-rank-(\d+)\.json")
_PROFILE = "profile.json"
_VENDORS = "_ascend_pt"
_OUTPUT = "ASCEND_PROFILER_OUTPUT"
MOST_WATCHED = 64
_TRACE = re.compile(r".+\.pt\.trace\.json(\.gz)?|trace_view\.json")
_PORTED = ("reference", "npu", "cuda", "cpu")
"""What is looked into of a port: its recordings, not the copies of the user's files."""
END_STATES: dict[str, State] = {
    "finished": "fine", "stopped": "fine", "exited": "fine", "raised": "failed", "interrupted": "attention",
}  # fmt: skip


def spot(listing: Listing) -> Iterator[Spotted]:
    """Yield what a folder is, and the bank in it."""
    path = listing.path
    if MARKER in listing.files:
        page = Layout(path)
        yield Spotted(
            kind="port", path=path, form="folder", watched=(page.findings, page.page), describe=port, within=_PORTED
        )
    elif RUN_FILE in listing.files and STEPS_FOLDER in listing.folders:
        ends = sorted(name for name in listing.files if _END.fullmatch(name))
        watched = (path / RUN_FILE, path / STEPS_FOLDER, *(path / name for name in ends))
        yield Spotted(kind="recording", path=path, form="folder", watched=watched, describe=recording)
    elif _is_profile(listing):
        files = [path / name for name in (*sorted(listing.files), *sorted(listing.folders))][:MOST_WATCHED]
        # A trace that somebody put among other results does not close the folder; a profiler's own folder does.
        within = () if _PROFILE in listing.files or path.name.endswith(_VENDORS) else None
        yield Spotted(kind="profile", path=path, form="folder", watched=files, describe=profile, within=within)
    if FILE_NAME in listing.files:
        yield Spotted(kind="bank", path=path / FILE_NAME, form="folder", watched=(path / FILE_NAME,), describe=bank)


def _is_profile(listing: Listing) -> bool:
    vendors = any(name.endswith(_VENDORS) for name in listing.folders) and _PROFILE in listing.files
    traced = any(_TRACE.fullmatch(name) for name in listing.files)
    own = _PROFILE in listing.files and any(name.startswith("rank-") for name in listing.files)
    return vendors or traced or own or listing.path.name.endswith(_VENDORS) or _OUTPUT in listing.folders


def steps_of(path: Path) -> dict[int, list[int]]:
    """Return the steps of each rank of a recording by the names of their files, which may be damaged."""
    found: dict[int, list[int]] = {}
    for file in (path / STEPS_FOLDER).iterdir():
        if match := _STEP.fullmatch(file.name):
            found.setdefault(int(match[2]), []).append(int(match[1]))
    return {rank: sorted(steps) for rank, steps in sorted(found.items())}


def ends_of(path: Path) -> tuple[dict[int, RunEnd], list[str]]:
    """Return how each rank ended, and a sentence for each file that says so and cannot be read."""
    ends: dict[int, RunEnd] = {}
    damaged = []
    for file in sorted(path.glob("end-rank-*.json")):
        match = _END.fullmatch(file.name)
        try:
            if match is not None:
                ends[int(match[1])] = read_run_end(file)
        except RecordingError:
            damaged.append(f"{file.name} is cut short or damaged.")
    return ends, damaged


def recording(path: Path) -> Description:
    """Describe a recording by its first and last files; the steps are counted and not read."""
    info = read_run_info(path)
    steps = steps_of(path)
    ends, damaged = ends_of(path)
    numbers = sorted({step for of_rank in steps.values() for step in of_rank})
    span = f"{counted(len(numbers), 'step')}{f', {numbers[0]} to {numbers[-1]}' if len(numbers) > 1 else ''}"
    state, ended = _ended(set(steps), ends)
    ranks = len(steps) or info.num_ranks
    facts: list[tuple[str, Cell]] = [("device", info.device), ("values", info.values), ("ranks", ranks)]
    headline = f"{span}. {ended}{' ' + ' '.join(damaged) if damaged else ''}"
    command = " ".join(info.command) or path.name
    errors = " ".join(end.error[-2000:] for end in ends.values())
    words = f"{info.framework} {info.soc} {info.torch_version} {errors}"
    return Description(title=command, state=state, headline=headline, facts=facts, text=words)


def _ended(ranks: set[int], ends: dict[int, RunEnd]) -> tuple[State, str]:
    if not ends:
        return "running", "The run goes on, or it was killed."
    for end in ends.values():
        if END_STATES[end.status] != "fine" or end.exit_code:
            last = end.error.strip().splitlines()
            why = f": {last[-1][:160]}" if last else f" with exit code {end.exit_code}" if end.exit_code else ""
            return "failed" if END_STATES[end.status] != "attention" else "attention", f"The run {end.status}{why}."
    if missing := sorted(ranks - set(ends)):
        return "running", f"Rank {missing[0]} goes on, or it was killed."
    return "fine", f"The run {next(iter(ends.values())).status}."


def port(path: Path) -> Description:
    """Describe a port by the page that it wrote; one without is going on, or was killed."""
    layout = Layout(path)
    if not layout.findings.is_file():
        return Description(title=path.name, state="running", headline="The port goes on, or it was killed.")
    document = read(layout.findings)
    page = document["page"]
    verdict = page["verdict"]
    facts = [("findings", len(document["findings"]))]
    return Description(
        title=str(page["title"]), state=verdict["status"], headline=str(verdict["headline"]), facts=facts,
        text=told_findings(document),
    )  # fmt: skip


def profile(path: Path) -> Description:
    """Describe a profile: of `jumar profile` by what it says of itself, of another profiler by its name."""
    own = path / _PROFILE
    if not own.is_file():
        return Description(title=path.name, headline="A profile; open it to see its bottlenecks.")
    document = read(own)
    status = str(document.get("status", ""))
    ranks = document.get("ranks", {})
    command = " ".join(map(str, document.get("command", ()))) or path.name
    if status == "running":
        return Description(title=command, state="running", headline="The profiled run goes on, or it was killed.")
    problems = [text for facts in ranks.values() for text in facts.get("not_covered", ())]
    headline = f"{counted(len(ranks), 'rank')} profiled; the run {status or 'ended'}."
    state: State = "failed" if status == "raised" else "none"
    return Description(title=command, state=state, headline=headline, text=" ".join(map(str, problems)))


def bank(path: Path) -> Description:
    """Describe a bank. It is only looked into where somebody opens it: a database may be large, or locked."""
    return Description(
        title=f"Knowledge bank in {path.parent.name}", headline="What tuning found, by operator and machine."
    )
