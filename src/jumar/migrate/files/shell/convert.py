"""All shell checks on one text: its commands, commands in quoted words, and here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.facts.project import ProjectFacts
from jumar.migrate.files.drafting import TRIGGER, Converted
from jumar.migrate.files.python_text import python_proposals
from jumar.migrate.files.shell import arguments, environment, packages, tools
from jumar.migrate.files.shell.lexer import read_script
from jumar.migrate.files.shell.scope import SPEAKERS, Scope
from jumar.migrate.files.shell.words import Command, HereDocument, Script, Word
from jumar.migrate.options import ConvertOptions
from jumar.migrate.rules.files.unreadable_file import RULE as UNREADABLE

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
    for checks in (environment, arguments, tools, packages):
        yield from checks.check(scope)
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
