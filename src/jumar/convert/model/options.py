"""`ConvertOptions`: what the user asks of a conversion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from jumar.base.errors import UsageError
from jumar.base.findings import Safety
from jumar.base.rules import Rule
from jumar.convert.user_rules.model import UserRules
from jumar.soc.support.releases import chosen, releases

Target = Literal["npu", "agnostic"]
Framework = Literal["", "torch", "tensorflow"]
Strategy = Literal["", "tf_strategy", "horovod"]

_FIRST_WITH_ACCELERATOR = 6
"""The minor release of PyTorch 2 that brought `torch.accelerator`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed:
    """From one device to many: the entry script (relative to the source root, `/`) and the model's variable."""

    main: str
    model: str = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFlowOptions:
    """What is asked for in files of TensorFlow, by the names of the options of Ascend's own tool."""

    main: str = ""
    """The entry script, relative to the source root (`-m`); empty: a file that runs by itself is one."""
    strategy: Strategy = ""
    """How the original trains on several devices (`-d`); optimizers are wrapped for it."""
    compat: bool = False
    """The result is for TensorFlow 2.6, where it runs as TensorFlow 1 (`-c`); else for TensorFlow 1.15."""

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise UsageError(f'"-d {self.strategy}" must be one of tf_strategy, horovod.')


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Options of a conversion; checked when built (UsageError)."""

    target: Target = "npu"
    """What the sources are written for: `npu` names torch_npu's device and module; `agnostic` names none."""
    unsafe: bool = False
    """Also apply the edits that may change what the program does."""
    enable: frozenset[str] = frozenset()
    """Codes of opt-in rules to apply; their edits are applied whatever their safety."""
    disable: frozenset[str] = frozenset()
    """Codes of rules to leave out."""
    similar: bool = False
    """Replace interfaces without a counterpart by similar ones, where the result stays the same."""
    device_from_environment: bool = False
    """Take the device's number from the environment instead of the sources."""
    user_rules: UserRules = field(default_factory=UserRules)
    distributed: Distributed | None = None
    release: str = field(default_factory=lambda: chosen().name)
    """Release of torch_npu that the result is for, `2.13`; by default that of the installed pair."""

    framework: Framework = ""
    """Whose rules run over Python files; empty: each file's own, by what it imports."""
    tensorflow: TensorFlowOptions = field(default_factory=TensorFlowOptions)

    def __post_init__(self) -> None:
        if self.framework not in get_args(Framework):
            raise UsageError(f'"--framework {self.framework}" must be one of torch, tensorflow.')
        if self.target not in get_args(Target):
            raise UsageError(f'"--target {self.target}" must be one of {", ".join(get_args(Target))}.')
        if self.release not in releases():
            raise UsageError(f'"--torch-version {self.release}" must be one of {", ".join(releases())}.')
        if self.target == "agnostic" and int(self.release.split(".")[1]) < _FIRST_WITH_ACCELERATOR:
            raise UsageError(
                f'"--target agnostic" writes torch.accelerator, which came with torch 2.{_FIRST_WITH_ACCELERATOR}; got '
                f'"--torch-version {self.release}". Choose a later one, or --target npu.'
            )

    def applies(self, safety: Safety) -> bool:
        """Tell whether edits of this safety are applied."""
        return safety == "safe" or (safety == "unsafe" and self.unsafe)

    def makes(self, rule: Rule, safety: Safety) -> bool:
        """Tell whether an edit of `rule` is made; one the user asked for by name is, unless it is for show only."""
        return self.applies(safety) or (safety == "unsafe" and rule.code in self.enable)

    def checks(self, rule: Rule) -> bool:
        """Tell whether `rule` takes part."""
        return rule.code not in self.disable and (not rule.opt_in or rule.code in self.enable)
