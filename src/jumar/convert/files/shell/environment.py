"""Environment variables in shell commands: assignments, exports, reads (JM120)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from jumar.base.findings import Severity
from jumar.convert.files.draft.environment import NAME, Judgement, counterpart, judge, note, severity_of, variables
from jumar.convert.files.shell.binaries import binary, started
from jumar.convert.files.shell.scope import SPEAKERS, Scope
from jumar.convert.files.shell.words import HOLE, Command, Expansion, Word
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.files.cuda_variable_in_script import RULE

_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly", "unset", "setenv"})
_PASSED_BY = frozenset({"-x", "-e", "--env", "--export", "-E", "-genv", "-env"})
_UNQUOTED = re.compile(r"[\w.,:=^@/+%-]*")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment of a CUDA or NCCL variable."""

    command: Command
    word: Word
    name: str
    judgement: Judgement
    lasting: bool
    """Whether it holds for what follows, not for one command only."""


def check(scope: Scope) -> Iterator[Proposal]:
    """Propose the counterpart of every variable, or report that there is none."""
    programs, has_python = started(scope.script)
    assignments = [found for command in scope.script.commands for found in _assignments(command)]
    lasting = _lasting(assignments)
    if programs:  # the variables of such a script are for its compiled programs, or for both
        lasting = {name: "unsafe" if has_python and safety else None for name, safety in lasting.items()}
    for assignment in assignments:
        reader = binary(assignment.command) if not assignment.lasting else "" if has_python else " and ".join(programs)
        if reader and counterpart(assignment.name) is not None:
            yield _kept_for(assignment.word, assignment.name, reader)
        else:
            yield from _assigned(scope, assignment, lasting)
    for command in scope.script.commands:
        for word in _named(command):
            reader = binary(command) or ("" if has_python else " and ".join(programs))
            if reader and counterpart(word.text) is not None:
                yield _kept_for(word, word.text, reader)
            else:
                yield from _name_only(scope, command, word, lasting)
    if scope.is_npu():
        for expansion in scope.script.expansions:
            yield from _read(expansion, lasting)


def _kept_for(word: Word, name: str, program: str) -> Proposal:
    return Proposal(
        rule=RULE, span=(word.start, word.end), severity=Severity.ADVICE, confidence="likely",
        message=f"{name} is for {program.replace(HOLE, '$')}, a compiled program that reads it, so it was left.",
        action=f"A build of that program for NPUs reads {counterpart(name)}.",
    )  # fmt: skip


def _assignments(command: Command) -> Iterator[Assignment]:
    prefix = command.prefix
    alone = len(prefix) == len(command.words)
    declared = command.name in _DECLARATIONS
    for index, word in enumerate(command.words):
        found = word.assigned
        if found is None or not NAME.fullmatch(found[0]):
            continue
        if command.name in SPEAKERS and index >= len(prefix):
            continue
        name, value = found
        judgement = judge(name, None if HOLE in value else value)
        yield Assignment(command, word, name, judgement, lasting=(alone and not command.is_array) or declared)


def _lasting(assignments: list[Assignment]) -> Mapping[str, str | None]:
    """Return for each variable with lasting assignments how safe its renaming is, None where one of them stays."""
    found: dict[str, str | None] = {}
    for assignment in assignments:
        if assignment.lasting:
            judgement = assignment.judgement
            here = judgement.safety if judgement.name is not None else None
            before = found.get(assignment.name, "safe")
            both = (here, before)
            found[assignment.name] = None if None in both else "unsafe" if "unsafe" in both else "safe"
    return found


def _assigned(scope: Scope, assignment: Assignment, lasting: Mapping[str, str | None]) -> Iterator[Proposal]:
    judgement, word = assignment.judgement, assignment.word
    if not judgement.reason or _is_own(scope, assignment.name):
        return
    safety = lasting.get(assignment.name, judgement.safety) if assignment.lasting else judgement.safety
    edits: tuple[Replacement, ...] = ()
    if judgement.name is not None and safety is not None:
        if not scope.is_npu() and _stands_beside(assignment):
            return
        edits = _renamed(assignment) if scope.is_npu() else _beside(assignment)
    severity = _severity(assignment.name, judgement, bool(edits))
    yield Proposal(
        rule=RULE,
        span=(word.start, word.end),
        message=f"{assignment.name} {judgement.reason}.",
        replacements=edits,
        safety="unsafe" if safety == "unsafe" else "safe",
        severity=severity,
        action=judgement.note,
    )


