"""`PortOptions`, checked when it is built."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumar.base.errors import InputError, UsageError
from jumar.capture.process.program import Program, of_script
from jumar.convert import ConvertOptions
from jumar.recording.schema import Values
from jumar.soc.support import SupportTables, chosen

Reference = Literal["auto", "cuda", "cuda-stand-in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """Options of the main job.

    Raises InputError when the script is missing, not a file, or does not parse; UsageError when
    `steps` is not positive; DeviceError for an unknown SoC or version of
    torch_npu.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    program: Program | None = None
    """What starts the script where that is not Python alone: a module's name, a launcher, a shell script."""
    out: Path = Path("jumar-port")
    steps: int = 3
    soc: str = "Ascend910B1"
    torch_version: str | None = None
    """Release of torch_npu to convert and assess for; None: that of the installed pair."""
    reference: Reference = "auto"
    """`auto`: CUDA where this machine has it, else CPU kernels standing in for it."""
    values: Values = "stats"
    seed: int = 0
    """Start of Python's, NumPy's and PyTorch's random numbers on both sides, below 2**32; a script's own seeds win."""
    force: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f'"--steps {self.steps}" must be at least 1. Try --steps 3.')
        if not 0 <= self.seed < 2**32:
            raise UsageError(f'"--seed {self.seed}" must be at least 0 and below 2**32. Try --seed 0.')
        SupportTables.load(self.soc, self.release)
        check_script(self.script)

    @classmethod
    def of(cls, program: Program, **given: Any) -> PortOptions:
        """Return the options for a program. Raises InputError where it starts no Python script of the user's."""
        entries = program.entries
        if not entries:
            raise InputError(f"{program.name} names no Python script that is there. Name the training script itself.")
        inner = program.inner
        plain = program.kind == "script"
        return cls(script=entries[0], arguments=inner.arguments, program=None if plain else program, **given)

    @property
    def release(self) -> str:
        """The release of torch_npu that counts."""
        return chosen(self.torch_version).name

    @property
    def conversion(self) -> ConvertOptions:
        """The options of the conversion."""
        return ConvertOptions(release=self.release)

    @property
    def started(self) -> Program:
        """The program that is run."""
        return self.program or of_script(self.script, self.arguments)

    @property
    def entries(self) -> tuple[Path, ...]:
        """Files of the user's that the program starts with: scripts, and the shell script that starts them."""
        started = self.started
        own = (Path(started.name),) if started.kind == "shell" else ()
        return (*own, *started.entries)


def check_script(script: Path) -> None:
    """Raise InputError, in one sentence, unless `script` is a Python file that parses."""
    if not script.exists():
        raise InputError(f"the script {script} does not exist. Check the path, relative to {Path.cwd()}.")
    if not script.is_file():
        raise InputError(f"{script} is not a file. Name the training script itself, e.g. {script / 'train.py'}.")
    try:
        ast.parse(script.read_bytes(), filename=str(script))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{script}:{line}" if line else str(script)
        text = getattr(error, "msg", None) or str(error)
        raise InputError(f"{place} does not parse as Python: {text}. Mend it, then run this command again.") from error
    except OSError as error:
        raise InputError(f"{script} cannot be read: {error.strerror}. Check its permissions.") from error
