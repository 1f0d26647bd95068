"""Converts one notebook: its Python as one source, its shell lines one by one (JM128)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from jumar.base.findings import Finding, Location
from jumar.convert.files.draft.drafting import Converted, edited
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.draft.plain_text import decode
from jumar.convert.files.draft.python_engine import convert_python
from jumar.convert.files.notebook.cells import JoinedCells, ReadCell, offset_of_line, read_cell
from jumar.convert.files.notebook.document import Cell, Notebook, NotebookError, read_notebook
from jumar.convert.files.shell import environment
from jumar.convert.files.shell.convert import shell_proposals
from jumar.convert.files.shell.lexer import read_script
from jumar.convert.files.shell.scope import Scope
from jumar.convert.files.shell.words import Command, Script, Word
from jumar.convert.model.edits import EditSet, Proposal, lines_edit, to_finding
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure, Outcome, Skip
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.text import SourceText
from jumar.convert.rules.files.unreadable_file import RULE

MAX_SIZE_BYTES = 64 << 20
"""Outputs hold pictures, so notebooks may be far larger than sources."""

_UNREAD = "The magic names CUDA and is read neither as Python nor for the shell, so it was left."
_TRIGGER = re.compile(rb"cuda|nccl|nvidia|gpu|apex|flash|bitsandbytes|xformers|triton|8bit|torch", re.IGNORECASE)


def _is_notebook(path: PurePosixPath, data: bytes) -> bool:
    return path.suffix.lower() == ".ipynb" and is_text(data, MAX_SIZE_BYTES)


def _convert(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    if not _TRIGGER.search(data):
        return Skip(path=path, before=data, reason="nothing in it belongs to CUDA")
    text = decode(data)
    try:
        notebook = read_notebook(text.text)
    except NotebookError as error:
        sentence = f"{path}: {error}; save it again with Jupyter, or leave it out."
        finding = RULE.finding(f"The notebook cannot be read: {error}.", where=Location(path=path))
        return Failure(path=path, before=data, error=sentence, findings=(finding,) if options.checks(RULE) else ())
    if "python" not in notebook.language:
        return Skip(path=path, before=data, reason=f"its language is {notebook.language}")
    return _Conversion(text, path, notebook, options, project).outcome()


class _Conversion:
    def __init__(
        self, text: SourceText, path: str, notebook: Notebook, options: ConvertOptions, project: ProjectFacts
    ) -> None:
        self.text = text
        self.path = path
        self.cells = notebook.cells
        self.options = options
        self.project = project
        self.edits = EditSet()
        self.findings: list[Finding] = []

    def outcome(self) -> Outcome:
        read = [read_cell(cell.text) for cell in self.cells]
        for cell, parts in zip(self.cells, read, strict=True):
            self.shell(cell, parts)
            if parts.error:
                self.unreadable(cell, parts.error)
            for span in parts.unread:
                self.propose(cell, Proposal(rule=RULE, span=span, message=_UNREAD))
        self.python(read)
        return edited(self.text, self.path, self.edits, self.findings)

    def unreadable(self, cell: Cell, error: str) -> None:
        if re.search(r"cuda|nccl", cell.text, re.IGNORECASE):
            proposal = Proposal(
                rule=RULE, span=(0, len(cell.text)), message=f"The cell cannot be read as Python ({error})."
            )
            self.propose(cell, proposal)

    def shell(self, cell: Cell, parts: ReadCell) -> None:
        for start, end in parts.commands:
            for proposal in shell_proposals(cell.text, self.options, self.project, start, end):
                if isinstance(proposal, Converted):
                    self.converted(cell, proposal)
                else:
                    self.propose(cell, proposal)
        for start, end in parts.variables:
            scope = Scope(cell.text, _variable(cell.text, start, end), self.options, self.project)
            for proposal in environment.check(scope):
                self.propose(cell, proposal)

    def propose(self, cell: Cell, proposal: Proposal) -> None:
        """Take a proposal about a cell's text as one about the file."""
        if not self.options.checks(proposal.rule):
            return
        moved = tuple(cell.replacement(edit) for edit in proposal.replacements)
        start, end = proposal.span
        span = (cell.file_offset(start), cell.file_offset(max(start, end - 1)) + 1)
        wanted = bool(moved) and self.options.makes(proposal.rule, proposal.safety)
        applied = wanted and self.edits.accept(moved)
        made = replace(proposal, span=span, replacements=moved)
        self.note(cell, to_finding(made, self.text, self.path, applied=applied), start)

    def converted(self, cell: Cell, part: Converted) -> None:
        self.edits.accept([cell.replacement(edit) for edit in part.replacements])
        first = cell.text.count("\n", 0, part.offset)
        for finding in part.findings:
            line = first + (finding.where.line or 1)
            self.note(cell, replace(finding, edit=None), offset_of_line(cell.text, line))

    def note(self, cell: Cell, finding: Finding, offset: int) -> None:
        """Keep a finding about the character `offset` of a cell, located in the cell and in the file."""
        line, column = self.text.position(cell.file_offset(offset))
        cell_line = cell.text.count("\n", 0, offset) + 1
        where = replace(finding.where, path=self.path, line=line, column=column, end_line=line)
        evidence = {**finding.evidence, "cell": cell.number, "cell_line": cell_line}
        message = f"Cell {cell.number}, line {cell_line}: {finding.message}"
        self.findings.append(replace(finding, where=where, evidence=evidence, message=message))

    def python(self, read: Sequence[ReadCell]) -> None:
        """Convert the Python of all cells as one source."""
        cells = [(cell, parts.python) for cell, parts in zip(self.cells, read, strict=True)]
        readable = [(cell, code) for cell, code in cells if code is not None]
        joined = JoinedCells.of([code for _, code in readable])
        outcome = convert_python(joined.text, self.path, self.options, self.project)
        edits = joined.edits(outcome.after.decode()) if readable else iter(())
        if edits is None or isinstance(outcome, Failure):
            where = Location(path=self.path)
            self.findings.append(RULE.finding("The cells cannot be read together, so none was converted.", where=where))
            return
        for index, replacements in edits:
            cell = readable[index][0]
            self.edits.accept([cell.replacement(edit) for edit in replacements])
        for finding in outcome.findings:
            self.located(finding, joined, [cell for cell, _ in readable])

    def located(self, finding: Finding, joined: JoinedCells, cells: Sequence[Cell]) -> None:
        line = finding.where.line or 1
        index, offset = joined.place(offset_of_line(joined.text, line) + (finding.where.column or 1) - 1)
        edit = finding.edit
        if edit is not None:
            owner, edits = joined.cell_edits(edit.start_line, edit.before, edit.after)
            edit = lines_edit([cells[owner].replacement(each) for each in edits], self.text, self.path, edit.safety)
        self.note(cells[index], replace(finding, edit=edit), offset)


def _variable(text: str, start: int, end: int) -> Script:
    """Return the assignment of `%env NAME=VALUE` or `%env NAME VALUE`; a word before it keeps it to one variable."""
    script = read_script(text, start, end)
    words = [word for command in script.commands for word in command.words]
    if len(words) == 2 and words[0].assigned is None:
        name, value = words
        joined = Word(name.start, value.end, f"{name.text}={value.text}", (*name.offsets, name.end, *value.offsets))
        words = [joined]
    return Script([Command([Word(start, start, "%env", (start,) * 4), *words])])


NOTEBOOK: FileKind = FileKind(name="notebook", matches=_is_notebook, convert=_convert)
