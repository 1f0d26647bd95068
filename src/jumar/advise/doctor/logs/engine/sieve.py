"""`Sieve`: which lines of a block are worth reading, and what can be in each of them.

Most lines of a log differ from others in numbers only. A *form* is a line with every digit made 1. A form is judged
once: all texts that an error has to hold are looked for in one pass over the new forms. What is left of a gigabyte of
plogs is a few lines, and those are read one by one, by the same code whatever the block.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from jumar.advise.doctor.entries import Searcher, Table
from jumar.advise.doctor.logs.engine.grams import Needles
from jumar.advise.doctor.logs.lines.meetings import NEEDLES as MEETINGS
from jumar.advise.doctor.logs.restarts import RESTART_MARKS, says_restart
from jumar.advise.doctor.logs.tracebacks import CHAINED, HEAD
from jumar.advise.doctor.logs.words import NEEDLES, has_form_of_error
from jumar.advise.doctor.logs.wrappings import COLOURS, unwrapped

_ONES = bytes(ord("1") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_MARKS = (HEAD, *CHAINED, *MEETINGS)
"""What opens a traceback (the lines after it are read, too), and what all ranks print at once."""
_FORMS = re.compile(
    rb"\bE[A-Z1]1111|\bERR1|(?:^|[\s\[(|\"])[EFC](?:1{3,4}|[ \]|:])|\bERR\b|\b(?:SEVERE|PANIC)\b", re.MULTILINE
)
"""Codes of the vendor, and letters of loggers that stand for an error, in a form."""
_YEAR = re.compile(r"\b1111(?=[-/]11[-/]11)")
"""Readers of times want a year of this century."""
_YEAR_BYTES = re.compile(_YEAR.pattern.encode())
_ESCAPES = ((b'\\"', b'"'), (b"\\n", b" "), (b"\\t", b" "), (b"\\r", b" "), (b"\\/", b"/"), (b"\\\\", b"\\"))
"""What JSON writes for the characters of a text. Others (`\\u001b`) are left to the reader of the line."""
_LETTER = -1
"""Stands for a match of `_FORMS` among the numbers of needles."""
_NO_CODES = {"codes": False, "return_codes": False}
_HEX = re.compile(rb"1x[1a-fA-F]{2,}")
LONG_BYTES = 4096
"""Of a longer line only what is around the marks is judged."""
_AROUND_BYTES = 300
_MOST_WINDOWS = 32
_LONGEST_FORM_BYTES = 2**15
_MOST_QUIET_BYTES = 12 * 2**20
_MOST_LIVE = 4096
_MOST_SILENT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a line of one form can hold."""

    searcher: Searcher
    words: bool = True
    """Words that name an error."""
    messages: tuple[int, ...] = ()
    """Numbers of the messages whose needles are there."""
    silent: set[bytes] = field(default_factory=set)
    """Lines of this form, numbers told apart only as naught or not, that were read and say nothing."""

    @property
    def is_words_only(self) -> bool:
        """Whether the line can say no more than words do: these know no numbers but naught."""
        return self.words and not self.searcher

    def is_silent(self, key: bytes) -> bool:
        """Tell whether a line with this key (`naughts`) was read and said nothing."""
        return key in self.silent

    def silence(self, key: bytes) -> None:
        """Remember that a line with this key says nothing."""
        if len(self.silent) < _MOST_SILENT:
            self.silent.add(key)


