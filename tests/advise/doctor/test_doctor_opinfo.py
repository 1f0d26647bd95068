"""Operators of plogs: the counts, the summary of document 004, and what was compiled after the first step."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.advise.doctor.opinfo import gather, summary_text
from jumar.advise.doctor.opinfo.description import parse
from jumar.advise.doctor.opinfo.steps import first_step_end, z_function
from jumar.base.errors import InputError


def tensor(kind: str, index: int, shape: tuple[int, ...], *, dtype: int = 1, storage: int = 2) -> str:
    dims = "[" + ", ".join(map(str, shape)) + "]"
    return (
        f"{kind}Desc[{index}]: [TensorDesc] DataType = {dtype}, Format = 2, StorageFormat = {storage}, Shape = {dims}, "
        f"StorageShape = {dims}, shapeRange = [], memtype = 0, isConst = 0 "
    )


def operator(name: str, *shapes: tuple[int, ...], attributes: str = "{axis = 1}") -> str:
    inputs = "".join(tensor("Input", index, shape) for index, shape in enumerate(shapes))
    return f"OpType: {name}, {inputs}{tensor('Output', 0, shapes[0], dtype=0, storage=29)}Attr: {attributes}"


def plog(calls: list[str], *, says_misses: bool = True, pid: int = 22) -> Iterator[str]:
    seen: set[str] = set()
    for number, call in enumerate(calls):
        head = f"ASCENDCL({pid},python3):2024-02-02-22:23:56.{number % 1000:03d}.679 [op.cpp:92]{pid}"
        yield f"[INFO] {head} aclopCompile: aclopCompile::aclOp = {call}\n"
        yield f"[INFO] RUNTIME({pid},python3):2024-02-02-22:23:56.1 [runtime.cc:1] other words\n"
        if call not in seen and says_misses:
            yield f"[WARNING] {head} Match op inputs failed. opType = x, inputDesc = y\n"
        seen.add(call)


def training(lengths: list[int]) -> list[str]:
    calls = [operator("Fill", (1,))]
    for length in lengths:
        for _ in range(3):
            calls += [operator("TransData", (8, length)), operator("MatMul", (8, length), (length, 4))]
        calls += [operator("Cast", (8, 4)), *(operator("ApplyAdam", (size,)) for size in range(1, 6))]
    return calls


def write(folder: Path, lines: Iterator[str], name: str = "plog-22_1.log") -> Path:
    path = folder / name
    path.write_text("".join(lines))
    return path


def script_of_the_document(path: Path) -> list[str]:
    """Return the lines that the script in document 004 writes, sorted."""
    found = set()
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("[INFO] ASCENDCL") and "aclopCompile::aclOp" in line:
            info = line.split("OpType: ")[1][:-2]
            name = info.split(",")[0]
            found.add(name + " " + info[len(name) + 2 :] + "\n")
    return sorted(found)


def test_calls_conversions_and_variants_are_counted(tmp_path: Path) -> None:
    found = gather([write(tmp_path, plog(training([16] * 4)))])
    assert {one.name: one.num_calls for one in found.types} == {
        "Fill": 1, "TransData": 12, "MatMul": 12, "Cast": 4, "ApplyAdam": 20,
    }  # fmt: skip
    assert found.calls_of("TransData") == 12
    assert found.num_calls == 49
    assert next(one for one in found.types if one.name == "ApplyAdam").num_compiled == 5


def test_the_summary_has_the_lines_of_the_documents_script(tmp_path: Path) -> None:
    path = write(tmp_path, plog(training([16, 16, 20])))
    assert sorted(summary_text(gather([path])).splitlines(keepends=True)) == script_of_the_document(path)


def test_fixed_shapes_compile_nothing_after_the_first_step(tmp_path: Path) -> None:
    found = gather([write(tmp_path, plog(training([16] * 5)))])
    assert found.later == ()
    assert found.num_steps_known == found.num_processes == 1


@pytest.mark.parametrize("says_misses", [True, False])
def test_an_operator_compiled_in_a_later_step_is_told_with_the_shape_that_changed(
    says_misses: bool, tmp_path: Path
) -> None:
    found = gather([write(tmp_path, plog(training([16, 16, 19, 16, 23]), says_misses=says_misses))])
    assert {one.type: one.num_compiled for one in found.later} == {"TransData": 2, "MatMul": 2}
    changes = next(one.changes for one in found.later if one.type == "MatMul")
    assert "input 0: 8x16 to 8x19" in changes
    assert "input 1: 16x4 to 19x4" in changes


def test_one_step_alone_is_not_taken_for_several(tmp_path: Path) -> None:
    found = gather([write(tmp_path, plog(training([16])))])
    assert found.num_steps_known == 0
    assert "where the first one ends is not known" in found.notes[0]


def test_processes_are_told_apart_and_packed_plogs_are_read(tmp_path: Path) -> None:
    write(tmp_path, plog(training([16] * 3)))
    (tmp_path / "plog-23_1.log.gz").write_bytes(gzip.compress("".join(plog(training([8] * 3), pid=23)).encode()))
    found = gather([tmp_path])
    assert found.num_processes == 2
    assert found.later == ()
    assert found.calls_of("MatMul") == 18


def test_interleaved_processes_in_one_file_keep_their_steps(tmp_path: Path) -> None:
    rng = random.Random(3)
    sides = [list(plog(training([16] * 4))), list(plog(training([8] * 4), pid=23))]
    lines: list[str] = []
    while any(sides):
        side = rng.choice([one for one in sides if one])
        lines.append(side.pop(0))
    found = gather([write(tmp_path, iter(lines))])
    assert (found.num_processes, found.later) == (2, ())


def test_a_line_that_the_log_cut_is_counted_and_said(tmp_path: Path) -> None:
    lines = [line[:220] + "\n" for line in plog([operator("MatMul", (8, 16), (16, 4))])]
    found = gather([write(tmp_path, iter(lines))])
    assert found.types[0].num_calls == 1
    assert any("cut" in note for note in found.notes)


def test_a_log_without_operators_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ASCEND_GLOBAL_LOG_LEVEL=1"):
        gather([write(tmp_path, iter(["[INFO] GE(1,python3):x nothing\n"]))])


def test_a_description_is_taken_apart() -> None:
    found = parse(operator("MatMulV2", (8, 16), (16, 4), attributes="{transpose_x1 = 0}")[len("OpType: ") :])
    assert found.type == "MatMulV2"
    assert [str(one) for one in found.tensors] == [
        "float16[8x16] ND", "float16[16x4] ND", "float32[8x16] FRACTAL_NZ",
    ]  # fmt: skip
    assert found.attributes == "{transpose_x1 = 0}"
    assert not found.is_cut


def test_constants_and_scalars_are_read() -> None:
    text = (
        "ReduceSum, InputDesc[0]: [TensorDesc] DataType = 3, Format = 2, StorageFormat = -1, Shape = [], StorageShape "
        "= [], shapeRange = [], memtype = 0, isConst = 1 , isConst = true, Const Len = 2 , Const data = 1,2, "
    )
    assert [str(one) for one in parse(text).tensors] == ["int32[scalar] ND"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=60))
def test_the_z_function_is_that_of_its_definition(values: list[int]) -> None:
    def same(index: int) -> int:
        size = 0
        while index + size < len(values) and values[size] == values[index + size]:
            size += 1
        return size

    assert z_function(values) == [0 if index == 0 else same(index) for index in range(len(values))]


@settings(max_examples=60, deadline=None)
@given(
    step=st.lists(st.integers(0, 5), min_size=2, max_size=12),
    before=st.lists(st.integers(0, 5), max_size=4),
    number=st.integers(4, 8),
)
def test_the_first_step_never_ends_inside_what_comes_before_it(step: list[int], before: list[int], number: int) -> None:
    end = first_step_end([*before, *step * number])
    assert end is None or 0 < end <= len(before) + len(step)
