"""The bank as JSON lines, in the shape of the vendor's runtime knowledge bank, and back.

One line an entry: `{"id", "op", "version", "info_dict", "knowledge"}`. The shape is the vendor's
(`*_runtime_kb.json`); what is in it is Jumar's: keys and policies of the device that was measured. CANN
cannot use such a line, and there is none that pretends otherwise. The candidates that were tried and lost are
left out, and so are tasks for which nothing was faster; policies that this one `replaced` are not. A line of a choice
under an error budget has `weights`, `budget` and `metric` in its `info_dict`, and `error` in its `knowledge`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from jumar.base.findings import Json
from jumar.tune.bank.entry import Entry, Tried, policy_from_json, time_from
from jumar.tune.bank.precisions import Known, KnownPrecision, question_of
from jumar.tune.bank.rows import UNREADABLE
from jumar.tune.graph.graph import work_from_json
from jumar.tune.model.errors import BankError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import digest, stack_from_json

VERSION = 0
"""The vendor's own value."""


def export_lines(known: Iterable[Known]) -> Iterator[str]:
    """Yield a line for each policy, and for each choice under an error budget, without the newline."""
    for one in known:
        if one.policy is None:
            continue
        question, knowledge = ({}, _of_entry(one)) if isinstance(one, Entry) else _of_precision(one)
        info: dict[str, Json] = {"machine": asdict(one.machine), **question}
        identity: dict[str, Json] = {"task": one.task.identity(), **info, "kind": one.policy.kind}
        line = {
            "id": int(digest(identity)[:8], 16),
            "op": one.task.base,
            "version": VERSION,
            "info_dict": {"task": one.task.to_json(), **info},
            "knowledge": {
                **one.policy.to_json(),
                **knowledge,
                "gain": None if one.gain is None else one.gain.to_json(),
                "updated": one.updated,
            },
        }
        yield json.dumps(line, sort_keys=True)


def _of_entry(entry: Entry) -> dict[str, Json]:
    """Return what is known of an entry besides its policy and gain."""
    known: dict[str, Json] = {
        "min_gain": entry.min_gain,
        "measured_against": [policy.to_json() for policy in entry.base],
        "created": entry.created,
    }
    replaced: list[Json] = [one.to_json() for one in entry.replaced()]
    return known | ({"replaced": replaced} if replaced else {})


def _of_precision(known: KnownPrecision) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return what a choice is the answer to, besides graph and machine, and what is known of it likewise."""
    asked = known.asked
    return {"weights": asked.weights, "budget": asked.budget, "metric": asked.metric}, {"error": known.error}


def import_lines(lines: Iterable[str], name: str) -> list[Known]:
    """Return what the lines of a file called `name` say; empty lines are passed over.

    Raises BankError, which names the line, for one that `export_lines` cannot have written, and for a second one of
    the same operator or graph, machine and kind of policy: those come from two banks, whose stacks are not mixed.
    """
    found: list[Known] = []
    numbers: dict[tuple[str | float, ...], int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        one = _read(line, f"{name}, line {number}")
        first = numbers.setdefault(_question(one), number)
        if first != number:
            raise BankError(
                f"{name}, line {number}: must be the only one for its operator, machine and kind of policy; line "
                f"{first} is for the same. Import one bank's export at a time. Nothing was imported."
            )
        found.append(one)
    return found


def _read(text: str, place: str) -> Known:
    try:
        line = json.loads(text)
        return _precision(line) if "budget" in line["info_dict"] else _entry(line)
    except UNREADABLE as error:
        raise BankError(
            f"{place}: must be an entry that `jumar bank export` wrote; {_why(error)}. Nothing was imported."
        ) from error


def _question(known: Known) -> tuple[str | float, ...]:
    if isinstance(known, Entry):
        return known.task.key, known.machine.key, known.kind
    return question_of(known)


def _entry(line: dict[str, Any]) -> Entry:
    info, knowledge = line["info_dict"], line["knowledge"]
    policy = policy_from_json(knowledge)
    return Entry(
        task=work_from_json(info["task"]),
        machine=Machine.from_json(info["machine"]),
        kind=policy.kind,
        policy=policy,
        base=stack_from_json(knowledge["measured_against"]),
        gain=Gain.from_json(knowledge["gain"]),
        min_gain=float(knowledge["min_gain"]),
        tried=tuple(Tried.from_json(one) for one in knowledge.get("replaced", ())),
        created=time_from(knowledge["created"]),
        updated=time_from(knowledge["updated"]),
    )


def _precision(line: dict[str, Any]) -> KnownPrecision:
    return KnownPrecision.from_json({**line["info_dict"], **line["knowledge"], "policy": line["knowledge"]})


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return str(error).splitlines()[0].rstrip(".")
