"""`Scope`, which the shell checks share: a text with its commands, and the options."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.rules import Rule
from jumar.convert.files.draft.device_words import Verdict, verdict_proposal
from jumar.convert.files.shell.words import Command, Script, Word
from jumar.convert.model.edits import Proposal
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
    place = word.span_of(start, len(word.text)) if word.is_known else None
    return verdict_proposal(rule, (word.start, word.end), verdict, place)


def runs_program(command: Command) -> bool:
    """Tell whether a command may run a program of the user's (or is a fragment of a command line)."""
    return command.is_array or command.name not in NO_PROGRAMS
