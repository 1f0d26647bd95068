"""`Scope`, which the shell checks share: a text with its commands, and the options."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.rules import Rule
from jumar.convert.files.draft.device_words import Verdict
from jumar.convert.files.shell.words import Command, Script, Word
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.project import ProjectFacts

SPEAKERS = frozenset({"echo", "printf", "grep", "egrep", "fgrep", "rg", "sed", "awk", "log", "logger", "say", "read"})
"""Commands whose arguments are text for people, or patterns."""

NO_PROGRAMS = SPEAKERS | {
    *("conda", "mamba", "pip", "pip3", "apt", "apt-get", "yum", "dnf", "brew", "git", "cd", "mkdir", "rm", "ls", "cp"),
    *("mv", "ln", "cat", "module", "ml", "tar", "wget", "curl", "test", "[", "[[", "case", "for", "which", "type"),
    *("source", ".", "export", "unset", "set", "shift", "exit", "return", "chmod", "find", "docker", "make", "cmake"),
}
"""Commands that run no training program, so that a word `cuda` among their arguments is no device."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One text of shell commands."""

    text: str
    script: Script
    options: ConvertOptions
    project: ProjectFacts

    def is_npu(self) -> bool:
        """Whether the target is the NPU alone."""
        return self.options.target == "npu"


def value_proposal(rule: Rule, word: Word, start: int, verdict: Verdict) -> Proposal:
    """Return the verdict about characters of a word from `start` on, as a proposal about the word."""
    span = word.span_of(start, len(word.text))
    replacements: tuple[Replacement, ...] = ()
    if verdict.new is not None and span is not None and word.is_known:
        replacements = (Replacement(*span, verdict.new),)
    return Proposal(
        rule=rule,
        span=(word.start, word.end),
        message=verdict.message,
        replacements=replacements,
        safety=verdict.safety,
        severity=verdict.severity,
        action=verdict.action,
        confidence=verdict.confidence,
    )


def runs_program(command: Command) -> bool:
    """Tell whether a command may run a program of the user's (or is a fragment of a command line)."""
    return command.is_array or command.name not in NO_PROGRAMS
