"""Proposals about the values of a configuration (JM120, JM121, JM123, JM129)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.files.config.entries import Entry
from jumar.convert.files.draft.device_words import Verdict, judge_name, judge_switch, judge_value, verdict_proposal
from jumar.convert.files.draft.drafting import TRIGGER, Converted
from jumar.convert.files.draft.environment import NAME, judge, severity_of, variables
from jumar.convert.files.draft.indented import Block
from jumar.convert.files.shell import arguments
from jumar.convert.files.shell.convert import shell_proposals
from jumar.convert.files.shell.scope import Scope
from jumar.convert.files.shell.words import Command, Script, Word
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.words import names_device
from jumar.convert.rules.files import cuda_switch_in_configuration, cuda_variable_in_script, cuda_word_in_configuration

COMMAND_KEYS = frozenset(
    {"run", "command", "commands", "cmd", "args", "script", "scripts", "entrypoint", "before_script", "after_script"}
    | {"setup", "test", "lint", "inline", "shell", "init", "bash", "postCreateCommand", "pre_build", "build"}
)
"""Keys whose values are commands: workflows, compose files, manifests, package scripts."""

_GENERIC_KEYS = frozenset({"type", "name", "value", "default", "id", "kind", "target"})
_DISTRIBUTED = re.compile(r"MULTI_GPU")
_LIST_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_CUDA_KEY = re.compile(r"cuda|gpu|nccl", re.IGNORECASE)
_MANY_ENTRIES = 1000
"""A file with more values is data, in which a key named after a GPU means nothing."""


def value_proposals(
    text: str, entries: Sequence[Entry], options: ConvertOptions, project: ProjectFacts
) -> Iterator[Proposal | Converted]:
    """Yield what is to be said about the values in a configuration."""
    named: set[str] = set()
    served = _served(entries)
    for entry in entries:
        if entry.path in served:
            continue
        yield from _one(text, entry, options, project)
        if len(entries) <= _MANY_ENTRIES and entry.key not in named:
            for proposal in _name(entry, options, project):
                named.add(entry.key)
                yield proposal
    yield from _named_pairs(entries, options)
    yield from _commands_in_lists(text, entries, options, project)


def _served(entries: Sequence[Entry]) -> set[tuple[str, ...]]:
    """Return the paths of CUDA's entries in tables that have one for the NPU, too: both stay."""
    paths = {entry.path[:at] for entry in entries for at in range(1, len(entry.path) + 1)}
    tables = {path[:-1] for path in paths if path[-1].lower() in ("npu", "ascend", "hccl")}
    return {
        entry.path
        for entry in entries
        if any(entry.path[:at] in tables and _CUDA_KEY.fullmatch(entry.path[at]) for at in range(len(entry.path)))
    }


def _one(text: str, entry: Entry, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal | Converted]:
    name = entry.key.rpartition(" ")[2]  # `export NAME` in environment files
    if entry.key_span is not None and NAME.fullmatch(name):
        span = (entry.key_span[1] - len(name), entry.key_span[1])
        yield from _variable(name, span, entry.value.strip("'\""), _inside(entry), options)
    elif entry.style == "block" or _is_command(entry):
        if entry.key in COMMAND_KEYS and TRIGGER.search(entry.value):
            block = Block.of(text, entry.start, entry.end)
            yield from block.located(shell_proposals(block.text, options, project))
    else:
        yield from _value(entry, options, project)


def _inside(entry: Entry) -> tuple[int, int]:
    """Return the span of a value without quotes that the format does not know (environment files)."""
    left = len(entry.value) - len(entry.value.lstrip("'\""))
    return entry.start + left, max(entry.start + left, entry.end - (len(entry.value) - len(entry.value.rstrip("'\""))))


def _is_command(entry: Entry) -> bool:
    return entry.key in COMMAND_KEYS and re.search(r"\s", entry.value) is not None and "\\" not in entry.value


def _name(entry: Entry, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal]:
    """Report a key named after CUDA or GPUs; once a file, as its value says nothing more."""
    if entry.is_item or entry.style == "block" or NAME.fullmatch(entry.key.rpartition(" ")[2]):
        return
    verdict = judge_name(entry.key, entry.value)
    said = judge_switch(entry.key, entry.value) or judge_value(_telling_key(entry), entry.value, options, project)
    if verdict is not None and said is None:
        yield _proposal(cuda_word_in_configuration.RULE, entry, verdict)


