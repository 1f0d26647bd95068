"""Profiles of the known Ascend SoCs: one frozen `SocProfile` per chip; an unknown figure is None.

Sources, named in the comments of the profiles:

- GE: test configurations `platform_config/*.ini` of github.com/hicann/ge. They are the only public
  figures for cores, buffers and rates; shipping files may differ.
- NN: core counts in the names of the tiling banks and the migration guide of github.com/hicann/ops-nn.
- NPU: torch_npu's own checks (`NpuVariables.cpp`: bf16 and INF_NAN from Ascend910B1 on).
- DOC: the vendor's public data sheets and CANN manuals.

No profile is measured. Figures of a sibling chip are never copied to one whose own are unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumar.base.errors import DeviceError
from jumar.base.plugins import Group, instance_of
from jumar.soc.profile import GIB, KIB, MIB, Family, Overflow, SocProfile, load_profile

__all__ = ["ALIASES", "SOCS", "Family", "Overflow", "SocProfile", "get_soc"]

HALF_CUBE = ("float16", "int8")
"""What the matrix unit of the first generation multiplies: no bfloat16 and no float32."""
FULL_CUBE = ("float16", "bfloat16", "float32", "int8")
"""What the matrix unit multiplies from Ascend910B1 on; float32 at full or HF32 precision."""


def _first_generation(name: str, order: int, cores: int, mhz: int, **more: Any) -> SocProfile:
    # GE: 910A and its variants share buffers; DDR 32 B and L2 110 B a cycle and core. NPU: saturation only, no bf16.
    return SocProfile(
        name=name, family="A1", torch_npu_order=order, num_cube_cores=cores, frequency_mhz=mhz,
        l0a_bytes=64 * KIB, l0b_bytes=64 * KIB, l0c_bytes=256 * KIB, l1_bytes=1 * MIB,
        unified_buffer_bytes=256 * KIB, l2_bytes=32 * MIB, cube_dtypes=HALF_CUBE, **more,
    )  # fmt: skip


def _second_generation(name: str, order: int, **more: Any) -> SocProfile:
    # NPU: bf16, INF_NAN by default, saturation only when forced (INF_NAN_MODE_FORCE_DISABLE); DOC: HF32, of 11 bits
    # of mantissa by the models in NN's tests (10 on Ascend950).
    return SocProfile(
        name=name, torch_npu_order=order, cube_dtypes=FULL_CUBE, has_bfloat16=True, has_hf32=True,
        overflow="inf_nan", overflow_modes=("inf_nan", "saturation"), hf32_mantissa_bits=11,
        **{"family": "A2", **more},
    )  # fmt: skip


_PROFILES = (
    # GE; peak: 32 cores x 4096 MAC x 2 x 1 GHz, sold as "256 TFLOPS" (DOC); memory rate: 32 cores x 32 B x 1 GHz;
    # 32 GB of HBM (DOC, and the 31 GB that the TensorFlow manual lets a user divide).
    _first_generation(
        "Ascend910A", 102, 32, 1000, peak_float16=262e12, memory_bytes=32 * GIB, memory_bandwidth=1.02e12,
        l2_read_bandwidth=3.52e12,
    ),
    _first_generation("Ascend910ProA", 101, 32, 1100),  # GE
    _first_generation("Ascend910ProB", 103, 30, 1150),  # GE
    _first_generation("Ascend910PremiumA", 100, 32, 1220),  # GE
    _first_generation("Ascend910B", 104, 30, 900),  # GE: the old name, a first-generation chip
    # GE (dav-c220: cube and vector cores apart); NN guide: 1.6 TB/s, 64 GB; the configuration's own rate
    # (24 x 32 B x 1850 MHz) gives 1.42 TB/s. The guide prints "353/376 T" for fp16/bf16: the lower figure,
    # which is 24 cores x 4096 MAC x 2 x 1.8 GHz, is taken for both.
    _second_generation(
        "Ascend910B1", 220, num_cube_cores=24, num_vector_cores=48, frequency_mhz=1850,
        l0a_bytes=64 * KIB, l0b_bytes=64 * KIB, l0c_bytes=128 * KIB, l1_bytes=512 * KIB,
        unified_buffer_bytes=192 * KIB, l2_bytes=192 * MIB, memory_bytes=64 * GIB, memory_bandwidth=1.6e12,
        l2_read_bandwidth=4.884e12, peak_float16=353e12, peak_bfloat16=353e12,
    ),
    _second_generation("Ascend910B2", 221, num_cube_cores=24, memory_bytes=64 * GIB),  # NN: bank names; DOC: 64 GB
    _second_generation("Ascend910B2C", 222, num_cube_cores=24),  # NN: bank names
    _second_generation("Ascend910B3", 223, num_cube_cores=20, memory_bytes=64 * GIB),  # NN; DOC: 64 GB
    _second_generation("Ascend910B4", 224, num_cube_cores=20, memory_bytes=32 * GIB),  # NN; DOC: 32 GB
    _second_generation("Ascend910B4-1", 225),  # NPU knows the name
    *(
        # NN: core counts in bank names. The package holds two dies; figures here are of one device as torch sees it.
        _second_generation(f"Ascend910_{number}", order, family="A3", num_cube_cores=cores)
        for number, order, cores in (
            ("9391", 250, 24), ("9392", 251, 24), ("9381", 252, 24), ("9382", 253, 24), ("9372", 254, 20),
            ("9362", 255, 20), ("9363", 256, None),
        )
    ),
    # GE; peak: 8 cores x 4096 MAC x 2 x 1.06 GHz, sold as "70 TFLOPS" (DOC). DOC: saturation only; 24 GB of LPDDR4X at
    # 204.8 GB/s on the Atlas 300I Pro, the card of one chip; L2: GE, 8 cores x 114 B x 1.06 GHz.
    SocProfile(
        name="Ascend310P3", family="inference", torch_npu_order=202, num_cube_cores=8, num_vector_cores=7,
        frequency_mhz=1060, l0a_bytes=64 * KIB, l0b_bytes=64 * KIB, l0c_bytes=256 * KIB, l1_bytes=1 * MIB,
        unified_buffer_bytes=256 * KIB, l2_bytes=16 * MIB, cube_dtypes=HALF_CUBE, memory_bytes=24 * GIB,
        memory_bandwidth=204.8e9, l2_read_bandwidth=0.967e12, peak_float16=69.5e12,
    ),
    # GE. NPU: bf16 passes its check (its number is above Ascend910B1's); DOC: saturation only.
    SocProfile(
        name="Ascend310B1", family="inference", torch_npu_order=240, num_cube_cores=1, num_vector_cores=1,
        frequency_mhz=1224, l0a_bytes=64 * KIB, l0b_bytes=64 * KIB, l0c_bytes=128 * KIB, l1_bytes=1 * MIB,
        unified_buffer_bytes=248 * KIB, l2_bytes=4 * MIB, has_bfloat16=True,
    ),
    # NN guide. NPU: aclnn kernels only, INF_NAN only.
    SocProfile(
        name="Ascend950", family="950", torch_npu_order=260, num_cube_cores=32, frequency_mhz=1650,
        l0c_bytes=256 * KIB, unified_buffer_bytes=256 * KIB, memory_bytes=128 * GIB,
        peak_float16=426e12, peak_bfloat16=426e12, cube_dtypes=FULL_CUBE, has_bfloat16=True, has_hf32=True,
        hf32_mantissa_bits=10, overflow="inf_nan", overflow_modes=("inf_nan",),
    ),
)  # fmt: skip

SOCS: Mapping[str, SocProfile] = {profile.name: profile for profile in _PROFILES}
"""Every profile by its CANN name."""

ALIASES: Mapping[str, str] = {
    "910a": "Ascend910A", "910": "Ascend910A", "a1": "Ascend910A",
    "atlas800": "Ascend910A",
    "a2": "Ascend910B1", "atlas800ta2": "Ascend910B1", "atlasa2": "Ascend910B1",
    "a3": "Ascend910_9391", "ascend91093xx": "Ascend910_9391", "91093xx": "Ascend910_9391", "atlasa3": "Ascend910_9391",
    "310p": "Ascend310P3", "ascend310p": "Ascend310P3", "310b": "Ascend310B1", "ascend310b": "Ascend310B1",
    "950": "Ascend950", "ascend950pr": "Ascend950", "ascend950dt": "Ascend950",
    "950pr": "Ascend950", "950dt": "Ascend950",
}  # fmt: skip
"""Common other names, lower case and without separators. A generation's name stands for its first chip."""


