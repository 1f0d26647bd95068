"""The C++ that reads elements, compiled for each width of vectors that this processor has."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from jumar.base.native import compiler, features
from jumar.capture.fast import loading
from jumar.recording import sketch

NATIVE = Path(loading.__file__).parent / "native"
WIDTHS = {"avx512f": ["-mavx512f", "-mavx512dq"], "avx2": ["-mavx2", "-mfma"], "": []}
DRIVER = """
#include "values.hpp"
using namespace jumar;
extern "C" void look(const float* p, int64_t n, double* six) {
  const Values v = statistics(p, n);
  const double found[] = {v.minimum, v.maximum, v.sum, v.squares, double(v.num_nan), double(v.num_inf)};
  std::memcpy(six, found, sizeof found);
}
extern "C" int both(const float* p, int64_t n, const float* tile, const int64_t* fold, const uint8_t* bits,
                    double* six, float* out) {
  Values v;
  const bool is_done = statistics_and_sketch(p, n, {tile, fold, bits}, v, out);
  const double found[] = {v.minimum, v.maximum, v.sum, v.squares, double(v.num_nan), double(v.num_inf)};
  std::memcpy(six, found, sizeof found);
  return is_done;
}
"""


@pytest.fixture(scope="module", params=list(WIDTHS), ids=lambda name: name or "plain")
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not compiler():
        pytest.skip("there is no C++ compiler")
    if request.param and request.param not in features():
        pytest.skip(f"this processor has no {request.param}")
    folder = tmp_path_factory.mktemp("rows")
    (folder / "driver.cpp").write_text(DRIVER)
    command = [*compiler(), "-O2", "-std=c++20", "-fno-math-errno", "-fPIC", "-shared", *WIDTHS[request.param]]
    command += [f"-I{NATIVE}", "-o", str(folder / "driver.so"), str(folder / "driver.cpp")]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(folder / "driver.so"))


def elements(count: int, kind: str) -> np.ndarray:
    generator = np.random.default_rng(count)
    values = generator.standard_normal(count).astype(np.float32)
    if kind == "masked":
        values[generator.random(count) < 0.4] = -np.inf
    elif kind == "odd":
        values[generator.random(count) < 0.01] = np.nan
        values[generator.random(count) < 0.01] = np.inf
    elif kind == "huge":
        values *= np.float32(1e25)
    elif kind == "tiny":
        values *= np.float32(1e-30)
    elif kind == "nothing finite":
        values[:] = np.nan
    return values


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def check(six: np.ndarray, values: np.ndarray) -> None:
    finite = values[np.isfinite(values)].astype(np.float64)
    minimum, maximum, total, squares, num_nan, num_inf = six
    assert (num_nan, num_inf) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert minimum == finite.min(initial=np.inf)
    assert maximum == finite.max(initial=-np.inf)
    assert total == pytest.approx(finite.sum(), abs=1e-6 * (np.abs(finite).sum() + 1e-300))
    assert squares == pytest.approx((finite * finite).sum(), rel=1e-6)


KINDS = ("plain", "masked", "odd", "huge", "tiny", "nothing finite")
COUNTS = (1, 3, 7, 31, 33, 2038, 2039, 2040, 2048, 2055, 5000, 130_496, 300_001)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", COUNTS)
def test_statistics_are_those_of_numpy(library: ctypes.CDLL, count: int, kind: str) -> None:
    values = elements(count, kind)
    six = np.zeros(6)
    library.look(pointer(values), ctypes.c_int64(count), pointer(six))
    check(six, values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_sketch_is_that_of_python(library: ctypes.CDLL, count: int, kind: str) -> None:
    values = elements(count, kind)
    tile, fold = sketch.tile(), np.ascontiguousarray(sketch.fold().reshape(-1))
    bits = np.concatenate([np.packbits(tile.reshape(-1) < 0, bitorder="little"), np.zeros(8, np.uint8)])
    six, found = np.zeros(6), np.zeros(64, np.float32)
    is_done = library.both(
        pointer(values),
        ctypes.c_int64(count),
        pointer(tile),
        pointer(fold),
        pointer(bits),
        pointer(six),
        pointer(found),
    )
    assert is_done
    check(six, values)
    finite = np.where(np.isfinite(values), values, np.float32(0))
    expected = sketch.unpack(sketch.sketch_of(finite))
    norm = float(np.sqrt((finite.astype(np.float64) ** 2).sum()))
    assert np.abs(found - expected).max() <= 1e-5 * norm
