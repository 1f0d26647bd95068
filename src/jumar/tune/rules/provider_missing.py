"""JM506 provider-missing.

## What it does
Reports a provider that was left out because something it needs is not installed here.

## Why it matters
"Nothing faster was found" then does not cover what it might have found.

## Example
`inductor` was left out: TorchInductor needs a C++ compiler and none was found.

## Use instead
Install what is missing. Operators for which nothing was found without the provider are taken up again by the next run;
those that have a policy of its kind keep it, unless REPEAT_TUNE is True.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, providers.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM506",
    name="provider-missing",
    summary="A provider was left out because something it needs is not here.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each missing provider."""
    for provider, why in result.missing_providers.items():
        yield RULE.finding(
            f"`{provider}` was left out: {why}",
            evidence={"provider": provider},
            action="Install what is missing, then tune again (with REPEAT_TUNE=True also what has a policy).",
        )
