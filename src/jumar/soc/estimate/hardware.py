"""`Hardware`: the figures of a chip for the time model, and which of them are assumed."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from jumar.soc.profiles import SOCS, SocProfile

SIBLINGS = {
    "A1": "Ascend910A", "A2": "Ascend910B1", "A3": "Ascend910B1", "950": "Ascend910B1", "inference": "Ascend310P3",
}  # fmt: skip
"""Family → the chip whose documented figures stand in for missing ones. Each use is told in `Hardware.assumed`."""

_BYTES_A_CYCLE = {"Ascend310P3": (17, 114), "Ascend310B1": (17, 256)}
"""Memory and L2 read rate, bytes a cycle and core (platform_config/*.ini of github.com/hicann/ge)."""
_BYTES_A_CYCLE_OTHERS = (32, 110)
"""The same for 910A and 910B1, whose figures every other profile takes."""

CUBE_FLOAT16 = 16 * 16 * 16
"""Multiply-adds of one core and cycle on float16 (platform_config, 910A and 910B1)."""
_CUBE_RATIO = {"float16": 1.0, "bfloat16": 1.0, "int8": 2.0, "uint8": 2.0, "float32": 0.25, "hf32": 0.5}
"""Rate relative to float16. int8: documented (16 x 32 x 16). float32 and HF32: assumed."""
VECTOR_BYTES = 256
"""Bytes of one vector instruction: 128 elements of float16 (platform_config)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One chip in the model's units: bytes and cycles a microsecond. `assumed` names what the profile lacks."""

    name: str
    family: str
    num_cube_cores: int
    num_vector_cores: int
    frequency_mhz: int
    memory_bytes_per_us: float
    l2_bytes: int
    l2_bytes_per_us: float
    cube_dtypes: tuple[str, ...]
    is_split: bool
    """Cube and vector units are cores of their own."""
    is_aclnn: bool
    """torch_npu calls aclnn kernels by default, not the graph compiler."""
    assumed: tuple[str, ...] = ()

    def macs_per_us(self, dtype: str, cores: int | None = None) -> float:
        """Return multiply-adds a microsecond of `cores` cube cores (all) at `float16`, `hf32`, …"""
        per_cycle = CUBE_FLOAT16 * _CUBE_RATIO.get(dtype, 1.0)
        return per_cycle * self.frequency_mhz * (self.num_cube_cores if cores is None else cores)

    def cube_ratio(self, dtype: str) -> float:
        """Return the cube's rate at `dtype` relative to float16."""
        return _CUBE_RATIO.get(dtype, 1.0)


@functools.cache
def hardware(profile: SocProfile) -> Hardware:
    """Return the figures of `profile`, missing ones from its documented sibling and named in `assumed`."""
    sibling = SOCS[SIBLINGS[profile.family]]
    assumed: list[str] = []

    def known(field: str, label: str) -> Any:
        own = getattr(profile, field)
        if own is None:
            assumed.append(f"{label}: {sibling.name}'s")
        return getattr(sibling, field) if own is None else own

    cores = known("num_cube_cores", "cube cores")
    frequency = known("frequency_mhz", "clock")
    is_split = profile.family in ("A2", "A3", "950")
    vector = profile.num_vector_cores
    if vector is None:
        vector = 2 * cores if is_split else cores
        if is_split:
            assumed.append(f"vector cores: 2 a cube core, {vector}")
    memory, l2 = _BYTES_A_CYCLE.get(profile.name, _BYTES_A_CYCLE_OTHERS)
    found = Hardware(
        name=profile.name,
        family=profile.family,
        num_cube_cores=cores,
        num_vector_cores=vector,
        frequency_mhz=frequency,
        memory_bytes_per_us=0.0,
        l2_bytes=known("l2_bytes", "L2 size"),
        l2_bytes_per_us=0.0,
        cube_dtypes=profile.cube_dtypes or sibling.cube_dtypes,
        is_split=is_split,
        is_aclnn=profile.is_aclnn_default,
    )
    rates = {}
    for field, label, rate in (
        ("memory_bandwidth", "memory bandwidth", memory),
        ("l2_read_bandwidth", "L2 bandwidth", l2),
    ):
        own = getattr(profile, field)
        rates[field] = frequency * cores * rate if own is None else own / 1e6
        if own is None and profile.name not in _BYTES_A_CYCLE:
            assumed.append(f"{label}: {rate} bytes a cycle and core, {sibling.name}'s")
    return replace(
        found,
        memory_bytes_per_us=float(rates["memory_bandwidth"]),
        l2_bytes_per_us=float(rates["l2_read_bandwidth"]),
        assumed=tuple(assumed),
    )
