"""`Step`: one rule in an order of rules, with what makes it run."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions

Words = tuple[bytes, ...]
Trigger = Words | re.Pattern[bytes]
"""The rule runs for files that hold one of these words (lower case), or match this pattern of lower-case bytes."""


class RuleModule(Protocol):
    """A module of a rule that runs over Python sources."""

    RULE: Rule

    @staticmethod
    def find(subject: Any, /) -> Iterator[Proposal]:
        """Yield what the rule says of a source: findings, before their edits are made."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rule in the order: its code, its module, and when it runs.

    The module is a name below `jumar.convert.rules`, or the module itself of a rule of another distribution.

    A rule without a trigger runs for every file that is looked at because of CUDA's words or another trigger.
    """

    code: str
    module: str | RuleModule
    trigger: Trigger | Callable[[], Words] | None = None
    when: Callable[[ConvertOptions], bool] | None = None

    def load(self) -> RuleModule:
        """Import the rule."""
        if not isinstance(self.module, str):
            return self.module
        return cast("RuleModule", importlib.import_module(f"jumar.convert.rules.{self.module}"))
