"""One source in, one outcome out: parse, let every rule propose, apply what composes, verify."""

from __future__ import annotations

import ast
import functools
import warnings
from pathlib import PurePosixPath

from jumar.collector import collector_at_rest
from jumar.findings import Finding
from jumar.migrate.edits import EditSet, Proposal, to_finding
from jumar.migrate.facts.project import ALONE, ProjectFacts
from jumar.migrate.files import kind_of
from jumar.migrate.ignores import Ignores, skip_of
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Failure, Outcome, Skip, Success
from jumar.migrate.rules import CHECKS, MODULES, Context
from jumar.migrate.rules.unparsable_source import report, sentence
from jumar.migrate.syntax.source import Source, SourceError, parse
from jumar.migrate.syntax.text import SourceText
from jumar.migrate.triggers import Triggers


def is_python(path: str, data: bytes) -> bool:
    """Tell whether a file is a Python source: by its name, or by its first line where the name has no ending."""
    name = PurePosixPath(path)
    if name.suffix in (".py", ".pyw"):
        return True
    return not name.suffix and data.startswith(b"#!") and b"python" in data.split(b"\n", 1)[0]


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
        silent = triggers(options).silent(data, path, project)
        if silent is None and not options.user_rules.concern(data):
            if not known_python:
                _check_syntax(data, path)
            return untouched(data, path)
        with collector_at_rest():
            return _convert(parse(data, path, project), options, project, silent or frozenset())
    except SourceError as error:
        return Failure(path=path, before=data, error=sentence(path, error), findings=(report(path, error),))


def untouched(data: bytes, path: str) -> Skip:
    """Return the outcome of a Python source of which no rule can say anything."""
    return skip_of(data, path) or Skip(path=path, before=data, reason="nothing in it belongs to CUDA")


@functools.lru_cache(maxsize=8)
def triggers(options: ConvertOptions) -> Triggers:
    """Return the triggers of the rules that take part with these options."""
    return Triggers(MODULES, options)


def _convert(source: Source, options: ConvertOptions, project: ProjectFacts, silent: frozenset[str]) -> Outcome:
    context = Context(source, options, project)
    ignores = Ignores.of(source.text)
    for rule, check in CHECKS:
        if rule.code not in silent and options.checks(rule):
            for proposal in list(check(context)):
                context.add(ignores.filtered(proposal))
    edits = EditSet()
    wanted = [proposal for proposal in context.proposals if not ignores.ignores(proposal)]
    findings = [_apply(proposal, edits, source, options) for proposal in wanted]
    findings += ignores.unused(source.path, options, tuple(rule for rule, _ in CHECKS))
    findings.sort(key=lambda finding: (finding.where.line or 0, finding.where.column or 0, finding.code))
    after = source.text.encode(edits.apply(source.text.text))
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
