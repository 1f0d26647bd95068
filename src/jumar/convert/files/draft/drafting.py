"""Makes the outcome of a file from proposals about its text, for every kind of file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from jumar.base.findings import Finding
from jumar.convert.files.draft.plain_text import decode
from jumar.convert.model.edits import EditSet, Proposal, Replacement, to_finding
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome, Skip, Success
from jumar.convert.model.project import ProjectFacts
from jumar.convert.model.text import SourceText
from jumar.convert.rules.order import rules_by_code
from jumar.convert.rules.subject.ignores import Ignores
from jumar.convert.rules.tree.cuda_unresolved import RULE as UNRESOLVED
from jumar.convert.rules.tree.cuda_unresolved import unresolved
from jumar.convert.syntax.residue import text_residues


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A part of a text that another engine converted; its findings count lines from the line of `offset`."""

    offset: int
    findings: tuple[Finding, ...]
    replacements: tuple[Replacement, ...]


Propose = Callable[[str, ConvertOptions, ProjectFacts], Iterable[Proposal | Converted]]
"""Proposals about a text, with spans and replacements that count its characters."""

TRIGGER = re.compile(
    r"cuda|nccl|horovodrun|nvidia|gpu|nvcc|nsys|\bncu\b|cudnn|cublas|apex|flash.?att|bitsandbytes|xformers|triton|cupy|tensorrt"
    r"|\bdali|transformer.engine|8bit|4bit|32bit|onebit|paged_|tf32|deepspeed|torch|faiss"
    r"|DS_ACCELERATOR|fused|fp8|\bampere\b|onnxruntime",
    re.IGNORECASE,
)
"""A file in which this finds nothing is not converted."""


def convert_with(
    data: bytes,
    path: str,
    options: ConvertOptions,
    project: ProjectFacts,
    propose: Propose,
    trigger: re.Pattern[str] | None = TRIGGER,
    *,
    is_run: bool = True,
) -> Outcome:
    """Convert one file by what `propose` says about its text. Success, or Skip where there is nothing to say.

    A text in which `trigger` finds nothing is not looked at. `is_run`: the text is run as it is, so that what may
    still mean CUDA in the result is named; documents are read, and kernels are reported as a whole.
    """
    text = decode(data)
    wanted = trigger is None or trigger.search(text.text) is not None
    proposals = list(propose(text.text, options, project)) if wanted else []
    return outcome_of(text, path, proposals, options, is_run=is_run)


def outcome_of(
    text: SourceText,
    path: str,
    proposals: Iterable[Proposal | Converted],
    options: ConvertOptions,
    *,
    is_run: bool = True,
) -> Outcome:
    """Apply what composes, and report everything. Rules that the options leave out take no part."""
    edits = EditSet()
    findings: list[Finding] = []
    ignores = Ignores.of(text, python=False)
    parts = False
    for proposal in proposals:
        if isinstance(proposal, Converted):
            parts = True
            edits.accept(proposal.replacements)
            findings.extend(
                moved(finding, path, text.position(proposal.offset)[0] - 1) for finding in proposal.findings
            )
        elif options.checks(proposal.rule):
            kept = ignores.filtered(proposal)
            if not ignores.ignores(kept):
                findings.append(_apply(kept, edits, text, path, options))
    if is_run and options.checks(UNRESOLVED):
        residues = text_residues(edits.apply(text.text))
        places = (text, path, residues, edits.made, tuple(findings))
        findings += unresolved(*places, (), ignores.silences, ignores.silenced)
    if not parts:  # the engine of a part reads the comments in it
        findings.extend(ignores.unused(path, options, (UNRESOLVED, *rules_by_code("files").values())))
    return edited(text, path, edits, findings)


def edited(text: SourceText, path: str, edits: EditSet, findings: Sequence[Finding]) -> Outcome:
    """Return the outcome of a file with these edits and findings: Skip where there are none."""
    if not findings and not len(edits):
        return Skip(path=path, before=text.data, reason="nothing in it belongs to CUDA")
    after = text.encode(edits.apply(text.text)) if len(edits) else text.data
    return Success(
        path=path, before=text.data, after=after, findings=tuple(in_order(findings)), num_edits=len(edits)
    )  # fmt: skip


def _apply(proposal: Proposal, edits: EditSet, text: SourceText, path: str, options: ConvertOptions) -> Finding:
    wanted = bool(proposal.replacements) and options.makes(proposal.rule, proposal.safety)
    applied = wanted and edits.accept(proposal.replacements)
    return to_finding(proposal, text, path, applied=applied)


def moved(finding: Finding, path: str, lines: int) -> Finding:
    """Return a finding that counts its lines from a place `lines` further down, in the file `path`."""
    where = finding.where
    line = where.line + lines if where.line is not None else None
    end = where.end_line + lines if where.end_line is not None else None
    edit = finding.edit
    if edit is not None:
        edit = replace(edit, path=path, start_line=edit.start_line + lines, end_line=edit.end_line + lines)
    return replace(finding, where=replace(where, path=path, line=line, end_line=end), edit=edit)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by line, column and code, each once."""
    found = sorted(findings, key=lambda finding: (finding.where.line or 0, finding.where.column or 0, finding.code))
    return [finding for index, finding in enumerate(found) if finding not in found[max(0, index - 4) : index]]