def get_soc(name: str) -> SocProfile:
    """Return the profile called `name`: a CANN name or alias in any case, an installed one, or the path of a TOML file.

    A TOML file starts from a known chip and changes fields: `base = "Ascend910B3"`, `name = "mine"`,
    `memory_bytes = 68719476736`. Raises DeviceError when the name is unknown or the file is not such a file.
    """
    if name.lower().endswith(".toml"):
        return load_profile(Path(name), get_soc)
    by_key = {_key(known): profile for known, profile in SOCS.items()}
    key = _key(name)
    key = _key(ALIASES.get(key, key))
    found = by_key.get(key) or by_key.get(f"ascend{key}") or _installed(_key(name))
    if found is None:
        raise DeviceError(_unknown(name, by_key | {_key(profile.name): profile for profile in INSTALLED.parts()}))
    return found


def _installed(key: str) -> SocProfile | None:
    """Return the profile of this name that another distribution offers. It is asked where no chip of Jumar's fits."""
    return next((profile for profile in INSTALLED.parts() if _key(profile.name) == key), None)


def _key(name: str) -> str:
    """Return `name` as compared: lower case, without separators; `910B4-1` keeps apart from `910B41`'s like."""
    return "".join(character for character in name.lower() if character.isalnum())


def _unknown(name: str, by_key: Mapping[str, SocProfile]) -> str:
    """Return the sentence for a name that is none; matches are sought among what follows `Ascend`."""
    by_number = {key.removeprefix("ascend"): profile.name for key, profile in by_key.items()}
    close = difflib.get_close_matches(_key(name).removeprefix("ascend"), by_number, n=3, cutoff=0.6)
    hint = f" (did you mean {' or '.join(sorted(by_number[match] for match in close))}?)" if close else ""
    known = ", ".join(profile.name for profile in by_key.values())
    return f'"{name}" must be an Ascend SoC that Jumar knows{hint}: use one of {known}.'


INSTALLED: Group[SocProfile] = Group(
    "soc-profile",
    instance_of(SocProfile),
    lambda profile: (_key(profile.name),),
    lambda: (*map(_key, SOCS), *ALIASES),
)
"""The profiles of other distributions: an entry point names a `SocProfile`."""
