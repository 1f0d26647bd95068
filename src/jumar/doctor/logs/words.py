"""What is said about an error of a log: its sentence, its cause, what to do, and where that is written."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.doctor.logs.scan import Hit
from jumar.doctor.logs.signatures import Signature
from jumar.doctor.rules import KNOWN_ERROR, PYTHON_TRACEBACK, UNLISTED_ERROR
from jumar.rules import Rule

_ELSEWHERE = "It is usually a consequence: look for an earlier error in the logs of the other ranks."
_MESSAGE_CHARACTERS = 160


def rule_of(hit: Hit) -> Rule:
    """Return the rule that reports this error."""
    if hit.signature is not None:
        return KNOWN_ERROR
    return UNLISTED_ERROR if hit.code or hit.module else PYTHON_TRACEBACK


def message_of(hit: Hit) -> str:
    """Return one sentence: `A collective waited in vain for another rank (EI0002).`"""
    if hit.signature is not None:
        return f"{hit.signature.title}{f' ({hit.code})' if hit.code else ''}."
    if hit.traceback is not None:
        return _exception(hit)
    if hit.code:
        return f"The vendor's error {hit.code}, which Jumar's table does not have."
    return f"The module {hit.module} of the vendor's software reports an error."


def cause_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return the probable cause, of the lead or else of the best-known error beside it."""
    signature = _signature(lead, hits)
    cause = signature.cause if signature else ""
    return f"{cause} {_ELSEWHERE}" if lead.role == "consequence" else cause


def action_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return what to do next."""
    signature = _signature(lead, hits)
    if lead.signature is None and lead.traceback is not None and lead.traceback.file:
        place = f"Look at {lead.traceback.file}:{lead.traceback.line}"
        place += f" (in {lead.traceback.function})." if lead.traceback.function.strip("<>").isidentifier() else "."
        return f"{place} {signature.action}" if signature else place
    if signature is not None:
        return signature.action
    return "Search the vendor's error reference for the code." if lead.code else "Read the lines around it."


def source_of(lead: Hit, hits: Sequence[Hit]) -> str | None:
    """Return the document that explains it, or None."""
    signature = _signature(lead, hits)
    return signature.source if signature else None


def _signature(lead: Hit, hits: Sequence[Hit]) -> Signature | None:
    if lead.signature is not None:
        return lead.signature
    known = sorted(hits, key=lambda hit: (hit.rank_of_telling, hit.line))
    return next((hit.signature for hit in known if hit.signature is not None), None)


def _exception(hit: Hit) -> str:
    assert hit.traceback is not None
    text = f"{hit.traceback.exception}: {hit.traceback.message}" if hit.traceback.message else hit.traceback.exception
    short = text if len(text) <= _MESSAGE_CHARACTERS else text[: _MESSAGE_CHARACTERS - 1] + "…"
    return short if short.endswith((".", "…")) else f"{short}."
