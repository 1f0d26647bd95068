"""Unified diffs and single edits as numbered, coloured lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Literal

from jumar.base.findings import Edit

MOST_LINES = 5000
"""Lines of a diff on a page; more are for the patch file."""

_ALIKE = 0.5
"""Share of common words from which two lines count as one that was changed."""
_MOST_PAIRS = 400
"""Comparisons in one run of deleted and added lines; a rewritten page has no changed lines worth marking."""

LineKind = Literal["add", "del", "ctx", "hunk", "meta"]
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_SIGNS: dict[str, LineKind] = {"+": "add", "-": "del", " ": "ctx", "": "ctx", "\\": "meta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line with its numbers on both sides; `parts` are (text, whether this is what changed)."""

    kind: LineKind
    sign: str = ""
    old: int | None = None
    new: int | None = None
    margin: str = ""
    """Both numbers, padded to stand in columns."""
    parts: tuple[tuple[str, bool], ...] = ()

    @property
    def text(self) -> str:
        """The line without its sign."""
        return "".join(text for text, _ in self.parts)


@dataclass(slots=True, kw_only=True)
class FileDiff:
    """One file of a patch; `name` is empty for lines outside of any."""

    name: str
    lines: list[DiffLine] = field(default_factory=list)

    @property
    def num_added(self) -> int:
        """Lines the patch adds."""
        return sum(line.kind == "add" for line in self.lines)

    @property
    def num_deleted(self) -> int:
        """Lines the patch takes away."""
        return sum(line.kind == "del" for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffView:
    """What the template lays out."""

    title: str
    files: list[FileDiff]
    num_hidden: int
    open: bool


def diff_view(text: str, title: str) -> DiffView:
    """Prepare a unified diff (or any text: what is not a diff is shown as it is)."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    files = _files(lines[:MOST_LINES])
    for file in files:
        file.lines = _numbered(mark_changes(file.lines))
    return DiffView(title=title, files=files, num_hidden=max(0, len(lines) - MOST_LINES), open=len(lines) <= 400)


def edit_lines(edit: Edit) -> list[DiffLine]:
    """Return an edit as a diff; numbers are those of its file before (and after, from the same start)."""
    before, after = edit.before.splitlines(), edit.after.splitlines()
    lines: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        first = edit.start_line
        if tag == "equal":
            pairs = zip(range(old_start, old_end), range(new_start, new_end), strict=True)
            lines += [_line("ctx", " ", before[old], first + old, first + new) for old, new in pairs]
            continue
        lines += [_line("del", "-", before[old], first + old, None) for old in range(old_start, old_end)]
        lines += [_line("add", "+", after[new], None, first + new) for new in range(new_start, new_end)]
    return _numbered(mark_changes(lines))


def mark_changes(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """Mark what differs between a deleted line and the added line most like it, in order."""
    marked = list(lines)
    runs = [[index for index, _ in run] for _, run in groupby(enumerate(lines), key=lambda item: item[1].kind)]
    for olds, news in pairwise(runs):
        if (lines[olds[0]].kind, lines[news[0]].kind) != ("del", "add") or len(olds) * len(news) > _MOST_PAIRS:
            continue
        last = news[0] - 1
        for old in olds:
            likeness, new = max(
                ((_likeness(lines[old], lines[index]), index) for index in news if index > last), default=(0.0, 0)
            )
            if likeness >= _ALIKE:
                marked[old], marked[new] = _mark_pair(lines[old], lines[new])
                last = new
    return marked


def _likeness(old: DiffLine, new: DiffLine) -> float:
    return difflib.SequenceMatcher(a=_WORD.findall(old.text), b=_WORD.findall(new.text), autojunk=False).ratio()


def _numbered(lines: Sequence[DiffLine]) -> list[DiffLine]:
    numbers = [number for line in lines for number in (line.old, line.new) if number is not None]
    width = len(str(max(numbers, default=0)))
    return [
        replace(
            line, margin=" ".join(f"{'' if number is None else number:>{width}}" for number in (line.old, line.new))
        )
        for line in lines
    ]


def _mark_pair(old: DiffLine, new: DiffLine) -> tuple[DiffLine, DiffLine]:
    before, after = _WORD.findall(old.text), _WORD.findall(new.text)
    old_parts: list[tuple[str, bool]] = []
    new_parts: list[tuple[str, bool]] = []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        old_parts.append(("".join(before[old_start:old_end]), tag != "equal"))
        new_parts.append(("".join(after[new_start:new_end]), tag != "equal"))
    return (
        replace(old, parts=tuple(part for part in old_parts if part[0])),
        replace(new, parts=tuple(part for part in new_parts if part[0])),
    )


def _line(kind: LineKind, sign: str, text: str, old: int | None, new: int | None) -> DiffLine:
    return DiffLine(kind=kind, sign=sign, old=old, new=new, parts=((text, False),) if text else ())


def _files(lines: Sequence[str]) -> list[FileDiff]:
    """Cut a patch into files. Within a hunk its counts say what a line is: `--- x` may be a deleted `-- x`."""
    files = [FileDiff(name="")]
    hunk = _Hunk()
    for text in lines:
        if hunk.unfinished or text.startswith("\\"):
            files[-1].lines.append(hunk.take(text))
            continue
        if _begins_file(text, files[-1]):
            files.append(FileDiff(name=""))
        name = _file_name(text)
        files[-1].name = name or files[-1].name
        match = _HUNK.match(text)
        if match:
            hunk = _Hunk(*(1 if number is None else int(number) for number in match.groups()))
        if not name and not text.startswith(("--- ", "+++ ", "index ")):
            files[-1].lines.append(_line("hunk" if match else "meta", "", text, None, None))
    return [file for file in files if file.name or file.lines]


@dataclass(slots=True)
class _Hunk:
    """Where the next line of a hunk is on either side, and how many lines are left."""

    old: int = 0
    num_old: int = 0
    new: int = 0
    num_new: int = 0

    @property
    def unfinished(self) -> bool:
        return self.num_old > 0 or self.num_new > 0

    def take(self, text: str) -> DiffLine:
        kind = _SIGNS.get(text[:1], "ctx")
        is_old, is_new = kind in ("del", "ctx"), kind in ("add", "ctx")
        line = _line(kind, text[:1], text[1:], self.old if is_old else None, self.new if is_new else None)
        self.old, self.num_old = self.old + is_old, self.num_old - is_old
        self.new, self.num_new = self.new + is_new, self.num_new - is_new
        return line


def _begins_file(text: str, file: FileDiff) -> bool:
    if text.startswith("diff --git "):
        return True
    return text.startswith("--- ") and any(line.kind != "meta" for line in file.lines)


def _file_name(text: str) -> str:
    """Return the file that a header line names; of a deleted file, the old one."""
    match = re.fullmatch(r"(?:---|\+\+\+|diff --git a/.*) (?:[ab]/)?([^\t]+)(?:\t.*)?", text)
    return "" if match is None or match[1] == "/dev/null" else match[1]
