"""The extension point: a checker sees each step once and answers at the end.

A rule module holds its documentation, a module-level `RULE`, and one subclass of `Checker`. It is
registered in `jumar.performance.rules`.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import ClassVar

from jumar.findings import Finding
from jumar.performance.cost import Cost
from jumar.performance.subject import StepView, Subject, Totals
from jumar.rules import Rule


@dataclass(frozen=True, slots=True)
class Priced:
    """A finding and what it costs a step, which gives its place in the list."""

    finding: Finding
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A checker's answer. `not_checked` may stand beside findings: part of the rule ran, part could not."""

    findings: tuple[Priced, ...] = ()
    not_checked: tuple[str, ...] = ()
    """One sentence each: what the recording lacks, and how to get it."""
    ran: bool = True
    """False when nothing of the rule could run."""


def unable(reason: str) -> Result:
    """Return the answer of a rule that could not run at all."""
    return Result(not_checked=(reason,), ran=False)


class Checker(abc.ABC):
    """One rule at work on one rank of one recording.

    `observe` is called once a step, in order; it must keep counts rather than rows, so that a long
    recording needs no more memory than a short one. `result` is called once, after the last step. A
    checker that lacks what it needs returns `unable(reason)`: an empty result means "looked, and
    found nothing". Checkers raise nothing on odd rows.
    """

    rule: ClassVar[Rule]

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @abc.abstractmethod
    def observe(self, step: StepView) -> None:
        """Take in one step."""

    @abc.abstractmethod
    def result(self, totals: Totals) -> Result:
        """Return the findings; `totals` are the sums over all steps observed."""
