"""`SocProfileContract`: what the facts of a chip promise. A figure that is unknown is None and is named as unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, get_args

from jumar.soc.estimate import OperatorShape, TensorShape, operator_cost
from jumar.soc.profile import CUBE_DTYPES, Family, Overflow, SocProfile
from jumar.soc.profiles import get_soc
from jumar.soc.support import SupportTables

_KIB, _GIB = 2**10, 2**30

PLAUSIBLE: dict[str, tuple[float, float]] = {
    "num_cube_cores": (1, 512),
    "num_vector_cores": (1, 1024),
    "frequency_mhz": (200, 5000),
    "l0a_bytes": (4 * _KIB, 4096 * _KIB),
    "l0b_bytes": (4 * _KIB, 4096 * _KIB),
    "l0c_bytes": (4 * _KIB, 4096 * _KIB),
    "l1_bytes": (64 * _KIB, 64 * _KIB**2),
    "unified_buffer_bytes": (16 * _KIB, 16 * _KIB**2),
    "l2_bytes": (1 * _KIB**2, 4 * _GIB),
    "memory_bytes": (1 * _GIB, 4096 * _GIB),
    "memory_bandwidth": (10e9, 100e12),
    "l2_read_bandwidth": (10e9, 1000e12),
    "peak_float16": (1e12, 100e15),
    "peak_bfloat16": (1e12, 100e15),
    "peak_float32": (0.1e12, 100e15),
    "hf32_mantissa_bits": (7, 22),
    "torch_npu_order": (100, 1000),
}
"""Least and greatest value of each figure. A value outside is most often one in another unit."""

NOT_LESS: Sequence[tuple[str, ...]] = (
    ("l0a_bytes", "l1_bytes", "l2_bytes", "memory_bytes"),
    ("l0b_bytes", "l1_bytes"),
    ("unified_buffer_bytes", "l2_bytes"),
    ("memory_bandwidth", "l2_read_bandwidth"),
    ("peak_float32", "peak_float16"),
    ("peak_float32", "peak_bfloat16"),
)
"""Fields of which each is at least the one before it."""

_MACS_A_CYCLE = 16 * 16 * 16
"""Of one cube core at float16."""
_ORDERS = {"A1": (100, 199), "A2": (220, 239), "A3": (250, 259), "inference": (200, 249), "950": (260, 999)}


class SocProfileContract:
    """A `SocProfile`. Set `profile`, and name the fields whose values are not known.

    class TestMyChip(SocProfileContract):
        profile = acme.chips.CHIP
        unknown = frozenset({"num_vector_cores"})
    """

    profile: SocProfile
    unknown: frozenset[str] = frozenset()
    """Fields that are None because the figure is not public."""

    def test_every_figure_is_given_or_named_as_unknown(self) -> None:
        """A figure that was forgotten looks like one that is unknown."""
        empty = {field.name for field in fields(SocProfile) if getattr(self.profile, field.name) is None}
        if not self.profile.has_hf32:
            empty.discard("hf32_mantissa_bits")
        if "float32" not in self.profile.cube_dtypes:
            empty.discard("peak_float32")
        if "bfloat16" not in self.profile.cube_dtypes:
            empty.discard("peak_bfloat16")
        assert empty == set(self.unknown)

    def test_its_name_is_one_word(self) -> None:
        """The name is typed after `--soc`."""
        name = self.profile.name
        assert name
        assert not any(character.isspace() for character in name)
        assert not name.lower().endswith(".toml")

    def test_words_are_of_the_known_ones(self) -> None:
        """The family, the overflow and the dtypes of the matrix unit."""
        profile = self.profile
        assert profile.family in get_args(Family)
        assert set(profile.overflow_modes) <= set(get_args(Overflow))
        assert profile.overflow in profile.overflow_modes
        assert set(profile.cube_dtypes) <= set(CUBE_DTYPES)

    def test_every_figure_is_plausible(self) -> None:
        """Sizes are in bytes, bandwidths in bytes/s, peaks in FLOP/s."""
        wrong = {
            name: value
            for name, (least, greatest) in PLAUSIBLE.items()
            if (value := getattr(self.profile, name)) is not None and not least <= value <= greatest
        }
        assert wrong == {}

    def test_a_memory_farther_from_the_cores_is_larger_and_a_nearer_one_faster(self) -> None:
        """And float32 is not faster than float16."""
        for names in NOT_LESS:
            known = [(name, value) for name in names if (value := getattr(self.profile, name)) is not None]
            assert [f"{a} > {b}" for (a, left), (b, right) in pairwise(known) if left > right] == []

    def test_the_peak_follows_from_cores_and_clock(self) -> None:
        """A cube core multiplies 16 x 16 x 16 half-precision numbers a cycle; peaks are given rounded."""
        profile = self.profile
        if profile.peak_float16 is None or profile.num_cube_cores is None or profile.frequency_mhz is None:
            return
        computed = 2 * _MACS_A_CYCLE * profile.num_cube_cores * profile.frequency_mhz * 1e6
        assert 0.5 <= profile.peak_float16 / computed <= 2

    def test_dtypes_agree_with_each_other(self) -> None:
        """HF32 has mantissa bits, and bfloat16 in the matrix unit is bfloat16 on the chip."""
        profile = self.profile
        assert profile.has_bfloat16 or "bfloat16" not in profile.cube_dtypes
        assert profile.has_bfloat16 or profile.peak_bfloat16 is None
        assert profile.has_hf32 or profile.hf32_mantissa_bits is None

    def test_its_order_is_of_its_family(self) -> None:
        """torch_npu chooses code paths by this number."""
        least, greatest = _ORDERS[self.profile.family]
        assert least <= self.profile.torch_npu_order <= greatest

    def test_a_larger_operator_is_never_estimated_to_take_less(self) -> None:
        """Products and additions of growing sizes."""
        for make in (_product, _sum):
            times = [operator_cost(make(size), self.profile).total_us for size in (64, 512, 2048, 8192)]
            assert all(0 < time < math.inf for time in times)
            assert times == sorted(times)

    def test_the_support_tables_answer_for_it(self) -> None:
        """`jumar assess --soc` asks them."""
        assert SupportTables(self.profile, "2.13").operator("aten::add.Tensor").status

    def test_soc_finds_it_by_its_name(self) -> None:
        """In any case, as if its distribution were installed."""
        from jumar.soc import profiles

        with profiles.INSTALLED.holding(self.profile):
            assert get_soc(self.profile.name) == get_soc(self.profile.name.lower()) == self.profile


def _product(size: int) -> OperatorShape:
    tensor: Any = TensorShape((size, size), "float16")
    return OperatorShape("aten::mm", (tensor, tensor), (tensor,))


def _sum(size: int) -> OperatorShape:
    tensor: Any = TensorShape((size, size), "float16")
    return OperatorShape("aten::add.Tensor", (tensor, tensor), (tensor,))
