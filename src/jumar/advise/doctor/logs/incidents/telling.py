"""`finding_of`: what an incident says: its message, cause, next action and evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jumar.advise.doctor.entries import Signature
from jumar.advise.doctor.logs.engine.hits import Hit
from jumar.advise.doctor.logs.incidents.grouping import tier_of
from jumar.advise.doctor.logs.lines.ends import End, end_of
from jumar.advise.doctor.logs.lines.facts import device_in, operator_in
from jumar.advise.doctor.logs.ranks import ranges_text
from jumar.advise.doctor.rules.error_word import RULE as ERROR_WORD
from jumar.advise.doctor.rules.known_error import RULE as KNOWN_ERROR
from jumar.advise.doctor.rules.python_traceback import RULE as PYTHON_TRACEBACK
from jumar.advise.doctor.rules.unlisted_error import RULE as UNLISTED_ERROR
from jumar.base.findings import Finding, Json, Location
from jumar.base.rules import Rule
from jumar.tfadapter.options.memory import MemoryOptions, memory_options

_ELSEWHERE = "It is usually a consequence: look for an earlier error in the logs of the other ranks."
_MESSAGE_CHARACTERS = 160
_MOST_ALSO = 20


def finding_of(lead: Hit, hits: Sequence[Hit]) -> Finding:
    """Return the finding of an incident: `hits` are its errors, `lead` the one that it is named after."""
    rule = _rule_of(lead)
    rank = next((hit.rank for hit in (lead, *hits) if hit.rank is not None), None)
    traceback = lead.traceback or next((hit.traceback for hit in hits if hit.traceback), None)
    where = Location(path=str(lead.path), line=lead.line, rank=rank)
    also: list[Json] = [*dict.fromkeys(_message_of(hit) for hit in hits if hit is not lead)]
    evidence: dict[str, Json] = {
        "text": lead.text,
        "count": lead.count,
        "time": lead.time.isoformat(" ", "seconds") if lead.time else None,
        "role": lead.role,
        "code": lead.code or None,
        "writer": lead.writer or None,
        "ranks": ranges_text(lead.ranks) if len(lead.ranks) > 1 else None,
        "device": _first(device_in, lead, hits),
        "operator": _first(operator_in, lead, hits),
        "also": also[:_MOST_ALSO],
        "around": [*lead.around],
        "raised_at": f"{traceback.file}:{traceback.line}" if traceback and traceback.file else None,
        "source": _source_of(lead, hits),
    }
    memory = _memory_of(lead, hits)
    if isinstance(memory, MemoryOptions):
        evidence |= {"graph_memory_max_size": memory.graph, "variable_memory_max_size": memory.variable}
    return rule.finding(
        _message_of(lead),
        where=where,
        severity=lead.severity,
        evidence={name: value for name, value in evidence.items() if value not in (None, [])},
        why=_cause_of(lead, hits),
        action=_action_of(lead, hits),
        confidence="certain" if lead.role == "cause" else "likely",
    )


def _rule_of(hit: Hit) -> Rule:
    """Return the rule that reports this error."""
    if hit.signature is not None:
        return KNOWN_ERROR
    if hit.is_word_only:
        return ERROR_WORD
    return UNLISTED_ERROR if hit.code or hit.module else PYTHON_TRACEBACK


def _message_of(hit: Hit) -> str:
    """Return one sentence: `A collective waited too long for another rank (EI0002).`"""
    if hit.signature is not None:
        return f"{hit.signature.title}{f' ({hit.code})' if hit.code else ''}."
    if hit.traceback is not None:
        return _exception(hit)
    if hit.is_word_only:
        return f"An error that Jumar does not know: {_short(hit.text)}"
    if hit.code:
        return f"The vendor's error {hit.code}, which Jumar's table does not have."
    return f"The module {hit.module} of the vendor's software reports an error: {_short(hit.text)}"


def _cause_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return the probable cause: that of the lead, or else of the best-known error near it."""
    told = _signature(lead, hits) or _end(lead)
    cause = told.cause if told is not None else ""
    return f"{cause} {_ELSEWHERE}" if lead.role == "consequence" else cause


def _action_of(lead: Hit, hits: Sequence[Hit]) -> str:
    """Return what to do next."""
    signature, memory = _signature(lead, hits), _memory_of(lead, hits)
    if isinstance(memory, str):
        return memory
    if memory is not None:
        return (
            f"Set graph_memory_max_size to {memory.graph} and variable_memory_max_size to {memory.variable}. "
            f"sess.run: {'; '.join(memory.session_code.splitlines())}. Estimator: {memory.estimator_code}"
        )
    if lead.signature is None and lead.traceback is not None and lead.traceback.file:
        place = f"Look at {lead.traceback.file}:{lead.traceback.line}"
        place += f" (in {lead.traceback.function})." if lead.traceback.function.strip("<>").isidentifier() else "."
        return f"{place} {signature.action}" if signature else place
    told = signature or _end(lead)
    if told is not None:
        return told.action
    return "Search the vendor's error reference for the code." if lead.code else "Read the lines around it."


def _memory_of(lead: Hit, hits: Sequence[Hit]) -> MemoryOptions | str | None:
    """Return the memory options that a line of the error asks for, None where none does."""
    return next((found for hit in (lead, *hits) if (found := memory_options(hit.text)) is not None), None)


def _source_of(lead: Hit, hits: Sequence[Hit]) -> str | None:
    """Return the document that explains it, or None."""
    signature = _signature(lead, hits)
    return signature.source if signature else None


def _signature(lead: Hit, hits: Sequence[Hit]) -> Signature | None:
    if lead.signature is not None:
        return lead.signature
    known = sorted(hits, key=lambda hit: (tier_of(hit), hit.line))
    return next((hit.signature for hit in known if hit.signature is not None), None)


def _end(lead: Hit) -> End | None:
    """Return how a process ended, where nothing else explains the line."""
    return end_of(lead.text) if lead.is_word_only else None


def _exception(hit: Hit) -> str:
    assert hit.traceback is not None
    text = f"{hit.traceback.exception}: {hit.traceback.message}" if hit.traceback.message else hit.traceback.exception
    return _short(text)


def _short(text: str) -> str:
    """Return a line as a sentence of bounded length."""
    short = text if len(text) <= _MESSAGE_CHARACTERS else text[: _MESSAGE_CHARACTERS - 1] + "…"
    return short if short.endswith((".", "…")) else f"{short}."


_Fact = TypeVar("_Fact")


def _first(fact: Callable[[str], _Fact | None], lead: Hit, hits: Sequence[Hit]) -> _Fact | None:
    """Return the first fact that a line of the incident names; the lead's line first."""
    return next((found for hit in (lead, *hits) if (found := fact(hit.text)) is not None), None)
