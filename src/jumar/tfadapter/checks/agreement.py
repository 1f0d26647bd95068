"""`apart`: the options of document 000 that tuning and use set otherwise, and the command that would agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jumar.tfadapter.checks.subject import Given, is_told, text_of
from jumar.tfadapter.options import Option, Setting, agree, agreeing_name, changes_of, is_default, options_of
from jumar.tfadapter.source import CommandLine


@dataclass(frozen=True)
class Apart:
    """An option that is not the same on both sides."""

    name: str
    """What the document calls it."""
    changes: str
    """What of the network it changes."""
    tuning: Sequence[Setting]
    """Empty: not set."""
    training: Sequence[Setting]
    is_certain: bool = True
    """False: two files with other names, which cannot be read here."""

    @property
    def is_one_sided(self) -> bool:
        """Whether only one side sets it."""
        return not self.tuning or not self.training


def apart(given: Given) -> Iterator[Apart]:
    """Yield each option of the list that differs, by name. Nothing without a training's settings.

    What the source does not tell is not compared. A value that is written in other words, and the default written out,
    are no difference.
    """
    if given.training is None:
        return
    tuning, training = by_name(given.settings), by_name(given.training)
    for name in sorted(tuning.keys() | training.keys()):
        one, other = tuning.get(name, []), training.get(name, [])
        if not all(is_told(setting.value) for setting in (*one, *other)):
            continue
        found = _same(name, one, other) if one and other else _holds_anyway(given, one or other, bool(one))
        if found is not True:
            yield Apart(name, changes_of(name), one, other, is_certain=found is False)


def by_name(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Return the settings that must be the same, by the document's name for the option."""
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        option: Option | None = options_of(setting.style).get(setting.name)
        if option is not None and option.same_in_tuning:
            found.setdefault(agreeing_name(setting.name), []).append(setting)
    return found


def _same(name: str, one: Sequence[Setting], other: Sequence[Setting]) -> bool | None:
    """Tell whether a value of one side is one of the other's."""
    found = {agree(name, text_of(first.value), text_of(second.value)) for first in one for second in other}
    return True if True in found else (None if None in found else False)


def _holds_anyway(given: Given, alone: Sequence[Setting], is_tuning: bool) -> bool:
    """Tell whether what one side alone sets holds on the other, too, or may hold: it is not told."""
    missing_side = given.training or () if is_tuning else given.settings
    has_one_style = all(one.style == setting.style for one in missing_side for setting in alone)
    framework = _framework(given)
    defaults = {is_default(setting, framework) if has_one_style else text_of(setting.value) == "" for setting in alone}
    is_hidden = any(given.has_unread(setting) for setting in missing_side)
    return False not in defaults or is_hidden or any(setting.is_conditional for setting in alone)


def _framework(given: Given) -> str | None:
    """Return the one value of `--framework` in all commands; None where there is none, or several."""
    commands = (command for script in (*given.scripts, *given.training_scripts) for command in script.commands)
    found = {command.last["framework"] for command in commands if "framework" in command.last}
    return found.pop() if len(found) == 1 else None


def corrected(found: Sequence[Apart], commands: Sequence[CommandLine], *, is_use: bool) -> list[str]:
    """Return the commands of one side as they must be written to agree with the other, each once.

    `is_use`: the commands use what was tuned, and take the tuning's values; else they tune, and take the use's. An
    option for which the other side has several values, or a file that was not read, stays as it is.
    """
    values: dict[str, str | None] = {}
    for one in found:
        there = {text_of(setting.value) for setting in (one.tuning if is_use else one.training)}
        if len(there) < 2 and one.is_certain:
            values[one.name] = there.pop() if there else None
    changed = (command.changed(_spelled(command, values)) for command in commands if values)
    return list(dict.fromkeys(changed))


def _spelled(command: CommandLine, values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the values without the command's own other names of the options."""
    others = {name: None for name in command.last if agreeing_name(name) != name and agreeing_name(name) in values}
    return {**values, **others}
