"""Converts one source: parses it, asks every rule for proposals, applies the edits that fit together, and checks the
result.
"""

from __future__ import annotations

import functools

from jumar.base.findings import Finding
from jumar.base.process.collector import collector_at_rest
from jumar.convert.facts.framework import framework_in
from jumar.convert.files import is_python, kind_of
from jumar.convert.files.draft.python_engine import hand_in
from jumar.convert.model.edits import EditSet, Proposal, to_finding
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure, Outcome, Skip, Success
from jumar.convert.model.project import ALONE, ProjectFacts
from jumar.convert.model.text import UNPARSABLE, SourceText, parse_python
from jumar.convert.rules.order import in_order, rules_by_code, steps
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.ignores import Ignores, skip_of
from jumar.convert.rules.subject.triggers import Triggers
from jumar.convert.rules.tree.cuda_unresolved import RULE as UNRESOLVED
from jumar.convert.rules.tree.cuda_unresolved import unresolved
from jumar.convert.rules.tree.unparsable_source import report, sentence
from jumar.convert.syntax.residue import python_residues
from jumar.convert.syntax.source import Source, SourceError, parse

_IMPORTS = "JM640"
"""The rule whose imports stand before statements that other rules insert in the same place."""


def convert_file(
    data: bytes,
    path: str,
    options: ConvertOptions | None = None,
    project: ProjectFacts = ALONE,
    *,
    known_python: bool = False,
) -> Outcome | None:
    """Convert one file of any kind, None for a kind that holds nothing to convert and is only copied."""
    options = options or ConvertOptions()
    skip = skip_of(data, path)
    if skip is not None:
        return skip
    if is_python(path, data):
        return convert_source(data, path, options, project, known_python=known_python)
    kind = kind_of(path, data)
    return None if kind is None else kind.convert(data, path, options, project)


def convert_source(
    source: str | bytes,
    path: str,
    options: ConvertOptions | None = None,
    project: ProjectFacts = ALONE,
    *,
    known_python: bool = False,
) -> Outcome:
    """Convert one Python source; `path` (relative to the source root, `/`) is named in the findings, and with
    the facts of a `project` it says which module the file is.

    Success (perhaps without a change), Skip when nothing in it belongs to CUDA, Failure when it
    cannot be read as Python. Never raises for what the source holds, never prints. `known_python`
    spares the look at the syntax of a file that this Python has read before.
    """
    options = options or ConvertOptions()
    data = source.encode() if isinstance(source, str) else source
    skip = skip_of(data, path)
    if skip is not None:
        return skip
    try:
        framework = options.framework or framework_in(data) or project.framework
        silent = triggers(options, framework).silent(data, path, project)
        if silent is None and not options.user_rules.concern(data):
            if not known_python:
                _check_syntax(data, path)
            return untouched(data, path)
        with collector_at_rest():
            return _convert(parse(data, path, project), options, project, silent or frozenset(), framework)
    except SourceError as error:
        return Failure(path=path, before=data, error=sentence(path, error), findings=(report(path, error),))


def untouched(data: bytes, path: str) -> Skip:
    """Return the outcome of a Python source that concerns no rule."""
    return skip_of(data, path) or Skip(path=path, before=data, reason="nothing in it belongs to CUDA or to an adapter")


@functools.lru_cache(maxsize=8)
def triggers(options: ConvertOptions, framework: str = "torch") -> Triggers:
    """Return the triggers of the rules that take part with these options in files of this framework."""
    return Triggers(steps(options, framework))


def _convert(
    source: Source, options: ConvertOptions, project: ProjectFacts, silent: frozenset[str], framework: str
) -> Outcome:
    context = Context(source, options, project)
    ignores = Ignores.of(source.text)
    for step in steps(options, framework):
        if step.code not in silent:
            for proposal in list(step.load().find(context)):
                context.add(ignores.filtered(proposal))
    edits = EditSet()
    wanted = [proposal for proposal in context.proposals if not ignores.ignores(proposal)]
    wanted.sort(key=lambda proposal: proposal.rule.code != _IMPORTS)
    findings = [_apply(proposal, edits, source, options) for proposal in wanted]
    after_text = edits.apply(source.text.text)
    if framework != "tensorflow" and options.checks(UNRESOLVED):
        places = (source.text, source.path, python_residues(after_text), edits.made, tuple(findings))
        findings += unresolved(*places, context.closed, ignores.silences, ignores.silenced)
    ran = [UNRESOLVED, *(rules_by_code()[step.code] for step in in_order(framework))]
    findings += ignores.unused(source.path, options, ran)
    findings.sort(key=lambda finding: (finding.where.line or 0, finding.where.column or 0, finding.code))
    after = source.text.encode(after_text)
    before = source.text.data
    if len(edits) and not _parses(after) and _parses(before):
        raise AssertionError(f"the edits of {source.path} do not parse")
    return Success(path=source.path, before=before, after=after, findings=tuple(findings), num_edits=len(edits))


def _apply(proposal: Proposal, edits: EditSet, source: Source, options: ConvertOptions) -> Finding:
    wanted = bool(proposal.replacements) and options.makes(proposal.rule, proposal.safety)
    applied = wanted and edits.accept(proposal.replacements)
    return to_finding(proposal, source.text, source.path, applied=applied)


def _check_syntax(data: bytes, path: str) -> None:
    """Raise SourceError when `data` is not Python. Python's own parser is asked first because it is fast."""
    if not data.isascii():
        SourceText.decode(data)  # Python's parser overlooks bytes in comments that it refuses when it runs the file
    if not _parses(data):
        parse(data, path)


def _parses(data: bytes) -> bool:
    """Tell whether this Python's own parser reads `data`."""
    try:
        parse_python(data)
    except UNPARSABLE:
        return False
    return True


hand_in(convert_source)
