"""Jumar's own parts keep the contracts that it ships: rules, SoC profiles, dump formats and export formats."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from jumar.base.rules import all_rules
from jumar.export.formats import BUILT_IN
from jumar.recording.foreign.dump import DumpFormat
from jumar.recording.foreign.recognise import built_in_formats
from jumar.soc.profiles import SOCS, SocProfile
from jumar.testing import DumpFormatContract, ExportFormatContract, SocProfileContract
from jumar.testing.contracts.rule import DocumentedRuleContract

sys.path.insert(0, str(Path(__file__).parents[1] / "recording"))

import foreign_samples as samples

NAMES = ("hdf5", "msprobe", "troubleshooter", "mindspore_dump", "mindspore_ir", "collected", "npy", "checkpoints")
FORMATS = dict(zip(NAMES, built_in_formats(), strict=True))
MINDSPORE = Path(__file__).parents[1] / "recording" / "assets" / "mindspore"


def unpacked(folder: Path, name: str, calls: tuple[str, ...] = ("",)) -> Path:
    """Put what MindSpore wrote into `folder`: of the files with tensors those of `calls`."""
    with zipfile.ZipFile(MINDSPORE / f"{name}.zip") as archive:
        names = [one for one in archive.namelist() if not one.endswith(".npy") or Path(one).name.startswith(calls)]
        archive.extractall(folder, names)
    return folder


class TestRules(DocumentedRuleContract):
    @pytest.fixture(autouse=True, params=list(all_rules()), ids=lambda rule: rule.code)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.documented = request.param


class TestSocProfiles(SocProfileContract):
    @pytest.fixture(autouse=True, params=list(SOCS.values()), ids=lambda profile: profile.name)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.profile = request.param
        # NOTE: the figures of many chips are not public; the comments in jumar.soc.profiles name the sources of others.
        given = {field.name for field in fields(SocProfile) if getattr(self.profile, field.name) is not None}
        needed = {"hf32_mantissa_bits"} if self.profile.has_hf32 else set()
        needed |= {f"peak_{dtype}" for dtype in ("float32", "bfloat16") if dtype in self.profile.cube_dtypes}
        optional = {"hf32_mantissa_bits", "peak_float32", "peak_bfloat16"} - needed
        self.unknown = frozenset(field.name for field in fields(SocProfile)) - given - optional


class TestExportFormats(ExportFormatContract):
    @pytest.fixture(autouse=True, params=BUILT_IN, ids=lambda known: known.name)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.format = request.param


Tensors = dict[str, dict[str, np.ndarray]]
ONES, TWOS = np.ones((2, 3), np.float16), np.full((2, 3), 2, np.float16)
X, Y = np.array([1.0, 100.0], np.float32), np.array([np.e, np.inf], np.float32)
RELU = [[3.9039855, 3.2528481, 1.1393756, 2.3425899]] * 2
ROW, OUT = np.array([[1.0, 2.0]], np.float32), np.array([[3.0]], np.float32)

DUMPS: dict[str, tuple[Callable[[Path], Path], Tensors]] = {
    "hdf5": (
        lambda folder: samples.hdf5(folder / "x.h5"),
        {
            "aten::mul.Tensor": samples.ARRAYS["aten::mul.Tensor/1"],
            "aten::neg": samples.ARRAYS["aten::neg/1"],
        },
    ),
    "msprobe": (
        lambda folder: samples.msprobe(folder, files=True),
        {"torch::exp": {"input.0": X, "output.0": Y}},
    ),
    "troubleshooter": (samples.troubleshooter, {"nn::linear": {"input.0": ROW, "output.0": OUT}}),
    "mindspore_dump": (
        lambda folder: unpacked(folder, "graph", ("ReLU", "MatMul", "Parameter")),
        {"ms::ReLU": {"output.0": np.array(RELU, np.float32)}},
    ),
    "mindspore_ir": (lambda folder: next(unpacked(folder, "validate.ir").rglob("*.ir")), {"ms::MatMul": {}}),
    "collected": (samples.collected, {"tf::Relu": {"input.0": samples.SIGNED, "output.0": samples.POSITIVE}}),
    "npy": (samples.npy, {"Conv2D": {"input.0": ONES, "output.0": TWOS}}),
    "checkpoints": (
        lambda folder: samples.checkpoint(folder / "x.pth"),
        {"parameter::step": {"output.0": np.array(1.0, np.float32)}},
    ),
}


class TestDumpFormats(DumpFormatContract):
    write_dump: Callable[[Path], Path]

    @pytest.fixture(autouse=True, params=DUMPS)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.format = FORMATS[request.param]
        self.write_dump, self.tensors = DUMPS[request.param]

    def write(self, folder: Path) -> Path:
        return self.write_dump(folder)


def test_every_dump_format_has_a_dump_here() -> None:
    assert list(FORMATS) == list(DUMPS)
    assert all(isinstance(known, DumpFormat) for known in FORMATS.values())
