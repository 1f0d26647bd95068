"""Kinds of files that list packages: requirements files, and the package lists of other configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from jumar.base.findings import Severity
from jumar.convert.files.config.entries import Entry
from jumar.convert.files.draft.drafting import convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.requirements.lines import Requirement, index_proposals, requirement_proposals
from jumar.convert.files.requirements.packages import judge_package
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.files.cuda_requirement import RULE

_NAME = re.compile(r"(requirements|constraints|reqs)", re.IGNORECASE)
_LOGICAL = re.compile(r"(?:[^\r\n\\]|\\\r?\n|\\(?!\r?\n))+")
_OPTION = re.compile(r"\s*(-|https?://|git\+)")
_COMMENT = re.compile(r"(^|\s)#.*$", re.DOTALL)
_CONDA = re.compile(r"\s*(?:[\w-]+::)?([A-Za-z][\w.-]*)\s*([=<>].*)?")


def _is_requirements(path: PurePosixPath, data: bytes) -> bool:
    folder = path.parent.name
    named = _NAME.search(path.name) or _NAME.fullmatch(folder)
    return bool(named) and path.suffix in (".txt", ".in", ".pip") and is_text(data)


def _requirements(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    return convert_with(data, path, options, project, _file_proposals, trigger=None)


def _file_proposals(text: str, options: ConvertOptions, _: ProjectFacts) -> Iterator[Proposal]:
    found = []
    for match in _LOGICAL.finditer(text):
        line = _COMMENT.sub("", match.group())
        if _OPTION.match(line):
            yield from index_proposals(line, match.start(), options)
        elif line.strip():
            newline = _newline(text, match.end())
            indent = line[: len(line) - len(line.lstrip())]
            found.append(Requirement(line, match.start(), match.end(), newline + indent))
    yield from requirement_proposals(text, found, options)


def _newline(text: str, at: int) -> str:
    match = re.compile(r"\r\n|\r|\n").search(text, at) or re.search(r"\r\n|\r|\n", text)
    return match.group() if match is not None else "\n"


def listed_requirements(
    text: str, path: PurePosixPath, entries: Sequence[Entry], options: ConvertOptions
) -> Iterator[Proposal]:
    """Yield what is to be said about the packages that a configuration file lists."""
    if path.name == "pyproject.toml":
        found = [_item(text, entry) for entry in entries if _in_pyproject(entry)]
        yield from requirement_proposals(text, found, options)
        yield from _poetry(entries)
    elif path.suffix == ".cfg":
        lines = [entry for entry in entries if entry.key in ("install_requires", "tests_require") or _is_extra(entry)]
        yield from requirement_proposals(text, [_line(text, entry) for entry in lines if entry.is_item], options)
    elif any(entry.path[:1] == ("dependencies",) for entry in entries) and path.suffix in (".yml", ".yaml"):
        yield from _conda(text, entries, options)
    for entry in entries:
        yield from index_proposals(entry.value, entry.start, options)


def _in_pyproject(entry: Entry) -> bool:
    if not entry.is_item:
        return False
    heads = (("project", "dependencies"), ("project", "optional-dependencies"), ("build-system", "requires"))
    return entry.path[:2] in heads or entry.path[:1] == ("dependency-groups",)


def _item(text: str, entry: Entry) -> Requirement:
    quote = text[entry.end : entry.end + 1]
    return Requirement(entry.value, entry.start, entry.end + 1, f", {quote}", quote)


def _line(text: str, entry: Entry) -> Requirement:
    start = text.rfind("\n", 0, entry.start) + 1
    return Requirement(entry.value, entry.start, entry.end, _newline(text, entry.end) + text[start : entry.start])


def _is_extra(entry: Entry) -> bool:
    return entry.path[:1] == ("options.extras_require",)


def _poetry(entries: Sequence[Entry]) -> Iterator[Proposal]:
    for entry in entries:
        if entry.path[:2] == ("tool", "poetry") and "dependencies" in entry.path and entry.key_span is not None:
            verdict = judge_package(entry.key)
            if verdict is not None:
                yield Proposal(rule=RULE, span=entry.key_span, message=verdict.message, action=verdict.action)


def _conda(text: str, entries: Sequence[Entry], options: ConvertOptions) -> Iterator[Proposal]:
    pip: list[Requirement] = []
    for entry in entries:
        span = (entry.start, entry.end)
        if entry.path == ("channels",) and entry.value == "nvidia":
            yield Proposal(
                rule=RULE, span=span, severity=Severity.ADVICE, message="The channel nvidia holds packages for CUDA.",
                action="Leave it out on an NPU machine.",
            )  # fmt: skip
        elif entry.path == ("dependencies", "pip"):
            pip.append(_line(text, entry))
        elif entry.path == ("dependencies",):
            yield from _conda_package(entry, span)
    for requirement in pip:
        if _OPTION.match(requirement.text):
            continue
        yield from requirement_proposals(text, [requirement], options)


def _conda_package(entry: Entry, span: tuple[int, int]) -> Iterator[Proposal]:
    match = _CONDA.fullmatch(entry.value)
    if match is None:
        return
    verdict = judge_package(match.group(1))
    if verdict is not None:
        yield Proposal(rule=RULE, span=span, message=verdict.message, action=verdict.action)
    elif match.group(1) in ("pytorch", "pytorch-gpu", "torch"):
        yield Proposal(
            rule=RULE, span=span, message="conda's package of PyTorch may be a build for CUDA.",
            action="Install torch and torch_npu of one version with pip instead.",
        )  # fmt: skip


REQUIREMENTS: FileKind = FileKind(name="requirements", matches=_is_requirements, convert=_requirements)
