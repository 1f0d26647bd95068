"""Which rows' whole tensors are kept: a second pass over the suspects of a first recording.

A pattern is a row key or a glob over row keys (`op/forward/blocks.1.*/aten::gelu/*`), optionally with
the step it is meant for in front (`3:op/forward/…`). The key of a row is known when its call begins, so a
tensor that no pattern asks for is never copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from jumar.capture.plans.patterns import split_step
from jumar.recording.schema import row_key


class Selection:
    """The rows that patterns ask for. `step` gives the number of the step under way."""

    def __init__(self, patterns: Sequence[str], step: Callable[[], int]) -> None:
        self._patterns = [_Pattern(text) for text in patterns]
        self._step = step
        self._known: dict[tuple[str, str, str, str, int], tuple[_Pattern, ...]] = {}

    def wants(self, kind: str, phase: str, module_path: str, name: str, occurrence: int) -> bool:
        """Tell whether a row's tensors are asked for, and remember which patterns met one."""
        place = (kind, phase, module_path, name, occurrence)
        found = self._known.get(place)
        if found is None:  # NOTE: the keys of a step repeat in the next: each is matched once a run
            key = row_key(*place)
            found = self._known[place] = tuple(pattern for pattern in self._patterns if pattern.matches(key))
        if not found:
            return False
        step, wanted = self._step(), False
        for pattern in found:
            if pattern.step is None or pattern.step == step:
                pattern.was_met = wanted = True
        return wanted

    def unmet(self) -> list[str]:
        """Return the patterns that no recorded row matched.

        A file of suspects has keys of both runs, each with its step. Where any of such keys was met, those that were
        not are the other run's.
        """
        has_own = any(pattern.was_met for pattern in self._patterns if pattern.is_one_row)
        return [
            pattern.text for pattern in self._patterns if not pattern.was_met and not (has_own and pattern.is_one_row)
        ]


class _Pattern:
    """One pattern, compiled."""

    def __init__(self, text: str) -> None:
        self.text = text
        step, key = split_step(text)
        self.step = step
        self.is_one_row = step is not None and not set("*?") & set(key)
        """Whether it is the key of one row in one step, as files of suspects have them."""
        self.matches = re.compile(translate(_without_classes(key))).match
        self.was_met = False


def _without_classes(key: str) -> str:
    """Take square brackets as they are: they occur in names, and a class of letters in no key."""
    return key.replace("[", "[[]")
