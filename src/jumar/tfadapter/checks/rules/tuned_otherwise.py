"""JM606 tuned-otherwise.

## What it does
With two files (`jumar doctor options TUNING TRAINING`): compares the options that change shapes, dtypes or the graph.
A file is a script, a folder, or a shell script that runs `aoe` or `atc`. An option that only one of them sets is a
warning; what the source does not tell is not compared.

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

from collections.abc import Iterator, Mapping, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, text_of, where
from jumar.tfadapter.options import Option, Setting, options_of

RULE = Rule(
    code="JM606",
    name="tuned-otherwise",
    summary="Tuning and training set options apart that must be the same.",
    severity=Severity.ERROR,
    doc=__doc__,
)


SAME_OPTION: Mapping[str, str] = {"insert_op_file": "insert_op_conf"}
"""Names in scripts -> what `aoe` and `atc` call the same option."""


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each option that differs. Nothing without a training's settings."""
    if given.training is None:
        return
    tuning, training = _by_name(given.settings), _by_name(given.training)
    for name in sorted(tuning.keys() | training.keys()):
        one, other = tuning.get(name, []), training.get(name, [])
        if _differs(one, other, given):
            yield _finding(name, one, other)


def _by_name(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Return the settings that must be the same, by the option's own name in any style."""
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        option: Option | None = options_of(setting.style).get(setting.name)
        if option is not None and option.same_in_tuning:
            last = setting.name.rpartition(".")[2]
            found.setdefault(SAME_OPTION.get(last, last), []).append(setting)
    return found


def _differs(one: Sequence[Setting], other: Sequence[Setting], given: Given) -> bool:
    """Tell whether all values of one side are told, and none of them is one of the other side's."""
    if not all(is_told(setting.value) for setting in (*one, *other)):
        return False
    if one and other:
        return not _told(one) & _told(other)
    alone = one or other
    is_default = all(text_of(setting.value) in ("", _default(setting)) for setting in alone)
    missing_side = given.settings if not one else given.training or ()
    hidden = any(given.has_unread(setting) for setting in missing_side)
    return not is_default and not hidden and not any(setting.is_conditional for setting in alone)


def _finding(name: str, one: Sequence[Setting], other: Sequence[Setting]) -> Finding:
    place = (*other, *one)[0]
    return RULE.finding(
        f"{name} is {_shown(one)} in tuning and {_shown(other)} in training.",
        where=where(place),
        evidence={"option": name, "tuning": _shown(one), "training": _shown(other)},
        why="The knowledge bank is looked up by shapes, dtypes and structure: it will not be hit.",
        action=f"Set {name} to one value in both, and tune again.",
        severity=None if one and other else Severity.WARNING,
    )


def _told(settings: Sequence[Setting]) -> set[str]:
    return {text_of(setting.value) for setting in settings}


def _default(setting: Setting) -> str:
    option = options_of(setting.style).get(setting.name)
    return option.default if option is not None else ""


def _shown(settings: Sequence[Setting]) -> str:
    return " or ".join(sorted(_told(settings))) or "not set"
