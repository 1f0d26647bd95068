"""`LineReader`: what each line of a file holds: known errors, the end of a traceback, or words that name an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.advise.doctor.entries import Match, Searcher
from jumar.advise.doctor.logs.lines.judgement import Judgement, judged
from jumar.advise.doctor.logs.lines.prefixes import Said, peeled
from jumar.advise.doctor.logs.tracebacks import HEAD, Streams, Traceback
from jumar.base.findings import Severity

_PLOG = re.compile(r"^\[(?:ERROR|CRITICAL)\]\s?([A-Z][A-Z0-9_]*)\(\d+")
_NUMBER = re.compile(r"\d+")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b")
_KEY_CHARACTERS = 300
_PASSED = re.compile(r"::.* (?:PASSED|SKIPPED|XFAIL|XPASS)\b.{0,200}\[\s*\d{1,3}%\]\s*$")
"""A test that passed, as pytest tells it: its name may quote any error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One error in a line."""

    key: tuple[str, str]
    """What makes it the same as an error of another line."""
    said: Said
    match: Match | None = None
    module: str = ""
    """Module of a plog line that nothing else explains."""
    traceback: Traceback | None = None
    judgement: Judgement | None = None
    """Of a line that only names an error."""


class LineReader:
    """Reads the lines of one file in their order. Lines between that hold nothing may be left out."""

    def __init__(self) -> None:
        self._streams = Streams()

    @property
    def is_waiting(self) -> bool:
        """Whether the next line may belong to a traceback, so that it must not be left out."""
        return self._streams.is_waiting

    def expire(self, number: int) -> None:
        """Give up tracebacks that began too many lines before line `number`."""
        self._streams.expire(number)

    def read(self, number: int, line: str, searcher: Searcher | None, *, words: bool = True) -> Iterator[Found]:
        """Yield what line `number` holds; each known error once. `words`: words that name an error count."""
        if line.rstrip().endswith("%]") and _PASSED.search(line):
            return
        said = peeled(line)
        matches = list(searcher.search(said.line)) if searcher else []
        if not matches and searcher and said.text != said.line:  # a pattern may begin where the message begins
            matches = list(searcher.search(said.text))
        traceback = self._streams.feed(number, line, said)
        for match in matches:
            name = match.signature.name if match.signature else "unlisted"
            yield Found(key=(name, match.code), said=said, match=match, traceback=traceback)
        if not matches:
            yield from self._unexplained(said, traceback, words=words)

    def unfinished(self) -> Iterator[tuple[int, Found]]:
        """Yield the heads of tracebacks after which no exception came, each with the number of its line."""
        for number in self._streams.unfinished():
            said = peeled(HEAD)
            yield number, Found(key=("words", HEAD), said=said, judgement=Judgement(Severity.ERROR, 4))

    def _unexplained(self, said: Said, traceback: Traceback | None, *, words: bool) -> Iterator[Found]:
        if traceback is not None:
            key = ("traceback", f"{traceback.exception}: {_NUMBER.sub('0', traceback.message[:80])}")
            yield Found(key=key, said=said, traceback=traceback)
        elif plog := _PLOG.match(said.text):
            yield Found(key=("plog", plog[1]), said=said, module=plog[1])
        elif words and not self._streams.is_inside and (judgement := judged(said)) is not None:
            key = ("words", _NUMBER.sub("0", _ADDRESS.sub("0", said.text.strip()))[:_KEY_CHARACTERS])
            yield Found(key=key, said=said, judgement=judgement)
