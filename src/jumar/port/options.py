"""`PortOptions`, checked when it is built."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jumar.base.errors import InputError, UsageError
from jumar.recording.schema import Values
from jumar.soc.support import SupportTables

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
    out: Path = Path("jumar-port")
    steps: int = 3
    soc: str = "Ascend910B1"
    torch_version: str = "2.13"
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
        SupportTables.load(self.soc, self.torch_version)
        check_script(self.script)


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
