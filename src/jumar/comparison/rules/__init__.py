"""The accuracy rules, one file each, in the order in which findings are given."""

from __future__ import annotations

from jumar.base.rules import Rule
from jumar.comparison.bisect.rules import causal_operators
from jumar.comparison.diagnosis.rules import diagnosis_path, hypothesis_seen
from jumar.comparison.overflow.rules import (
    benign_nonfinite,
    first_overflow,
    nonfinite_at_start,
    overflow_not_judged,
    persistent_skipping,
    saturated_values,
)
from jumar.comparison.replay.rules import inherited_error, not_replayable, own_error
from jumar.comparison.verdict.rules import (
    arguments_differ,
    first_divergence,
    ill_conditioned,
    inputs_differ,
    loss_differs,
    modules_renamed,
    nonfinite_appears,
    not_comparable,
    optimizer_settings_differ,
    parameters_differ,
    random_numbers_differ,
    ranks_differ,
    settings_differ,
    steps_shifted,
    structure_differs,
    unmatched_operators,
    update_skipped,
)

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

_OF_DIAGNOSES = (diagnosis_path, hypothesis_seen)
"""Rules of the diagnosis that `jumar compare` makes of a comparison."""

_OF_REPLAYS = (own_error, inherited_error, not_replayable, causal_operators)
"""Rules of `jumar replay` and `jumar accuracy bisect`: they judge one recording, or runs of a script."""

RULES: tuple[Rule, ...] = tuple(
    sorted(
        [
            *(module.RULE for module in (*_MODULES, *_OF_REPLAYS, *_OF_DIAGNOSES)),
            *(
                m.RULE
                for m in (
                    benign_nonfinite,
                    first_overflow,
                    nonfinite_at_start,
                    overflow_not_judged,
                    persistent_skipping,
                    saturated_values,
                )
            ),
        ],
        key=lambda rule: rule.code,
    )
)

__all__ = ["RULES"]
