"""Proposals about one shell text: its commands, commands in quoted words, here-documents, and packages it installs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.convert.files.draft.drafting import TRIGGER, Converted
from jumar.convert.files.draft.python_text import python_proposals
from jumar.convert.files.requirements.packages import TORCH_PACKAGES, cuda_index, cuda_tag, judge_package
from jumar.convert.files.shell import arguments, environment, tools
from jumar.convert.files.shell.lexer import read_script
from jumar.convert.files.shell.scope import SPEAKERS, Scope
from jumar.convert.files.shell.words import Command, HereDocument, Script, Word
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.files.cuda_requirement import RULE
from jumar.convert.rules.files.unreadable_file import RULE as UNREADABLE

_QUOTED = re.compile(r"""(?:[^'"\\\s]*)(["'])((?:(?!\1)[^\\]|\\.)*)\1""", re.DOTALL)
_TEXT_NAME = re.compile(r"msg|message|usage|help|desc|text|title|prompt|note|regex|pattern", re.IGNORECASE)
_SHELLS = frozenset({"bash", "sh", "zsh", "ksh", "dash", "sbatch", "qsub", "bsub", "ssh", "srun", "su", "sudo"})
_SHELL_FILE = re.compile(r"\.(sh|bash|slurm|sbatch|job|pbs)$")
_PYTHON = re.compile(r"python[\d.]*$")
_MAX_DEPTH = 3


def shell_proposals(
    text: str,
    options: ConvertOptions,
    project: ProjectFacts,
    start: int = 0,
    end: int | None = None,
    *,
    make: bool = False,
) -> Iterator[Proposal | Converted]:
    """Yield what is to be said about the shell commands in `text[start:end]`."""
    script = read_script(text, start, end, make=make)
    yield from tools.directives(text, start, end)
    yield from _script(Scope(text, script, options, project), 0)
    if script.unclosed is not None and TRIGGER.search(text, script.unclosed, len(text) if end is None else end):
        yield Proposal(
            rule=UNREADABLE, span=(script.unclosed, script.unclosed + 1),
            message="A quote is not closed, so what follows it was read as one word.", action="Mend the quotes.",
        )  # fmt: skip


def _script(scope: Scope, depth: int) -> Iterator[Proposal | Converted]:
    for checks in (environment, arguments, tools):
        yield from checks.check(scope)
    yield from _packages(scope)
    for command in scope.script.commands:
        for document in command.here_documents:
            yield from _here_document(scope, command, document, depth)
        if depth < _MAX_DEPTH:
            for word in command.words:
                yield from _embedded(scope, command, word, depth)


def _embedded(scope: Scope, command: Command, word: Word, depth: int) -> Iterator[Proposal | Converted]:
    """Yield what is to be said about commands in a quoted word (`bash -c "…"`, `ARGS="--device cuda"`)."""
    assigned = word.assigned
    if not word.quoted or command.name in SPEAKERS or (assigned and _TEXT_NAME.search(assigned[0])):
        return
    match = _QUOTED.fullmatch(scope.text, word.start, word.end)
    if match is None or not re.search(r"\s", match.group(2)) or not TRIGGER.search(match.group(2)):
        return
    if _PYTHON.search(command.name) and not match.group().startswith("-"):
        yield from _python_string(scope, word)
        return
    script = read_script(scope.text, *match.span(2))
    if match.group(1) == '"':  # the outer reading saw what is expanded
        script = Script([inner for inner in script.commands if not inner.captured])
    yield from _script(Scope(scope.text, script, scope.options, scope.project), depth + 1)


def _python_string(scope: Scope, word: Word) -> Iterator[Proposal | Converted]:
    if re.search(r"cuda|nccl", word.text):
        yield Proposal(
            rule=UNREADABLE, span=(word.start, word.end), severity=Severity.WARNING,
            message="Python code in an argument names CUDA, and was left.",
            action=f"Write torch.{'npu' if scope.is_npu() else 'accelerator'} there by hand.",
        )  # fmt: skip


def _here_document(
    scope: Scope, command: Command, document: HereDocument, depth: int
) -> Iterator[Proposal | Converted]:
    body = scope.text[document.start : document.end]
    if not TRIGGER.search(body):
        return
    target = command.targets[-1][1].text if command.targets else ""
    if _PYTHON.search(command.name) or target.endswith(".py"):
        yield from _python_document(scope, document, body)
    elif (command.name in _SHELLS or _SHELL_FILE.search(target)) and depth < _MAX_DEPTH:
        yield from tools.directives(scope.text, document.start, document.end)
        script = read_script(scope.text, document.start, document.end)
        if not document.literal:
            script = Script([inner for inner in script.commands if not inner.captured])
        yield from _script(Scope(scope.text, script, scope.options, scope.project), depth + 1)
    elif re.search(r"cuda|nccl|nvidia", body, re.IGNORECASE):
        yield _unread(document, f"The here-document for {target or command.name or 'a command'} names CUDA.")


def _python_document(scope: Scope, document: HereDocument, body: str) -> Iterator[Proposal | Converted]:
    if not document.literal and re.search(r"[$`\\]", body):
        yield _unread(document, "The Python here-document is expanded by the shell before Python reads it.")
    else:
        yield from python_proposals(body, document.start, scope.options, scope.project)


def _unread(document: HereDocument, message: str) -> Proposal:
    return Proposal(
        rule=UNREADABLE, span=(document.start, document.end), message=f"{message} It was left.",
        severity=Severity.WARNING, action="Convert it by hand, or move it into a file of its own.",
    )  # fmt: skip


_INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "uv", "poetry", "apt", "apt-get", "yum", "dnf"})
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]*\])?")


def _packages(scope: Scope) -> Iterator[Proposal]:
    """Take CUDA's tag and index off PyTorch's packages, and report the packages that need CUDA."""
    for command in scope.script.commands:
        words = command.arguments
        texts = [word.text for word in words]
        if not any(text in ("install", "add", "create") for text in texts) or not _installs(texts):
            continue
        for word in words:
            yield from _word(scope, word)


def _installs(texts: list[str]) -> bool:
    return any(text.rpartition("/")[2] in _INSTALLERS or re.fullmatch(r"pip3?[\d.]*", text) for text in texts[:6])


def _word(scope: Scope, word: Word) -> Iterator[Proposal]:
    name = _NAME.match(word.text)
    tag, index = cuda_tag(word.text), cuda_index(word.text)
    if index is not None:
        yield _change(scope, word, index.span(2), "cpu", f"PyTorch's index {index.group(2)} holds builds for CUDA.")
    elif name is not None and tag is not None and name.group().lower() in TORCH_PACKAGES:
        message = f"{word.text} is a build for CUDA, which does not load torch_npu."
        yield _change(scope, word, tag.span(), "", message, "Install torch_npu of the same version beside it.")
    elif name is not None:
        verdict = judge_package(name.group())
        if verdict is not None:
            yield Proposal(
                rule=RULE, span=(word.start, word.end), message=verdict.message, action=verdict.action,
                severity=verdict.severity,
            )  # fmt: skip


def _change(scope: Scope, word: Word, where: tuple[int, int], new: str, message: str, action: str = "") -> Proposal:
    span = word.span_of(*where)
    edits = (Replacement(*span, new),) if span is not None and scope.is_npu() else ()
    return Proposal(rule=RULE, span=(word.start, word.end), message=message, replacements=edits, action=action)
