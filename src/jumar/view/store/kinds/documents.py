"""Recognises JSON documents that a command printed with `--json` and somebody saved, by the keys that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted, size_text
from jumar.base.text.digits import Cell
from jumar.port.layout import MARKER
from jumar.recording.documents import DocumentError, read
from jumar.recording.schema import RUN_FILE
from jumar.view.store.folder import Listing
from jumar.view.store.items import Description, Kind, Spotted, State

LIMIT_BYTES = 64 << 20
"""A greater document is named and not read."""
_HEAD_BYTES = 400
_MAP = b"jumar export map"
_MOST_TOLD = 200
_KEYS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("comparison", frozenset({"first_divergence", "operators", "reference", "target"})),
    ("overflow", frozenset({"origins", "saturations"})),
    ("tuning", frozenset({"tasks", "machine", "min_gain"})),
    ("tuning", frozenset({"forms", "buckets_before", "min_gain"})),
    ("bank", frozenset({"entries", "bank"})),
    ("doctor", frozenset({"num_checked", "not_checked", "facts"})),
    ("doctor", frozenset({"first", "files", "notes"})),
    ("advice", frozenset({"not_checked", "saves_at_most_ms"})),
    ("advice", frozenset({"ranks", "findings"})),
    ("checkpoint", frozenset({"num_targets", "num_matched", "missing"})),
)
"""The first whose keys a document has."""
STATES: dict[str, State] = {"agree": "fine", "differ": "attention", "incomparable": "attention", "diverge": "failed"}


def spot(listing: Listing) -> Iterator[Spotted]:
    """Yield the saved documents in a folder that is not itself a result."""
    if RUN_FILE in listing.files or MARKER in listing.files:
        return
    for name in sorted(listing.files):
        path = listing.path / name
        if name.endswith(".json") and all(mark in _head(path) for mark in (b'"schema_version"', b'"jumar_version"')):
            yield Spotted(kind="report", path=path, form="json", watched=(path,), describe=document)
        elif name.endswith(".toml") and _MAP in _head(path):
            yield Spotted(kind="checkpoint", path=path, form="text", watched=(path,), describe=name_map)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def load(path: Path) -> Mapping[str, Any]:
    """Return a saved document. Raises InputError for one that is too great, cut short, or no object."""
    size = path.stat().st_size
    if size > LIMIT_BYTES:
        raise InputError(f"{path.name} has {size_text(size)}, and at most {size_text(LIMIT_BYTES)} are read.")
    try:
        data = read(path)
    except DocumentError as error:
        raise InputError(f"{path.name} is cut short or damaged: {error}.") from error
    if not isinstance(data, dict):
        raise InputError(f"{path.name} must hold a JSON object.")
    return data


def kind_of(data: Mapping[str, Any]) -> Kind:
    """Return the kind of a document by its keys."""
    return next((kind for kind, keys in _KEYS if keys <= data.keys()), "report")


def document(path: Path) -> Description:
    """Describe a saved document: its own headline where it has one, else what its findings say."""
    data = load(path)
    kind = kind_of(data)
    findings = findings_in(data)
    state, headline = _verdict(kind, data, findings)
    about = data.get("recording") or data.get("path") or data.get("source") or data.get("command") or ""
    facts: list[tuple[str, Cell]] = [("findings", len(findings))]
    facts += [("of", str(about))] if about else []
    return Description(
        title=path.name, state=state, headline=headline, facts=facts, text=told_findings(data), kind=kind
    )


def findings_in(data: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of a document; those that are no findings are left out."""
    found = []
    listed = data.get("findings")
    for one in listed if isinstance(listed, list) else ():
        try:
            found.append(Finding.from_json(one))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return found


def _verdict(kind: Kind, data: Mapping[str, Any], findings: Sequence[Finding]) -> tuple[State, str]:
    """Return the state and the sentence of a document."""
    headline = str(data.get("headline") or "")
    if kind == "comparison":
        return STATES.get(str(data.get("status")), "none"), headline
    if kind == "tuning":
        return _tuned(data)
    if kind == "doctor" and isinstance(first := data.get("first"), dict):
        return "failed", f"The first error: {first.get('message', '')}"
    serious = max(findings, key=lambda one: one.severity, default=None)
    if serious is None:
        return "fine", headline or ("Nothing found." if "findings" in data else "")
    more = f" (and {counted(len(findings) - 1, 'finding')} more)" if len(findings) > 1 else ""
    return state_of(findings), headline or f"{serious.message.rstrip('.')}{more}."


def _tuned(data: Mapping[str, Any]) -> tuple[State, str]:
    status = str(data.get("status", ""))
    state: State = {"successful": "fine", "failed": "failed"}.get(status, "attention")  # type: ignore[assignment]
    summary = data.get("summary")
    if not isinstance(summary, dict):
        return state, f"Tuning {status}."
    new = int(summary.get("add", 0)) + int(summary.get("update", 0))
    return state, f"Tuning {status}: {counted(new, 'faster policy', 'faster policies')} of {summary.get('total', 0)}."


def state_of(findings: Sequence[Finding]) -> State:
    """Return the state that the worst of the findings leads to."""
    worst = max((one.severity for one in findings), default=Severity.INFO)
    return "failed" if worst >= Severity.ERROR else "attention" if worst >= Severity.WARNING else "fine"


def told_findings(data: Mapping[str, Any]) -> str:
    """Return the words of a document's findings, for the search."""
    return " ".join(f"{one.code} {one.message} {one.where}" for one in findings_in(data)[:_MOST_TOLD])


def name_map(path: Path) -> Description:
    """Describe a map of names between two checkpoints."""
    lines = sum(" = " in line for line in path.read_text("utf-8", errors="replace").splitlines())
    return Description(
        title=path.name, headline=f"A map of names with {counted(lines, 'line')} for `jumar export map`."
    )
