"""`Given`: what the rules look at, and how values are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jumar.base.findings import Location
from jumar.base.text import listing
from jumar.soc.profiles import SOCS
from jumar.tfadapter.options import UNKNOWN, Option, Setting, options_of
from jumar.tfadapter.source.script import NpuSession, ScriptOptions

BY_DEFAULT = " (unless the command line gives another value)"
TUNING = {"aoe_mode", "aoe_config.aoe_mode", "AOE_MODE"}
"""Options that turn tuning on."""


@dataclass(frozen=True)
class Given:
    """Settings of one script or one process."""

    settings: Sequence[Setting]
    scripts: Sequence[ScriptOptions] = ()
    soc: str | None = None
    """`Ascend910A`; None: not known, and nothing that depends on it is said."""
    environment: Mapping[str, str] = field(default_factory=dict)
    paths: bool = True
    """Whether paths are looked for on this machine."""
    training: Sequence[Setting] | None = None
    """What the training sets, where `settings` are those of the tuning before it."""
    training_scripts: Sequence[ScriptOptions] = ()

    def known(self) -> Iterator[tuple[Setting, Option]]:
        """Yield the settings whose name is in the table."""
        for setting in self.settings:
            option = options_of(setting.style).get(setting.name)
            if option is not None:
                yield setting, option

    def told(self) -> Iterator[tuple[Setting, Option, str]]:
        """Yield those whose value is known, or is by default; with words that say so, or none.

        A default is left out where it is empty or the setting is conditional: the condition may test the flag.
        """
        for setting, option in self.known():
            if is_told(setting.value):
                yield setting, option, ""
            elif is_told(setting.default) and text_of(setting.default) and not setting.is_conditional:
                yield replace(setting, value=setting.default), option, BY_DEFAULT

    def sessions(self) -> Iterator[tuple[NpuSession, ScriptOptions]]:
        """Yield the sessions of the scripts."""
        for script in self.scripts:
            for session in script.sessions:
                yield session, script

    def has_unread(self, setting: Setting) -> bool:
        """Tell whether the file of a setting sets something under a name that its source does not tell."""
        return any(script.path == setting.path and script.unread for script in (*self.scripts, *self.training_scripts))

    def tuning_with(self, setting: Setting) -> Literal["on", "maybe", ""]:
        """Tell whether tuning is on in the runs that make a setting; "maybe" where each has its own condition."""
        if self.environment.get("AOE_MODE"):
            return "on"
        beside = [one for one in self.settings if _turns_on(one) and self.are_of_one_run(one, setting)]
        if any(one.is_certain_with(setting) for one in beside):
            return "on"
        return "maybe" if any(not one.excludes(setting) for one in beside) else ""

    def are_of_one_run(self, tuning: Setting, setting: Setting) -> bool:
        """Tell whether both are of one file, or a shell script turns tuning on and starts the other's file."""
        if tuning.path == setting.path:
            return True
        return any(
            script.path == tuning.path and setting.path is not None and setting.path.name in script.runs
            for script in self.scripts
        )


def _turns_on(setting: Setting) -> bool:
    return setting.name in TUNING and setting.value not in (None, "", b"")


def where(setting: Setting) -> Location:
    """Return the place of a setting."""
    return Location(path=str(setting.path) if setting.path else None, line=setting.line)


def text_of(value: Any) -> str:
    """Return a value as the table writes it: bytes and texts as they are, True, False, numbers."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def is_told(value: Any) -> bool:
    """Tell whether a value is known and set."""
    return value is not UNKNOWN and value is not None


def shown(setting: Setting) -> str:
    """Return a setting as a script writes it."""
    value = "…" if setting.value is UNKNOWN else repr(setting.value)
    if setting.style == "session":
        return f'parameter_map["{setting.name}"].{setting.kind} = {value}'
    if setting.style == "npu_device":
        return f"global_options().{setting.name} = {value}"
    if setting.style == "command":
        return f"--{setting.name}={text_of(setting.value)}"
    if setting.style == "environment":
        return f"{setting.name}={text_of(setting.value)}"
    return f"{setting.name}={value}"


def family_of(soc: str) -> str:
    """Return `A2`, `A3`, `310P` or `A1`, the first training chips, by a chip's name; empty for others."""
    low = soc.lower()
    if low.startswith("ascend310p"):
        return "310P"
    profile = SOCS.get(soc)
    if profile is not None and profile.family in ("A1", "A2", "A3"):
        return profile.family
    if low.startswith(("ascend910_93", "ascend910c")):
        return "A3"
    if low.startswith("ascend910b") and low[len("ascend910b") :][:1].isdigit():
        return "A2"
    return "A1" if low.startswith("ascend910") else ""


def choices(values: Sequence[str]) -> str:
    """Return allowed values as a person reads them."""
    return listing(list(values), 12)