def _value(entry: Entry, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal]:
    assignment = _LIST_ASSIGNMENT.fullmatch(entry.value) if entry.is_item else None
    if assignment is not None and NAME.fullmatch(assignment.group(1)):
        name_span, value_span = ((entry.start + low, entry.start + high) for low, high in map(assignment.span, (1, 2)))
        yield from _variable(assignment.group(1), name_span, assignment.group(2), value_span, options)
        return
    switch = judge_switch(entry.key, entry.value) if not entry.is_item else None
    if switch is not None:
        yield _proposal(cuda_switch_in_configuration.RULE, entry, switch)
        return
    verdict = _distributed(entry, options) or judge_value(_telling_key(entry), entry.value, options, project)
    if verdict is not None:
        yield _proposal(cuda_word_in_configuration.RULE, entry, verdict)


def _telling_key(entry: Entry) -> str:
    """Return the key that says what a value is: `device` for `device: {type: cuda}`."""
    if entry.key in _GENERIC_KEYS and len(entry.path) > 1 and names_device(entry.path[-2]):
        return entry.path[-2]
    return entry.key


def _distributed(entry: Entry, options: ConvertOptions) -> Verdict | None:
    if entry.key != "distributed_type" or not _DISTRIBUTED.fullmatch(entry.value):
        return None
    new = "MULTI_NPU" if options.target == "npu" else None
    return Verdict(
        message="accelerate's MULTI_GPU starts processes for CUDA; for NPUs it is MULTI_NPU.", new=new,
        severity=None if new else Severity.ADVICE, action="" if new else "Leave it out; accelerate finds the device.",
    )  # fmt: skip


def _proposal(rule: Rule, entry: Entry, verdict: Verdict) -> Proposal:
    return verdict_proposal(rule, (entry.start, entry.end), verdict, (entry.start, entry.end))


def _variable(
    name: str, name_span: tuple[int, int], value: str, value_span: tuple[int, int], options: ConvertOptions
) -> Iterator[Proposal]:
    """Judge an environment variable that a configuration sets."""
    judgement = judge(name, None if re.search(r"\$\{?\w|\{\{", value) else value)
    if not judgement.reason or (name not in variables() and not value):
        return
    edits = []
    if judgement.name is not None and options.target == "npu":
        edits.append(Replacement(*name_span, judgement.name))
        if judgement.value is not None:
            edits.append(Replacement(*value_span, judgement.value))
    yield Proposal(
        rule=cuda_variable_in_script.RULE,
        span=name_span,
        message=f"{name} {judgement.reason}.",
        replacements=tuple(edits),
        safety=judgement.safety,
        severity=None if edits or judgement.name else severity_of(name),
        action=judgement.note
        if options.target == "npu"
        else f"Set its counterpart beside it. {judgement.note}".strip(),
    )


def _named_pairs(entries: Sequence[Entry], options: ConvertOptions) -> Iterator[Proposal]:
    """Judge the variables of Kubernetes manifests: `- name: X` followed by `value: Y`."""
    for first, second in pairwise(entries):
        together = (first.key, second.key) == ("name", "value") and first.path[:-1] == second.path[:-1]
        if together and NAME.fullmatch(first.value):
            spans = (first.start, first.end), (second.start, second.end)
            yield from _variable(first.value, spans[0], second.value, spans[1], options)


def _commands_in_lists(
    text: str, entries: Sequence[Entry], options: ConvertOptions, project: ProjectFacts
) -> Iterator[Proposal]:
    """Judge commands written as lists of their words (`command: ["python", "--device", "cuda"]`)."""
    for path, group in groupby(entries, key=lambda entry: entry.path if entry.is_item else None):
        if path is None or not path or path[-1] not in COMMAND_KEYS:
            continue
        words = [
            Word(entry.start, entry.end, entry.value, tuple(range(entry.start, entry.end)), quoted=True)
            for entry in group
            if "\\" not in entry.value
        ]
        script = Script([Command(words, is_array=True)])
        yield from arguments.check(Scope(text, script, options, project))
