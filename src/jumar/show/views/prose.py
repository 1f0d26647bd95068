"""Plain text of findings and pages, with `backquotes` for code."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text that is code or is not."""

    text: str
    code: bool = False


def spans(text: str) -> list[Span]:
    """Split `text` at its pairs of backquotes; a lone backquote stays a character."""
    # With one group, split() alternates between what is outside and what is inside.
    return [Span(part, index % 2 == 1) for index, part in enumerate(_CODE.split(text)) if part]


def paragraphs(text: str) -> list[list[Span]]:
    """Split `text` at empty lines into paragraphs of spans."""
    return [spans(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip()]
