"""What the files of a project know of each other: names passed on, and words that must change together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """Facts of a whole source tree, gathered before any file is converted; a value, so that workers can share it."""

    exports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dotted module of the project -> name it offers -> qualified name that stands for (`torch.cuda`)."""
    words: Mapping[str, bool] = field(default_factory=dict)
    """Option or configuration key -> whether the device or back-end words given to it change, in every file or none."""

    def changes(self, key: str) -> bool | None:
        """Tell whether the words of an option or configuration key change; None: no other file speaks of it."""
        return self.words.get(key)

    aliases: frozenset[bytes] = frozenset()
    """Names under which modules of the project offer what belongs to CUDA, where the name itself does not say so."""

    def concerns(self, data: bytes) -> bool:
        """Tell whether a file may use one of the `aliases`."""
        return any(alias in data for alias in self.aliases)


ALONE = ProjectFacts()
"""The facts of a file that is converted by itself."""
