"""Options that several commands share, with one wording and one check each."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from jumar.errors import UsageError
from jumar.findings import Finding, Severity, worst

DEFAULT_SOC = "Ascend910B1"

soc_option = click.option(
    "--soc", default=DEFAULT_SOC, show_default=True, metavar="SOC", help="The NPU's system on a chip, e.g. Ascend910A."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout instead of text.")
force_option = click.option("--force", is_flag=True, help="Replace an existing output folder.")
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["advice", "warning", "error", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 when a finding is at least this severe.",
)


def exit_code(findings: Iterable[Finding], fail_on: str) -> int:
    """Return 1 when a finding is at or above `fail_on` (a severity name or `never`), else 0."""
    if fail_on == "never":
        return 0
    severity = worst(findings)
    return int(severity is not None and severity >= Severity.parse(fail_on))


def parse_steps(text: str | None) -> tuple[int, int] | None:
    """Return (first, end) from `START:END`, `:END` or `N` (= 0:N); None for None.

    Raises UsageError when the text has another form or START < END does not hold.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(?:(\d*):)?(\d+)", text.strip())
    if match is None:
        raise UsageError(f'"--steps {text}" must be START:END or a count, with whole numbers. Try --steps 0:3.')
    first, end = int(match[1] or 0), int(match[2])
    if first >= end:
        hint = f"{end}:{first}" if first > end else f"{first}:{end + 1}"
        raise UsageError(
            f'"--steps {text}" must be START:END with START < END; got {first} >= {end}. Try --steps {hint}.'
        )
    return first, end
