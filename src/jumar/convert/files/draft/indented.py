"""Reads an indented block without its indentation, and moves proposals about it back into the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jumar.base.findings import Edit, Finding
from jumar.convert.files.draft.drafting import Converted
from jumar.convert.model.edits import Proposal, Replacement

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Block:
    """The text of a block without its indentation, and where in the file each of its characters stands."""

    text: str
    offsets: tuple[int, ...]
    indent: str
    end: int

    @classmethod
    def of(cls, text: str, start: int, end: int) -> Block:
        """Take the indentation that all lines of `text[start:end]` share off them."""
        lines = [match.span() for match in _LINE.finditer(text, start, end)]
        widths = [len(line) - len(line.lstrip(" ")) for line in (text[low:high] for low, high in lines) if line.strip()]
        width = min(widths, default=0)
        kept = [at for low, high in lines for at in range(min(low + width, _content(text, low, high)), high)]
        return cls("".join(text[at] for at in kept), tuple(kept), " " * width, end)

    def place(self, offset: int) -> int:
        """Return where in the file a character of the block stands."""
        return self.offsets[offset] if offset < len(self.offsets) else self.end

    def placed(self, edit: Replacement) -> Replacement:
        """Return an edit of the block as an edit of the file."""
        start = self.place(edit.start)
        end = self.offsets[edit.end - 1] + 1 if edit.end > edit.start else start
        return Replacement(start, end, edit.text.replace("\n", "\n" + self.indent))

    def located(self, found: Iterable[Proposal | Converted]) -> Iterator[Proposal | Converted]:
        """Yield what is said about the block as said about the file."""
        for each in found:
            edits = tuple(self.placed(edit) for edit in each.replacements)
            if isinstance(each, Converted):
                findings = tuple(self._finding(finding) for finding in each.findings)
                yield replace(each, offset=self.place(each.offset), findings=findings, replacements=edits)
            else:
                span = (self.place(each.span[0]), self.place(max(each.span[0], each.span[1] - 1)) + 1)
                yield replace(each, span=span, replacements=edits)

    def _finding(self, finding: Finding) -> Finding:
        where, edit = finding.where, finding.edit
        if where.column is not None:
            where = replace(where, column=where.column + len(self.indent))
        return replace(finding, where=where, edit=self._edit(edit) if edit is not None else None)

    def _edit(self, edit: Edit) -> Edit:
        before, after = (re.sub(r"^(?=.)", self.indent, text, flags=re.MULTILINE) for text in (edit.before, edit.after))
        return replace(edit, before=before, after=after)


def _content(text: str, start: int, end: int) -> int:
    """Return where the first character of a line that is no blank stands, its line end for a blank line."""
    return end - len(text[start:end].lstrip(" "))
