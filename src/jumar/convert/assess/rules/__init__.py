"""The rules of the assessment, one file each: an `Assessed` in, findings out. Only those that run are imported."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from jumar.base.findings import Finding
from jumar.base.rules import installed_modules
from jumar.convert.assess.subject import Assessed

OF_SOURCE = (
    "unsupported_api",
    "changed_call",
    "cuda_only_api",
    "host_fallback_api",
    "dtype_limit",
    "unverified_api",
    "triton_kernel_limit",
)
"""Rules about the APIs that a source tree names, in the order they run."""
OF_RECORDING = ("unsupported_operator", "host_fallback_operator", "dtype_limit")
"""Rules about the operators of a recording, in the order they run."""


def findings(rules: Sequence[str], subject: Assessed) -> tuple[Finding, ...]:
    """Return what `rules` and the rules of other distributions find, the most severe first."""
    modules: list[Any] = [importlib.import_module(f"{__name__}.{rule}") for rule in rules]
    modules += installed_modules("convert.assess")
    found = [finding for module in modules for finding in module.find(subject)]
    return tuple(sorted(found, key=lambda finding: -finding.severity))
