"""What a program has asked of the adapter so far: options, what has no effect, what is dumped. One for a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.base.errors import UsageError
from jumar.base.findings import Finding, Severity
from jumar.tfadapter.checks import check_settings
from jumar.tfadapter.checks.subject import TUNING, shown, text_of
from jumar.tfadapter.options import Setting, options_of

MISSING_PATH = "JM608"


class OptionError(UsageError, ValueError):
    """A program sets an option that the adapter does not take. It ends the run in one sentence."""


@dataclass
class State:
    """The adapter of this process."""

    soc: str | None = None
    """The chip that options are checked for; None: none was named."""
    told: set[str] = field(default_factory=set)
    no_effect: dict[str, None] = field(default_factory=dict)
    not_shown: dict[str, None] = field(default_factory=dict)
    """What this run does not show, one sentence each."""
    saturates: bool | None = None
    """What `set_device_sat_mode` asked for."""
    is_watched: bool = False
    """Whether a process that the program started watches itself."""
    tunes: str = ""
    """The mode of tuning that an option asked for."""
    work_path: str = ""
    """Where an option wants files of tuning."""
    aoe_config_file: str = ""
    """The file with the operators that an option wants tuned."""
    loops: dict[str, int] = field(default_factory=dict)
    """Operator of a training step -> steps that one run of a session makes."""

    def take(self, settings: Sequence[Setting], *, are_all: bool = True) -> None:
        """Check settings that belong together, and note those that have no effect here.

        Without `are_all` more will come: what is missing is not looked for yet. What is doubtful is printed once.
        Raises OptionError for one that is wrong, in one sentence.
        """
        for finding in check_settings(settings, soc=self.soc, environment=os.environ):
            if not are_all and finding.code == MISSING_PATH:
                continue
            if finding.severity >= Severity.ERROR or _stops(finding):
                raise OptionError(f"{finding.message} {finding.action}")
            self.tell(f"{finding.message} {finding.action}")
        for setting in settings:
            if setting.name in TUNING and setting.value:
                self.tunes = text_of(setting.value)
            last = setting.name.rpartition(".")[2]
            if last in ("work_path", "aoe_config_file") and setting.value:
                setattr(self, last, text_of(setting.value))
            option = options_of(setting.style).get(setting.name)
            is_object = type(setting.value).__repr__ is object.__repr__  # such a one has been checked for itself
            if option is not None and option.effect == "none" and setting.value is not None and not is_object:
                self.no_effect[shown(setting)] = None

    def take_environment(self) -> None:
        """Check the adapter's variables in the environment. Raises OptionError for one that is wrong."""
        known = options_of("environment")
        self.take([Setting("environment", name, os.environ[name]) for name in known if os.environ.get(name)])

    def tell(self, sentence: str) -> None:
        """Print a sentence, once a run."""
        if sentence not in self.told:
            self.told.add(sentence)
            sys.stderr.write(f"jumar: {sentence}\n")


def _stops(finding: Finding) -> bool:
    """Tell whether a finding ends the run: a folder that is written to and is not there."""
    option = str(finding.evidence.get("option", "")).rpartition(".")[2]
    return finding.code == MISSING_PATH and option in {"dump_path", "work_path"}


STATE = State()
