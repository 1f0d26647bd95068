"""What an option of TFAdapter is, and what a script that sets one says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Style = Literal[
    "session", "estimator", "dump_config", "profiling_config", "memory_config", "npu_device", "aoe", "environment",
    "command",
]  # fmt: skip
"""Where an option is set.

`session`: `custom_op.parameter_map[NAME]` of `NpuOptimizer`. `estimator`: arguments of `NPURunConfig`. `dump_config`,
`profiling_config`, `memory_config`: arguments of `DumpConfig`, `ProfilingConfig` and `MemoryConfig`. `npu_device`:
attributes of `npu_device.global_options()`, with dots (`aoe_config.work_path`). `aoe`: keys of the file that
`aoe_config_file` names. `environment`: variables (`AOE_MODE`). `command`: options of `aoe` and `atc`, which read what
tuning found (`--precision_mode=…`).
"""

Kind = Literal["s", "i", "b", "f", "o"]
"""The field of TensorFlow's AttrValue that holds a value in a session's options: bytes, int, bool, float.

`o` is an object or a list, which sessions do not have.
"""

Effect = Literal["runs", "checked", "none"]
"""On the CPU: it does what it says; its value is checked and used by something else; nothing."""


Form = Literal["word", "list;", "set,", "set;", "shapes", "switches", "path"]
"""How two values of an option are compared: as a word in any case, as a list or a set of words between those marks, as
shapes by name, as `true` or `false` for each node, as files.
"""


class Unknown:
    """The value of a setting that cannot be told from the source. `UNKNOWN` is its one instance."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
FUNCTION = -1
"""The one arm of a function in `Setting.branch`."""
Value = str | bytes | int | float | bool | None | Unknown


@dataclass(frozen=True)
class Option:
    """One option in one style. `kind` is its field in a session; in other styles the Python type is that of `kind`.

    `values` are all that are allowed, as text ("0", "1", "force_fp16"), or empty; `low` and `high` bound numbers (also
    those that are given as text). `source` is a document's number ("002") or the address of a public page. `effect`
    says what it does on the CPU. `excludes` are names that may not be on beside it. `path` tells whether a path must
    exist ("is written": the run writes into it). `same_in_tuning`: its value must be the same when a model is tuned and
    when the result is used (document 000). `off_while_tuning` is the value that tuning needs (001). `values_by_chip`:
    all that a family of chips takes. `other_kinds` are fields that some versions' scripts write; nothing is said of
    them.
    """

    name: str
    style: Style
    kind: Kind
    meaning: str
    source: str
    values: tuple[str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    default: str = ""
    effect: Effect = "none"
    excludes: tuple[str, ...] = ()
    same_in_tuning: bool = False
    off_while_tuning: str = ""
    path: Literal["", "must exist", "is written"] = ""
    values_by_chip: tuple[tuple[str, tuple[str, ...]], ...] = ()
    other_kinds: tuple[Kind, ...] = ()
    changes: str = ""
    """What of the network it changes, of options that must be the same (document 000, case 02)."""
    form: Form = "word"


@dataclass(frozen=True)
class Setting:
    """What a script, or a running program, sets. `kind` is the field that it wrote to, in a session's style."""

    style: Style
    name: str
    value: Value
    kind: Kind | None = None
    path: Path | None = None
    line: int | None = None
    group: str = ""
    """Settings of one session, one NPURunConfig or one process have the same group: exclusions hold within it."""
    branch: tuple[tuple[int, int], ...] = ()
    """The blocks around it, from the outermost: each with its line and the arm (of an `if`, 0: then, 1: else).

    A function is such a block, with the arm FUNCTION.
    """
    default: Value = field(default=UNKNOWN, compare=False)
    """Where the value is a flag of the command line (`FLAGS.mode`): the flag's default."""
    text: str = field(default="", compare=False)
    """The value as the source writes it (`FLAGS.mode`); empty where there is no source."""

    def excludes(self, other: Setting) -> bool:
        """Tell whether a run that sets one cannot set the other: they are in two arms of one `if`."""
        arms = dict(self.branch)
        return any(arms.get(line, arm) != arm for line, arm in other.branch)

    @property
    def is_conditional(self) -> bool:
        """Whether it stands in an arm of an `if`, `try` or `match`."""
        return any(arm != FUNCTION for _, arm in self.branch)

    def is_certain_with(self, other: Setting) -> bool:
        """Tell whether a run that sets one of them sets the other: one stands in all blocks of the other."""
        shorter, longer = sorted((self.branch, other.branch), key=len)
        return longer[: len(shorter)] == shorter