def _is_own(scope: Scope, name: str) -> bool:
    """Tell whether a variable is the script's own: no software is known to read it, but the script does."""
    return name not in variables() and any(expansion.name == name for expansion in scope.script.expansions)


def _severity(name: str, judgement: Judgement, has_edit: bool) -> Severity | None:
    if has_edit:
        return Severity.ADVICE if judgement.value is not None and "ascending" in judgement.reason else None
    return Severity.WARNING if judgement.name is not None or "takes" in judgement.reason else severity_of(name)


def _renamed(assignment: Assignment) -> tuple[Replacement, ...]:
    word, judgement = assignment.word, assignment.judgement
    edits = []
    if judgement.name is not None and judgement.name != assignment.name:
        span = word.span_of(0, len(assignment.name))
        if span is None:
            return ()
        edits.append(Replacement(*span, judgement.name))
    if judgement.value is not None:
        span = word.span_of(word.value_index, len(word.text))
        if span is None:
            return ()
        edits.append(Replacement(*span, judgement.value))
    return tuple(edits)


def _stands_beside(assignment: Assignment) -> bool:
    """Tell whether the counterpart is set beside the variable already."""
    others = [other.assigned for other in assignment.command.words]
    return any(other is not None and other[0] == assignment.judgement.name for other in others)


def _beside(assignment: Assignment) -> tuple[Replacement, ...]:
    """Return the insertion of the counterpart after the assignment, for a script that serves both machines."""
    word, judgement, command = assignment.word, assignment.judgement, assignment.command
    if judgement.name is None or judgement.name == assignment.name:
        return ()
    value = judgement.value if judgement.value is not None else word.text[word.value_index :]
    at_place = word in command.prefix or command.name in _DECLARATIONS - {"unset", "setenv"} or command.name == "env"
    if HOLE in value or not _UNQUOTED.fullmatch(value) or not at_place:
        return ()
    return (Replacement(word.end, word.end, f" {judgement.name}={value}"),)


def _named(command: Command) -> Iterator[Word]:
    """Yield words that name a variable without giving it a value (`export X`, `mpirun -x X`)."""
    rest = command.arguments
    for before, word in pairwise(rest):
        if NAME.fullmatch(word.text) and (command.name in _DECLARATIONS or before.text in _PASSED_BY):
            yield word


def _name_only(scope: Scope, command: Command, word: Word, lasting: Mapping[str, str | None]) -> Iterator[Proposal]:
    new = counterpart(word.text)
    safety = lasting.get(word.text, "safe")
    span = word.span_of(0, len(word.text))
    if new is None or span is None:
        yield Proposal(
            rule=RULE, span=(word.start, word.end), severity=severity_of(word.text),
            message=f"{word.text} has no effect on an NPU.", action=note(word.text),
        )  # fmt: skip
        return
    if not scope.is_npu() and any(other.text == new for other in command.words):
        return
    edit = Replacement(*span, new) if scope.is_npu() else Replacement(word.end, word.end, f" {new}")
    passed = scope.is_npu() or command.name in _DECLARATIONS
    yield Proposal(
        rule=RULE, span=(word.start, word.end), message=f"{word.text} is not read on an NPU; {new} is.",
        replacements=(edit,) if safety is not None and passed else (),
        safety="unsafe" if safety == "unsafe" else "safe", action=note(word.text),
    )  # fmt: skip


def _read(expansion: Expansion, lasting: Mapping[str, str | None]) -> Iterator[Proposal]:
    new = counterpart(expansion.name) if NAME.fullmatch(expansion.name) else None
    if new is None:
        return
    safety = lasting.get(expansion.name, "safe")
    yield Proposal(
        rule=RULE,
        span=(expansion.start, expansion.end),
        message=f"${expansion.name} is read; on an NPU {new} is what is set.",
        replacements=(Replacement(expansion.start, expansion.end, new),) if safety is not None else (),
        safety="unsafe" if safety == "unsafe" else "safe",
        severity=None if safety is not None else Severity.ADVICE,
        action="" if safety is not None else "Change it together with the assignment.",
    )
