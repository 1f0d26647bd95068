"""Graph files beside a dump tell the names and scopes of its operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.recording.foreign.formats.graph_names import file_text, graph_operators
from jumar.recording.foreign.recognise import opened

GE = """name: "ge_default"
graph {
  op {
    name: "head/fc_1/MatMul"
    type: "MatMul"
    input: "x:0"
    attr {
      key: "name"
      value { s: "other" }
    }
  }
  op {
    name: "gradients/head/fc_1/MatMul_grad/MatMul"
    type: "MatMul"
  }
  op {
    name: "Adam/update_kernel/ResourceApplyAdam"
    type: "ResourceApplyAdam"
  }
}
"""
PBTXT = 'node {\n  name: "conv/Conv2D"\n  op: "Conv2D"\n  input: "x"\n}\nversions {\n  producer: 1\n}\n'


def dump(folder: Path, *names: str) -> Path:
    place = folder / "20261127101010" / "0" / "ge_default" / "1" / "3"
    place.mkdir(parents=True)
    for number, name in enumerate(names):
        kind, _, rest = name.partition(" ")
        np.save(place / f"{kind}.{file_text(rest)}.{number}.1.158919508158800{number}.output.0.npy", np.ones((2, 3)))
    return folder


def test_ge_s_text_gives_scopes_and_phases(tmp_path: Path) -> None:
    dump(
        tmp_path,
        "MatMul head/fc_1/MatMul",
        "MatMul gradients/head/fc_1/MatMul_grad/MatMul",
        "ResourceApplyAdam Adam/update_kernel/ResourceApplyAdam",
    )
    (tmp_path / "ge_proto_00000.txt").write_text(GE)
    found = opened(tmp_path)
    assert found.info.framework == "tensorflow"
    assert found.steps() == [3]
    assert [(row.name, row.module_path, row.phase) for row in found.rows(3)] == [
        ("tf::MatMul", "head.fc_1", "forward"),
        ("tf::MatMul", "gradients.head.fc_1.MatMul_grad", "backward"),
        ("tf::ResourceApplyAdam", "Adam.update_kernel", "optimizer"),
    ]
    assert not found.warnings


def test_a_graph_of_tensorflow_above_the_dump_is_found_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_text(PBTXT)
    found = opened(dump(tmp_path / "dump", "Conv2D conv/Conv2D", "TransData trans_TransData_0"))
    assert [(row.name, row.module_path) for row in found.rows(3)] == [
        ("tf::Conv2D", "conv"),
        ("TransData", "trans_TransData_0"),
    ]
    assert found.warnings == ["1 operators are in no graph file and have no scope (first: trans_TransData_0)"]


def test_without_a_graph_names_stay_as_they_are(tmp_path: Path) -> None:
    found = opened(dump(tmp_path, "MatMul head/fc_1/MatMul"))
    assert found.info.framework == "torch"
    assert found.rows(3)[0].module_path == "head_fc_1_MatMul"


def test_a_name_that_two_operators_share_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.pbtxt").write_text(PBTXT.replace("conv/Conv2D", "a/b_c") + PBTXT.replace("conv/Conv2D", "a_b/c"))
    assert graph_operators(tmp_path) == {}


@given(st.binary(max_size=200))
def test_bytes_that_are_no_graph_give_nothing_and_raise_nothing(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.pbtxt").write_bytes(content)
        assert isinstance(graph_operators(Path(folder)), dict)


@pytest.mark.parametrize("cut", range(0, len(PBTXT), 7))
def test_a_graph_that_is_cut_short_gives_whole_operators_only(cut: int, tmp_path: Path) -> None:
    (tmp_path / "x.pbtxt").write_text(PBTXT[:cut])
    assert all((one.name, one.kind) == ("conv/Conv2D", "Conv2D") for one in graph_operators(tmp_path).values())
