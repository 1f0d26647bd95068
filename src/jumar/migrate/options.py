"""What a conversion may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from jumar.errors import UsageError
from jumar.findings import Safety

Target = Literal["npu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Options of a conversion; checked when built (UsageError)."""

    target: Target = "npu"
    """What the sources are written for: `npu` names torch_npu's device and module."""
    unsafe: bool = False
    """Also apply the edits that may change what the program does."""

    def __post_init__(self) -> None:
        if self.target not in get_args(Target):
            raise UsageError(f'"--target {self.target}" must be one of {", ".join(get_args(Target))}.')

    def applies(self, safety: Safety) -> bool:
        """Tell whether edits of this safety are applied."""
        return safety == "safe" or (safety == "unsafe" and self.unsafe)
