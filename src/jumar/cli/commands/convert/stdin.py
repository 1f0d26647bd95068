"""`jumar convert -i -`: one source from stdin to stdout, findings on stderr."""

from __future__ import annotations

import sys
from typing import Any

import click

from jumar.base.errors import ScriptError
from jumar.base.findings import Finding
from jumar.cli.options import exit_code
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure, Outcome, Skip
from jumar.show.convert.request import Job

NAME = "stdin.py"


def convert_stdin(job: Job) -> int:
    """Convert what stdin gives; return the exit code. Raises ScriptError before anything is printed."""
    from jumar.show import findings_document, json_text

    request = job.request
    data = sys.stdin.buffer.read()
    outcome = _outcome(data, request.stdin_filename or NAME, job.options)
    if request.as_json:
        extra: dict[str, Any] = {
            "num_edits": outcome.num_edits,
            "changed": outcome.changed,
            "source": outcome.after.decode("utf-8", "backslashreplace"),
        }
        click.echo(json_text(findings_document(outcome.findings, **extra)), nl=False)
    elif request.diff:
        from jumar.convert.disk.patch import file_patch

        click.echo(file_patch(outcome.path, outcome.before, outcome.after), nl=False)
    else:
        click.echo(outcome.after, nl=False)
    if not request.as_json and not request.quiet:
        _tell(outcome, verbose=request.verbose)
    return exit_code(outcome.findings, request.severity)


def _outcome(data: bytes, name: str, options: ConvertOptions) -> Outcome:
    from jumar.convert.engine.file import convert_file

    outcome = convert_file(data, name, options)
    if isinstance(outcome, Failure):
        raise ScriptError(outcome.error)
    return outcome or Skip(path=name, before=data, reason="its kind holds nothing to convert")


def _tell(outcome: Outcome, *, verbose: bool) -> None:
    from rich.console import Console

    from jumar.show import print_findings
    from jumar.show.convert.result import is_left

    wanted: list[Finding] = [finding for finding in outcome.findings if verbose or is_left(finding)]
    if wanted:
        print_findings(wanted, console=Console(stderr=True, highlight=False), title="Left for you")
