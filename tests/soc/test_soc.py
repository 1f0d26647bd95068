from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import DeviceError
from jumar.soc.profiles import ALIASES, SOCS, get_soc


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ascend910A", "Ascend910A"),
        ("ascend910b1", "Ascend910B1"),
        ("ASCEND910PROA", "Ascend910ProA"),
        ("910B3", "Ascend910B3"),
        ("910b4-1", "Ascend910B4-1"),
        ("310P3", "Ascend310P3"),
        ("910_9391", "Ascend910_9391"),
        ("Ascend910_93xx", "Ascend910_9391"),
        ("a2", "Ascend910B1"),
        ("Ascend950PR", "Ascend950"),
    ],
)
def test_a_soc_is_found_by_name_and_alias_in_any_case(name: str, expected: str) -> None:
    assert get_soc(name).name == expected


def test_every_alias_leads_to_a_profile() -> None:
    assert [alias for alias in ALIASES if get_soc(alias).name not in SOCS] == []


def test_every_profile_is_found_by_its_own_name() -> None:
    assert [get_soc(name).name for name in SOCS] == list(SOCS)


def test_an_unknown_soc_gets_close_matches_and_the_list_in_one_sentence() -> None:
    with pytest.raises(DeviceError, match=r"\(did you mean Ascend910B.*\?\): use one of Ascend910A, ") as caught:
        get_soc("Ascend910B7")
    assert "\n" not in str(caught.value)


def test_a_name_like_nothing_known_still_gets_the_list() -> None:
    with pytest.raises(DeviceError, match=r'^"H100" must be an Ascend SoC that Jumar knows: use one of Ascend910A'):
        get_soc("H100")


def test_the_first_generation_has_neither_bfloat16_nor_infinities() -> None:
    soc = get_soc("Ascend910A")
    assert (soc.has_bfloat16, soc.cube_dtypes, soc.overflow, soc.is_aclnn_default) == (
        False,
        ("float16", "int8"),
        "saturation",
        False,
    )


def test_the_second_generation_has_both() -> None:
    soc = get_soc("Ascend910B1")
    assert (soc.has_bfloat16, soc.overflow, soc.has_hf32, soc.is_aclnn_default) == (True, "inf_nan", True, True)


def test_ascend950_runs_aclnn_kernels_only_and_cannot_saturate() -> None:
    soc = get_soc("Ascend950")
    assert (soc.is_aclnn_only, soc.overflow_modes) == (True, ("inf_nan",))


def test_a_peak_follows_from_cores_and_clock_where_both_are_known() -> None:
    soc = get_soc("Ascend910A")
    assert soc.num_cube_cores is not None
    assert soc.frequency_mhz is not None
    assert soc.peak_float16 == pytest.approx(soc.num_cube_cores * 4096 * 2 * soc.frequency_mhz * 1e6, rel=0.01)


def test_a_profile_from_a_toml_file_starts_from_its_base(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "Ascend910B3"\nmemory_bytes = 1024\ncube_dtypes = ["float16"]\n')
    soc = get_soc(str(file))
    assert (soc.name, soc.family, soc.num_cube_cores, soc.memory_bytes, soc.cube_dtypes) == (
        "mine",
        "A2",
        20,
        1024,
        ("float16",),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memroy_bytes = 1", "must use the fields of SocProfile; got memroy_bytes"),
        ('memory_bytes = "64"', "must give memory_bytes"),
        ('family = "A9"', "must give family one of A1"),
        ("has_bfloat16 = 3", "must give has_bfloat16"),
        ("memory_bytes = true", "must give memory_bytes"),
        ("memory_bytes = ", "must be TOML"),
        ('base = "nothing"', '"nothing" must be an Ascend SoC'),
    ],
)
def test_a_wrong_profile_file_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(DeviceError, match=message) as caught:
        get_soc(str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_profile_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="must be a readable file"):
        get_soc(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("name", "bits"), [("Ascend910A", None), ("Ascend310P3", None), ("Ascend910B4", 11), ("Ascend950", 10)]
)
def test_hf32_is_known_where_there_is_hf32(name: str, bits: int | None) -> None:
    soc = get_soc(name)
    assert (soc.has_hf32, soc.hf32_mantissa_bits) == (bits is not None, bits)


@pytest.mark.parametrize(("name", "expected"), [("Ascend910A", False), ("Ascend910B1", True), ("Ascend310B1", None)])
def test_a_matrix_unit_without_known_types_is_not_guessed(name: str, expected: bool | None) -> None:
    assert get_soc(name).has_float32_cube is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_bytes = -1", "must give memory_bytes a whole number above 0; got -1"),
        ("memory_bytes = 1.5", "must give memory_bytes a whole number above 0; got 1.5"),
        ("num_cube_cores = 0", "must give num_cube_cores a whole number above 0"),
        ("memory_bandwidth = inf", "must give memory_bandwidth a number above 0"),
        ("peak_float16 = nan", "must give peak_float16 a number above 0"),
        ('cube_dtypes = ["float8"]', "must give cube_dtypes a list of float16, bfloat16, float32, int8"),
        ("cube_dtypes = []", "must give cube_dtypes a list of"),
        ('name = ""', "must give name a name"),
        ('overflow_modes = ["wrap"]', "must give overflow_modes a list of saturation, inf_nan"),
        ('base = "Ascend950"\noverflow = "saturation"', "must give overflow one of its overflow_modes"),
        ("hf32_mantissa_bits = 23", "must give hf32_mantissa_bits below float32's 23"),
    ],
)
def test_nonsense_in_a_profile_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(DeviceError, match=message):
        get_soc(str(file))


def test_a_profile_of_the_users_own_decides_the_arithmetic(tmp_path: Path) -> None:
    file = tmp_path / "saturating.toml"
    file.write_text('base = "Ascend910B1"\noverflow_modes = ["saturation"]\noverflow = "saturation"\n')
    soc = get_soc(str(file))
    assert (soc.overflow, soc.overflow_modes, soc.is_aclnn_default) == ("saturation", ("saturation",), True)
