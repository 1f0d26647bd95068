"""`Bundle`: what is in an archive, what was masked and cut, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.text import counted, size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One member of the archive."""

    name: str
    size_bytes: int
    num_lines: int
    what: str
    left_out_lines: int = 0
    """Lines of a big log that are not in it."""
    kept: tuple[tuple[int, int], ...] = ()
    """The lines that are, from first to last, where some are not."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name, "size_bytes": self.size_bytes, "num_lines": self.num_lines, "what": self.what,
            "left_out_lines": self.left_out_lines, "kept": [list(pair) for pair in self.kept],
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An archive that was written."""

    path: Path
    size_bytes: int
    contents: tuple[Content, ...]
    masked: Mapping[str, int] = field(default_factory=dict)
    """How many places were masked, by kind."""
    notes: tuple[str, ...] = ()
    """What was left out, and why: whole sentences, masked."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "path": str(self.path),
            "size_bytes": self.size_bytes,
            "contents": [one.to_json() for one in self.contents],
            "masked": dict(self.masked),
            "notes": list(self.notes),
        }


def manifest_text(contents: tuple[Content, ...], masked: Mapping[str, int], notes: tuple[str, ...]) -> str:
    """Return the text of MANIFEST.txt."""
    lines = [
        "Packed by jumar doctor --bundle.",
        "",
        "Look through it before you send it: masking finds what it knows.",
        "",
    ]
    for one in contents:
        cut = f"; {counted(one.left_out_lines, 'line')} left out" if one.left_out_lines else ""
        lines.append(f"{one.name}: {one.what}, {size_text(one.size_bytes)}, {counted(one.num_lines, 'line')}{cut}")
        lines += [f"    lines {first} to {last}" for first, last in one.kept]
    lines += ["", "Masked: " + (", ".join(f"{kind} {number}" for kind, number in sorted(masked.items())) or "nothing")]
    lines += ["", *notes] if notes else []
    return "\n".join(lines) + "\n"
