"""Comments that switch rules off for a line or a file: `# jumar: ignore[JM101]`, `# jumar: ignore-file`.

A comment at the end of a line speaks for that line, one on a line of its own for the next line with
code. What is ignored is neither changed nor reported; a comment that ignores nothing is.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from jumar.base.findings import Finding, Location
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Skip
from jumar.convert.model.text import SourceText
from jumar.convert.rules.tree.unused_ignore import RULE as UNUSED

_MARK = b"jumar:"
_COMMENT = re.compile(r"#.*?\bjumar:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[^\]]*)\])?(?=\s|$|[;,.])")
_WHOLE_FILE = re.compile(rb"^[ \t]*#[ \t]*jumar:[ \t]*ignore-file[ \t]*$", re.MULTILINE)
_ALL = "*"


def skip_of(data: bytes, path: str) -> Skip | None:
    """Return the outcome of a file that switches off all rules for itself, None for any other."""
    if _MARK not in data or not _WHOLE_FILE.search(data.replace(b"\r", b"\n")):
        return None
    return Skip(path=path, before=data, reason="it says `jumar: ignore-file`")


@dataclass(slots=True)
class _Comment:
    """One comment: the line it stands in, the line it speaks for (None: the whole file), codes, and those it used."""

    line: int
    column: int
    target: int | None
    codes: frozenset[str]
    used: set[str] = field(default_factory=set)

    def covers(self, code: str) -> bool:
        return _ALL in self.codes or code in self.codes


@dataclass(slots=True)
class Ignores:
    """The comments of one file. `filtered` takes every proposal of a conversion; `unused` is asked at the end."""

    text: SourceText
    comments: list[_Comment] = field(default_factory=list)
    _silent: list[Proposal] = field(default_factory=list)

    @classmethod
    def of(cls, text: SourceText, *, python: bool = True) -> Ignores:
        """Read the comments of a source; those of other files are told by `#` alone."""
        if _MARK not in text.data:
            return cls(text)
        found = _python_comments(text.text) if python else _hash_comments(text.text)
        lines = re.split(r"\r\n|\r|\n", text.text)
        comments = [comment for line, column, words in found for comment in _read(line, column, words, lines)]
        return cls(text, comments)

    def filtered(self, proposal: Proposal) -> Proposal:
        """Return the proposal; an ignored one keeps its place, that no other rule changes, and loses its edits."""
        covering = [comment for comment in self.comments if self._covers(comment, proposal)]
        if not covering:
            return proposal
        for comment in covering:
            comment.used.add(proposal.rule.code)
        silent = replace(proposal, replacements=(), requires=())
        self._silent.append(silent)
        return silent

    def _covers(self, comment: _Comment, proposal: Proposal) -> bool:
        if not comment.covers(proposal.rule.code):
            return False
        return comment.target is None or comment.target in self._lines(proposal)

    def _lines(self, proposal: Proposal) -> set[int]:
        """Return the first and last line of the place, and those that its edit touches."""
        places = [proposal.span, *((item.start, item.end) for item in proposal.replacements)]
        return {self.text.position(at)[0] for start, end in places for at in (start, max(start, end - 1))}

    def silences(self, proposal: Proposal) -> bool:
        """Tell whether a comment silences this proposal, and note that the comment is of use."""
        return self.ignores(self.filtered(proposal))

    @property
    def silenced(self) -> frozenset[int]:
        """The lines of the proposals that were silenced."""
        return frozenset(line for proposal in self._silent for line in self._lines(proposal))

    def ignores(self, proposal: Proposal) -> bool:
        """Tell whether `filtered` has silenced this proposal, so that it is no finding."""
        return any(proposal is silent for silent in self._silent)

    def unused(self, path: str, options: ConvertOptions, ran: Iterable[Rule]) -> Iterator[Finding]:
        """Yield a finding for each comment, or code in one, that ignored nothing though its rule took part."""
        checked = {rule.code for rule in ran if options.checks(rule)}
        for comment in self.comments:
            idle = sorted(code for code in comment.codes - comment.used if code in checked or code == _ALL)
            if idle and not (idle == [_ALL] and comment.used):
                what = "" if idle == [_ALL] else f" of {', '.join(idle)}"
                yield UNUSED.finding(
                    f"This comment ignores nothing{what}.",
                    where=Location(path=path, line=comment.line, column=comment.column, end_line=comment.line),
                    action="Remove it."
                    if what == "" or len(idle) == len(comment.codes)
                    else "Remove what is not needed.",
                )


def _read(line: int, column: int, words: str, lines: list[str]) -> Iterator[_Comment]:
    match = _COMMENT.match(words)
    if match is None:
        return
    codes = frozenset(code.strip().upper() for code in (match["codes"] or _ALL).split(",") if code.strip())
    target: int | None = line
    if match["file"]:
        target = None
    elif not lines[line - 1][: column - 1].strip():
        following = range(line, len(lines))
        target = next(
            (at + 1 for at in following if lines[at].strip() and not lines[at].lstrip().startswith("#")), line
        )
    yield _Comment(line, column, target, codes)


def _python_comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield line, column (both from 1) and words of every comment; what tokenize cannot read has none."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError):
        return


def _hash_comments(text: str) -> Iterator[tuple[int, int, str]]:
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        match = re.search(r"(?:^|(?<=\s))#.*\bjumar:", line)
        if match is not None:
            yield number, match.start() + 1, line[match.start() :]
