"""What `jumar convert` says in the terminal: about one screen, the answer first, the next step last."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.convert.facts.framework import framework_in
from jumar.show.convert.result import Result, is_left, not_converted
from jumar.show.terminal.tell import tell as tell_lines

_MOST_RULES = 6
_WORDS = "JM114"
"""The rule that sums up the program's own names and texts with CUDA's word in them."""


def tell(result: Result, patch: Path | None = None) -> None:
    """Print the summary, or the JSON document. With a diff on stdout the summary goes to stderr.

    `patch` leads back from a conversion in place.
    """
    request = result.job.request
    if request.as_json:
        _print_json(result)
        return
    aside = request.diff
    tell_lines(_headline(result), err=aside)
    for line in (*_failed(result), *not_converted(result.conversion), *_coverage(result), *_made(result)):
        tell_lines(line, err=aside)
    click.echo(err=aside)
    _print_left(result, aside=aside)
    for line in (*_proof(result), *_where(result), *_next(result, patch)):
        tell_lines(line, err=aside)


def _print_json(result: Result) -> None:
    from jumar.show import findings_document, json_text

    request = result.job.request
    extra: dict[str, Any] = {"output": str(result.folder) if result.folder else None, **result.numbers()}
    if request.diff:
        extra["diff"] = result.conversion.patch_bytes().decode("utf-8", "replace")
    click.echo(json_text(findings_document(result.findings, **extra)), nl=False)


def _headline(result: Result) -> str:
    conversion, request = result.conversion, result.job.request
    changed = f"{len(conversion.changed)} of {counted(len(conversion.files), 'file')}"
    where = " (nothing written)"
    if result.folder is not None:
        where = " in place" if request.in_place else f" → {result.folder}"
    return f"{counted(conversion.num_edits, 'edit')} in {changed} for {_adapters(result)}{where}"


def _adapters(result: Result) -> str:
    """Return what the result is for: torch_npu with its release, the adapter of TensorFlow, or both."""
    files = [outcome for outcome in result.conversion.files if outcome.path.endswith(".py")]
    tensorflow = bool(result.tensorflow)
    torch = not tensorflow or any(framework_in(outcome.before) == "torch" for outcome in files)
    adapter = "TensorFlow 2.6 with npu_device" if result.job.options.tensorflow.compat else "TensorFlow's NPU adapter"
    names = [f"torch_npu {result.job.options.release}"] if torch else []
    return " and ".join([*names, *([adapter] if tensorflow else [])])


def _coverage(result: Result) -> list[str]:
    """Return the line that says what became of the names of TensorFlow."""
    if not result.tensorflow:
        return []
    from jumar.convert.reports.tensorflow_apis import counts

    found = counts(result.tensorflow)
    parts = [f"{number:,} {status}" for status, number in reversed(list(found.items()))]
    return [f"{counted(len(result.tensorflow), 'use')} of TensorFlow's names: {', '.join(parts)}"]


def _failed(result: Result) -> list[str]:
    failures = result.conversion.failures
    if not result.conversion.files:
        return [f"There is no source in {result.job.request.source}: is it the right folder?"]
    if not failures:
        return []
    verb = (
        "could not be read and stayed as it was" if len(failures) == 1 else "could not be read and stayed as they were"
    )
    named = ", ".join(failure.path for failure in failures[:3]) + (", …" if len(failures) > 3 else "")
    return [f"{counted(len(failures), 'file')} {verb}: {named}"]


def _made(result: Result) -> list[str]:
    """Return the rules by which most was converted, one a line."""
    names = {rule.code: rule.name for rule in result.rules}
    ranked = sorted(result.num_made.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"  {number:>6}  {code} {names.get(code, '')}" for code, number in ranked[:_MOST_RULES]]
    rest = ranked[_MOST_RULES:]
    if rest:
        lines.append(f"  {sum(number for _, number in rest):>6}  by {counted(len(rest), 'more rule')}")
    return lines


def _print_left(result: Result, *, aside: bool) -> None:
    from rich.console import Console

    from jumar.show import print_findings

    console = Console(stderr=aside, highlight=False)
    if result.job.request.verbose:
        for finding in result.findings:
            click.echo(_line(finding), err=aside)
        click.echo(err=aside)
    if not result.left:
        tell_lines(_nothing_left(result), err=aside)
        return
    more = f"{result.names.page} has all of it" if result.folder else "`--verbose` prints all of it"
    print_findings(
        result.left, console=console, title="Left for you", more=f"{more}, `jumar rule CODE` explains a code."
    )


def _nothing_left(result: Result) -> str:
    """Return what may be said where no finding asks for something: over which files, and which words of CUDA stay."""
    read = len(result.conversion.files) - len(result.conversion.of_mindspore)
    others = len(result.conversion.others)
    said = f"Nothing is left for you in {counted(read, 'file')} that {'was' if read == 1 else 'were'} read"
    if others:
        said += f" ({counted(others, 'other')} {'was' if others == 1 else 'were'} copied unread)"
    words = [each for each in result.findings if each.code == _WORDS and each.severity is Severity.INFO]
    if words:
        said += (
            f"; names and messages that say CUDA stay in {counted(len({each.where.path for each in words}), 'file')}"
        )
    left_out = sorted(result.job.options.disable)
    return f"{said}, without {', '.join(left_out)}." if left_out else f"{said}."


def _line(finding: Finding) -> str:
    state = "converted" if finding.evidence.get("applied") else finding.severity.label
    column = f":{finding.where.column}" if finding.where.column is not None else ""
    action = f" → {finding.action}" if finding.action else ""
    return f"{finding.where}{column}: {finding.code} {state}: {finding.message}{action}"


def _proof(result: Result) -> list[str]:
    request = result.job.request
    if not request.verify and request.verify_run is None:
        return []
    wrong = [finding for finding in result.proof if is_left(finding)]
    what = "static proof and run" if request.verify_run is not None else "static proof"
    return [
        "",
        f"Verified ({what}): " + (f"{counted(len(wrong), 'finding')}, listed above" if wrong else "nothing wrong"),
    ]


def _where(result: Result) -> list[str]:
    if result.folder is None:
        return []
    names = result.names
    lines = ["", f"Reports in {result.folder}:"]
    rows = [
        (names.page, "everything, to read"),
        (names.changes, "every edit"),
        (names.unsupported, "what the NPU lacks"),
        *([(names.tensorflow, "each name of TensorFlow, and what became of it")] if result.tensorflow else []),
        (names.log, "the log"),
        (f"{names.findings}, {names.patch}", "for programs"),
    ]
    return [*lines, *(f"  {name:<30} {text}" for name, text in rows)]


def _next(result: Result, patch: Path | None) -> list[str]:
    """Return the command to go on with."""
    source = Path(result.job.request.source)
    if result.folder is None:
        return []
    if patch is not None:
        from jumar.show.commands import git_apply

        folder = source if source.is_dir() else source.parent
        return ["", f"Back to what it was: {git_apply(folder, patch, reverse=True)}"]
    if result.has_launcher:
        return ["", f"Next: bash {shlex.quote(str(result.folder / result.names.launcher))}"]
    if source.is_file() and source.suffix == ".py":
        return ["", f"Next: jumar run {shlex.quote(str(result.folder / source.name))}"]
    return ["", f"Next: read {result.folder / result.names.page}, then jumar run its entry script"]
