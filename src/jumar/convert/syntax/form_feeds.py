"""Form feeds before a statement: LibCST drops them from the code it gives back, or takes them for indentation."""

from __future__ import annotations

import bisect
import io
import itertools
import re
import tokenize
from typing import TypeVar

from jumar.convert.model.spans import Span

KeyT = TypeVar("KeyT")

_HEAD = re.compile(r"[ \t\f]*\f")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_BEFORE_STATEMENT = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING})
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})


def cut(text: str) -> tuple[str, list[Span]]:
    """Return a source without the form feeds before its statements, and the spans that were taken out.

    Python counts the indentation from the last form feed on, so what stands before it goes, too.
    """
    if "\f" not in text:
        return text, []
    lines = [(match.start(), match.end()) for match in _LINE.finditer(text)]
    heads = [_HEAD.match(text, *lines[number - 1]) for number in _statement_lines(text)]
    spans = [match.span() for match in heads if match is not None]
    kept = itertools.pairwise([0, *itertools.chain.from_iterable(spans), len(text)])
    return "".join(text[start:end] for index, (start, end) in enumerate(kept) if index % 2 == 0), spans


def _statement_lines(text: str) -> list[int]:
    """Return the lines (from 1) on which statements begin."""
    found: list[int] = []
    begins = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if begins and token.type not in _LAYOUT:
                found.append(token.start[0])
                begins = False
            begins = begins or token.type in _BEFORE_STATEMENT
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser says what is wrong with it
    return list(dict.fromkeys(found))


def moved(spans: dict[KeyT, Span], taken: list[Span]) -> dict[KeyT, Span]:
    """Return spans of the text without form feeds as spans of the whole one."""
    if not taken:
        return spans
    lengths = [0, *itertools.accumulate(end - start for start, end in taken)]
    places = [start - before for (start, _), before in zip(taken, lengths, strict=False)]

    def whole(offset: int) -> int:
        return offset + lengths[bisect.bisect_right(places, offset)]

    return {key: (whole(start), whole(end)) for key, (start, end) in spans.items()}