class Sieve:
    """Keeps what it has judged: one for all files of a process."""

    def __init__(self, table: Table) -> None:
        self._table = table
        texts: dict[bytes, list[int]] = {}
        for number, needle in enumerate(table.needles):
            texts.setdefault(_form(needle.encode()).lower(), []).append(number)
        self._messages = [texts[text] for text in texts]
        """By the text's number: the messages that hold it."""
        self._codes = frozenset(_form(mark.encode()).lower() for mark in table.code_marks)
        # A file's ending marks nothing: lines of loggers with a letter for the level have one of `_FORMS`.
        self._words = frozenset(_form(mark.encode()).lower() for mark in (*NEEDLES, *RESTART_MARKS) if mark[0] != ".")
        marks = {_form(mark.encode()).lower() for mark in _MARKS}
        self._needles = Needles([*texts, *sorted((self._codes | self._words | marks) - texts.keys())])
        self._all = Plan(table.searcher_of(range(len(table.needles)), codes=True, return_codes=True))
        self._quiet: set[bytes] = set()
        self._quiet_bytes = 0
        self._live: dict[bytes, Plan] = {}

    def find(self, data: bytes) -> Sequence[tuple[int, Plan]]:
        """Return the lines of a block that are worth reading: (index, what can be in it)."""
        forms = _form(data).split(b"\n")
        here = set(forms) - self._quiet
        unknown = [form for form in here if form not in self._live]
        judged: Mapping[bytes, Plan] = self._judge(unknown) if unknown else {}
        plans = {form: plan for form in here if (plan := judged.get(form) or self._live.get(form)) is not None}
        self._keep(unknown, judged)
        return [(index, plans[form]) for index, form in enumerate(forms) if form in plans] if plans else ()

    def plan(self, line: str) -> Plan | None:
        """Return what can be in one line, None where nothing can."""
        found = self.find(line.replace("\n", " ").encode("utf-8", "replace"))
        return found[0][1] if found else None

    def _keep(self, unknown: Iterable[bytes], judged: Mapping[bytes, Plan]) -> None:
        if self._quiet_bytes > _MOST_QUIET_BYTES:
            self._quiet, self._quiet_bytes = set(), 0
        if len(self._live) > _MOST_LIVE:
            self._live = {}
        for form in unknown:
            if len(form) > _LONGEST_FORM_BYTES:
                continue
            if form in judged:
                self._live[form] = judged[form]
            else:
                self._quiet.add(form)
                self._quiet_bytes += len(form) + 100

    def _judge(self, forms: Sequence[bytes]) -> dict[bytes, Plan]:
        """Return the forms that can hold something, each with what."""
        said = _said(b"\n".join(forms))
        starts = list(accumulate((len(form) + 1 for form in said.split(b"\n")), initial=0))
        lines: dict[int, list[tuple[int, int]]] = {}
        for at, number in self._needles.find(said.lower()):
            lines.setdefault(bisect_right(starts, at) - 1, []).append((at, number))
        for match in _FORMS.finditer(said):
            lines.setdefault(bisect_right(starts, match.end() - 1) - 1, []).append((match.end() - 1, _LETTER))
        plans = {}
        for index, places in lines.items():
            start, end = starts[index], starts[index + 1] - 1
            if end - start > LONG_BYTES:
                plan = self._plan_of_long(said, start, end, places)
            else:
                plan = self._plan(forms[index], said[start:end], {number for _, number in places})
            if plan is not None:
                plans[forms[index]] = plan
        if b"\\u" in said:  # letters that JSON hides
            plans |= {form: self._all for form in forms if b"\\u" in form}
        return plans

    def _plan_of_long(self, said: bytes, start: int, end: int, places: list[tuple[int, int]]) -> Plan | None:
        """Return what can be in a long line: only what is around the marks in it is judged."""
        plans = []
        for first, last in _joined(sorted(at for at, _ in places)):
            around = said[max(start, first - _AROUND_BYTES) : min(end, last + _AROUND_BYTES)]
            numbers = {number for at, number in places if first <= at <= last}
            plans.append(self._plan(around, around, numbers))
            if len(plans) >= _MOST_WINDOWS:
                return self._all
        found = [plan for plan in plans if plan is not None]
        if not found:
            return None
        messages = {number for plan in found for number in plan.messages}
        searcher = self._table.searcher_of(
            sorted(messages),
            codes=any(plan.searcher.codes for plan in found),
            return_codes=any(plan.searcher.return_codes for plan in found),
        )
        return Plan(searcher, any(plan.words for plan in found))

    def _plan(self, form: bytes, said: bytes, numbers: set[int]) -> Plan | None:
        """Return what can be in a form; `said` is the same without colours and escapes."""
        text = _YEAR.sub("2011", said.decode("utf-8", "replace"))
        has_letter = _LETTER in numbers
        numbers.discard(_LETTER)
        held = {self._needles.texts[number] for number in numbers}
        messages = sorted(
            message for number in numbers if number < len(self._messages) for message in self._messages[number]
        )
        codes = self._table.codes_of_form(text) if has_letter or held & self._codes else _NO_CODES
        searcher = self._table.searcher_of(messages, **codes)
        words = (has_letter or not held.isdisjoint(self._words)) and self._has_words(form, text)
        if not (searcher or words or any(mark in text for mark in _MARKS)):
            return None
        return Plan(searcher, words, tuple(messages))

    def _has_words(self, form: bytes, text: str) -> bool:
        if b"{" not in form and b"\r" not in form:
            return has_form_of_error(text) or says_restart(text)
        printed, _ = unwrapped(_YEAR_BYTES.sub(b"2011", form))
        return any(map(has_form_of_error, printed.decode("utf-8", "replace").split("\n")))


def _joined(places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of places that lie close together."""
    first = last = places[0]
    for at in places:
        if at - last > _AROUND_BYTES:
            yield first, last
            first = at
        last = at
    yield first, last


def naughts(line: bytes) -> bytes:
    """Return the line with each number made 0 where it is naught and 1 where it is not."""
    line = line.translate(_NAUGHTS)
    for pair, digit in _SHORTER:
        if pair in line:
            line = line.replace(pair, digit)
    return line


_NAUGHTS = bytes(ord("1") if ord("1") <= byte <= ord("9") else byte for byte in range(256))
_SHORTER = (
    (b"1111", b"1"), (b"111", b"1"), (b"11", b"1"), (b"000", b"0"), (b"00", b"0"), (b"01", b"1"), (b"11", b"1"),
    (b"10", b"1"), (b"11", b"1"), (b"00", b"0"), (b"01", b"1"), (b"10", b"1"), (b"11", b"1"),
)  # fmt: skip


def _form(data: bytes) -> bytes:
    data = data.translate(_ONES)
    return _HEX.sub(_ones, data) if b"1x" in data else data


def _ones(number: re.Match[bytes]) -> bytes:
    return b"1x" + b"1" * (number.end() - number.start() - 2)


def _said(forms: bytes) -> bytes:
    """Return the forms without colours, those of JSON without escapes; their lines stay."""
    if b"\x1b" in forms:
        forms = COLOURS.sub(b"", forms)
    if b"\\" in forms and b"{" in forms:
        return b"\n".join(_unescaped(form) if b"{" in form else form for form in forms.split(b"\n"))
    return forms


def _unescaped(form: bytes) -> bytes:
    for escape, character in _ESCAPES:
        form = form.replace(escape, character)
    return form
