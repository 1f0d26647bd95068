"""The accuracy rules, one file each, in the order in which findings are given."""

from __future__ import annotations

from collections.abc import Callable

from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.rules import (
    arguments_differ,
    causal_operators,
    diagnosis_path,
    first_divergence,
    hypothesis_seen,
    ill_conditioned,
    inherited_error,
    inputs_differ,
    loss_differs,
    modules_renamed,
    nonfinite_appears,
    not_comparable,
    not_replayable,
    optimizer_settings_differ,
    own_error,
    parameters_differ,
    random_numbers_differ,
    ranks_differ,
    settings_differ,
    steps_shifted,
    structure_differs,
    unmatched_operators,
    update_skipped,
)
from jumar.accuracy.rules.overflow import OVERFLOW_RULES
from jumar.findings import Finding
from jumar.rules import Rule

_MODULES = (
    not_comparable,
    inputs_differ,
    parameters_differ,
    random_numbers_differ,
    ranks_differ,
    first_divergence,
    update_skipped,
    optimizer_settings_differ,
    nonfinite_appears,
    loss_differs,
    ill_conditioned,
    settings_differ,
    arguments_differ,
    structure_differs,
    unmatched_operators,
    modules_renamed,
    steps_shifted,
)

FINDERS: tuple[Callable[[Evidenced], list[Finding]], ...] = (
    *(module.find for module in _MODULES),
    not_comparable.find_gaps,
)
"""What turns the evidence into findings, the most decisive first."""

_OF_DIAGNOSES = (diagnosis_path, hypothesis_seen)
"""Rules of the diagnosis that `jumar compare` makes of a comparison."""

_OF_REPLAYS = (own_error, inherited_error, not_replayable, causal_operators)
"""Rules of `jumar replay` and `jumar accuracy bisect`: they judge one recording, or runs of a script."""

RULES: tuple[Rule, ...] = tuple(
    sorted(
        [*(module.RULE for module in (*_MODULES, *_OF_REPLAYS, *_OF_DIAGNOSES)), *OVERFLOW_RULES],
        key=lambda rule: rule.code,
    )
)

__all__ = ["FINDERS", "RULES"]
