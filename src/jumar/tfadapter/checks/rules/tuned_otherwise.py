"""JM606 tuned-otherwise.

## What it does
With two scripts (`jumar doctor options TUNING TRAINING`): compares the options that change shapes, dtypes or the graph.

## Why it matters
What tuning wrote into the knowledge bank is found under the network's shapes, dtypes and structure. Where these differ,
the bank is not hit, and tuning was for nothing.

## Example
```python
# tuning
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("force_fp16")
# training
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
```

## Use instead
```python
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")  # in both
```

## Fix safety
No edit is made.

## References
Document on AOE's typical cases, case 02.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where
from jumar.tfadapter.options import UNKNOWN, Option, Setting, options_of

RULE = Rule(
    code="JM606",
    name="tuned-otherwise",
    summary="Tuning and training set options apart that must be the same.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each option that differs. Nothing without a training's settings."""
    if given.training is None:
        return
    tuning, training = _by_name(given.settings), _by_name(given.training)
    for name in sorted(tuning.keys() | training.keys()):
        one, other = tuning.get(name), training.get(name)
        if _differs(one, other):
            place = other or one
            assert place is not None
            yield RULE.finding(
                f"{name} is {_told(one)} in tuning and {_told(other)} in training.",
                where=where(place),
                evidence={"option": name, "tuning": _told(one), "training": _told(other)},
                why="The knowledge bank is looked up by shapes, dtypes and structure: it will not be hit.",
                action=f"Set {name} to one value in both scripts, and tune again.",
            )


def _by_name(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Return the settings that must be the same, by the option's own name in any style."""
    found = {}
    for setting in settings:
        option: Option | None = options_of(setting.style).get(setting.name)
        if option is not None and option.same_in_tuning:
            found[setting.name.rpartition(".")[2]] = setting
    return found


def _differs(one: Setting | None, other: Setting | None) -> bool:
    """Tell whether two settings are told and differ. One that only one script has differs, unless it is unknown."""
    if any(setting is not None and setting.value is UNKNOWN for setting in (one, other)):
        return False
    return _told(one) != _told(other)


def _told(setting: Setting | None) -> str:
    return text_of(setting.value) if setting is not None and is_told(setting.value) else "not set"


__all__ = ["RULE", "find", "shown"]
