"""What a recording holds: the columns of its rows and the names of its files.

    RECORDING/
      run.json                            written first: `RunInfo`
      steps/step-000000-rank-0.parquet    one file a step and rank, renamed into place when complete;
                                      its metadata hold a `StepInfo`
      tensors/step-000000-rank-0.h5       only with values "tensors": /<row key>/input/0, …/output/0
      history-rank-0.bin                  a few numbers of every step (`jumar.recording.history`)
      end-rank-0.json                     written last: `RunEnd`; absent when the run was killed

Rows of one step file are in the order in which the calls *finished*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 2
"""Raised when a reader of the old version would misread the new one; readers refuse newer versions."""

RUN_FILE = "run.json"
STEPS_FOLDER = "steps"
TENSORS_FOLDER = "tensors"
STEP_INFO_KEY = "jumar.step"
"""Key in the Parquet metadata of a step file under which `StepInfo` is kept as JSON."""

Kind = Literal["op", "module", "loss", "optimizer", "parameter"]
"""`op`: one aten operator; `module`: one nn.Module call (or its backward); `loss`: a tensor that
`.backward()` was called on, before any loss scaling, as the only output of the row; `optimizer`: one
`Optimizer.step`, its hyperparameters as arguments; `parameter`: one trained parameter at the end of the
step, `input.grad` the gradient that the optimizer read, `output.0` its value afterwards."""

Phase = Literal["forward", "backward", "optimizer"]
Level = Literal["module", "op", "optimizer"]
"""`op` lists the optimizer's operators, without values, in the first recorded step (in every step where no values
are recorded): `parameter` rows hold what they did. `optimizer` adds them to every step, with values."""
Values = Literal["none", "hash", "stats", "sketch", "tensors"]
"""`sketch` and `tensors` include the statistics; `tensors` includes no sketch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRow:
    """One tensor of a call. Statistics are over all elements as float64, None when not taken.

    `minimum`, `maximum`, `mean` and `l2` skip NaN and Inf elements (counted apart); all four are
    None for an empty tensor or one without a finite element. Complex tensors are judged by their
    absolute value. `l2` is the square root of the sum of squares.
    """

    name: str
    """`input.0`, `input.2.1` (second of a list), `input.weight` (keyword), `output.0`; for backward
    rows of kind `module`: `grad_output.0`, `grad_input.0` (the sum over all uses of the tensor)."""
    shape: tuple[int, ...]
    dtype: str
    """Without the `torch.` prefix: `float32`."""
    device: str
    """`cpu`, `npu:0`, `cuda:0`."""
    stride: tuple[int, ...]
    storage_offset: int
    contiguous: bool
    format: str = "ND"
    """Device format: `ND`, `NCHW`, `NC1HWC0`, `FRACTAL_NZ`, …"""
    storage: int = 0
    """Number of the storage within the step; tensors with the same number alias each other."""
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    l2: float | None = None
    num_nan: int | None = None
    num_inf: int | None = None
    sketch: bytes | None = None
    """64 little-endian float32: the random-sign projection of `jumar.recording.sketch`; None when not taken."""
    hash: str = ""
    """16 hexadecimal digits over dtype, shape and the elements in logical order; empty when not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call of an operator or a module.

    (`step`, `rank`, `module_path`, `phase`, `name`, `occurrence`) identifies a row of one kind;
    `key` is that identity as one string, the group name in the tensor file.
    """

    step: int
    rank: int
    seq: int
    """Position in the step, from 0, in the order in which the calls finished."""
    kind: Kind
    phase: Phase
    module_path: str
    """Dotted path of the innermost module at the time of the call, wrappers such as DDP left out;
    empty in the root module and outside any module."""
    module_type: str
    """Class name of that module; empty outside any module."""
    name: str
    """kind op: `aten::add.Tensor`; kind module: the class name; kind loss: `loss`."""
    occurrence: int
    """Which call of this (module_path, phase, name) within the step, from 0."""
    source: str = ""
    """Innermost frame of the user's own code, `train.py:41`; empty when none is on the stack."""
    arguments: str = ""
    """JSON object of the arguments that are not tensors, by name; of an optimizer one list item a group; of a
    parameter which calls of an optimizer updated it in the step: `optimizer` (name), `occurrences`, `group`."""
    autocast: str = ""
    """`float16` or `bfloat16` inside autocast, else empty."""
    rng: str = ""
    """Digest of the generator's state before a call that draws random numbers, else empty."""
    draws: bool | None = None
    """kind op: whether the call draws random numbers, its arguments considered: dropout in evaluation draws
    none. None where it is not known: for other kinds, and in recordings of older releases."""
    is_view: bool | None = None
    """kind op: whether the operator only makes a view of an argument, by its schema; None as for `draws`."""
    start_us: float = 0.0
    """Microseconds since the step began, host clock."""
    duration_us: float = 0.0
    """Host time of the call itself, without the observer's own work, in microseconds."""
    inputs: tuple[TensorRow, ...] = ()
    outputs: tuple[TensorRow, ...] = ()

    @property
    def key(self) -> str:
        """HDF5 group of this row's tensors: no two rows of a step and rank share it."""
        return row_key(self.kind, self.phase, self.module_path, self.name, self.occurrence)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """What is known of a step as a whole."""

    loss_scale: float | None = None
    """Scale of `GradScaler` with which the losses of the step were multiplied; None without a scaler."""
    skipped: bool | None = None
    """Whether a scaler found Inf or NaN in the gradients and left the update out; None without a scaler."""
    rng: dict[str, str] = field(default_factory=dict)
    """Digest of each generator's state when the step began, by name: `python`, `numpy`, `cpu`, `npu:0`."""
    not_kept: tuple[str, ...] = ()
    """What the budget left out of this step, one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """`run.json`: how the recording was made. `settings` and `environment` are free-form JSON objects."""

    schema_version: int = SCHEMA_VERSION
    framework: str = "torch"
    """`torch`, `mindspore`, `tensorflow`: whose names its modules, parameters and operators have."""
    jumar_version: str = ""
    created: str = ""
    """UTC, ISO 8601."""
    command: tuple[str, ...] = ()
    """The script and its arguments."""
    device: str = ""
    """`cpu`, `cuda`, `npu` (the vendor's), `npu (emulated)`, `cuda (emulated)`."""
    soc: str = ""
    torch_version: str = ""
    torch_npu_version: str = ""
    levels: tuple[Level, ...] = ("module", "op")
    values: Values = "stats"
    steps: tuple[int, int] | None = None
    """First step and the step after the last; None for all."""
    num_ranks: int = 1
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By path of each module: its class as `type`, and the settings it was made with (`eps`), by its own names."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Threads, deterministic flags, default dtype, seeds seen: what `compare` checks first."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Host name left out; Python, platform, versions of the libraries that matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """`end-rank-R.json`: how the run ended on one rank."""

    rank: int
    status: Literal["finished", "stopped", "exited", "raised", "interrupted"]
    """`stopped`: Jumar ended it after the steps asked for; `exited`: the script called sys.exit."""
    exit_code: int = 0
    num_steps: int = 0
    """Steps that were completed, recorded or not."""
    wall_s: float = 0.0
    error: str = ""
    """Traceback of the user's exception, without Jumar's own frames."""
    not_covered: tuple[str, ...] = ()
    """What the observer could not see, one sentence each: never reported as agreeing."""


def row_key(kind: str, phase: str, module_path: str, name: str, occurrence: int) -> str:
    """Return `CallRow.key` of a row with these fields."""
    return f"{kind}/{phase}/{module_path or '-'}/{name.replace('/', '_')}/{occurrence}"


def step_stem(step: int, rank: int) -> str:
    """Return the file name, without extension, of one step and rank: `step-000003-rank-0`."""
    return f"step-{step:06d}-rank-{rank}"


def end_file(rank: int) -> str:
    """Return the name of the file that marks the end of `rank`."""
    return f"end-rank-{rank}.json"


def history_file(rank: int) -> str:
    """Return the name of the file with the numbers of every step of `rank`."""
    return f"history-rank-{rank}.bin"


def split_source(source: str) -> tuple[str | None, int | None]:
    """Return file and line of `train.py:41`; (None, None) when it is empty."""
    if not source:
        return None, None
    path, _, line = source.rpartition(":")
    return (path, int(line)) if path and line.isdigit() else (source, None)
