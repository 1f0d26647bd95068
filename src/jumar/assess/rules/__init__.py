"""The rules of the assessment, one file each: rows of an assessment in, findings out."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.assess.model import Row
from jumar.assess.rules import (
    cuda_only_api,
    dtype_limit,
    host_fallback_api,
    host_fallback_operator,
    unreadable_source,
    unsupported_api,
    unsupported_operator,
    unverified_api,
)
from jumar.device.support import SupportTables
from jumar.findings import Finding
from jumar.rules import Rule

RULES: tuple[Rule, ...] = (
    unsupported_api.RULE,
    unverified_api.RULE,
    host_fallback_api.RULE,
    host_fallback_operator.RULE,
    unsupported_operator.RULE,
    dtype_limit.RULE,
    cuda_only_api.RULE,
    unreadable_source.RULE,
)

UNREADABLE = unreadable_source.RULE

SOURCE_RULES = (unsupported_api, cuda_only_api, host_fallback_api, dtype_limit, unverified_api)
RECORDING_RULES = (unsupported_operator, host_fallback_operator, dtype_limit)


def findings_of_source(rows: Sequence[Row], tables: SupportTables) -> tuple[Finding, ...]:
    """Return what the rules say about the APIs of a source tree, the most severe first."""
    return _sorted([finding for rule in SOURCE_RULES for finding in rule.find(rows, tables)])


def findings_of_recording(rows: Sequence[Row], tables: SupportTables) -> tuple[Finding, ...]:
    """Return what the rules say about the operators of a recording, the most severe first."""
    return _sorted([finding for rule in RECORDING_RULES for finding in rule.find(rows, tables)])


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: -finding.severity))
