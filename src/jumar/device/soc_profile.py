"""`SocProfile`: what there is to know about one chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["A1", "A2", "A3", "inference", "950"]
Overflow = Literal["saturation", "inf_nan"]

KIB, MIB, GIB = 2**10, 2**20, 2**30

_ACLNN_FROM = 220
"""torch_npu's number of Ascend910B1: from there on aclnn kernels are the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocProfile:
    """One chip. Sizes in bytes, `per_core` ones for each AI Core; bandwidths in bytes/s; peaks in FLOP/s."""

    name: str
    family: Family
    """A1: first training generation; A2, A3, 950: the later ones; inference: 310P and 310B."""
    torch_npu_order: int
    """torch_npu's own number of the chip; it compares these (`>= Ascend910B1`) to choose code paths."""
    num_cube_cores: int | None = None
    num_vector_cores: int | None = None
    """None where vector and cube units share one core, or where the count is not public."""
    frequency_mhz: int | None = None
    l0a_bytes: int | None = None
    l0b_bytes: int | None = None
    l0c_bytes: int | None = None
    l1_bytes: int | None = None
    unified_buffer_bytes: int | None = None
    l2_bytes: int | None = None
    """Of the whole chip; the other buffers are per core."""
    memory_bytes: int | None = None
    memory_bandwidth: float | None = None
    l2_read_bandwidth: float | None = None
    peak_float16: float | None = None
    peak_bfloat16: float | None = None
    peak_float32: float | None = None
    cube_dtypes: tuple[str, ...] = ()
    has_bfloat16: bool = False
    has_hf32: bool = False
    hf32_mantissa_bits: int | None = None
    """Explicit mantissa bits of HF32, where the chip has it and they are known."""
    overflow: Overflow = "saturation"
    """What an overflowing float16 result becomes by default: the largest number, or Inf."""
    overflow_modes: tuple[Overflow, ...] = ("saturation",)

    @property
    def is_aclnn_default(self) -> bool:
        """True where torch_npu calls aclnn kernels by default, and the graph compiler (`acl_op`) only on request."""
        return self.torch_npu_order >= _ACLNN_FROM

    @property
    def is_aclnn_only(self) -> bool:
        """True where the graph compiler is not there at all (Ascend950)."""
        return self.family == "950"

    @property
    def has_float32_cube(self) -> bool | None:
        """Whether the matrix unit multiplies float32 numbers; None where that is not known."""
        return "float32" in self.cube_dtypes if self.cube_dtypes else None
