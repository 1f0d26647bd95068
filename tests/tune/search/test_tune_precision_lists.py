"""Precision lists: the vendor's files read and written, and what they mean for a graph."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_models import Attention, Residual, graph_of

from jumar.base.errors import InputError, OutputError
from jumar.tune.graph import Graph
from jumar.tune.measure.options import PrecisionOptions
from jumar.tune.model.gate import gain_of
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import Lowering, LowPrecision
from jumar.tune.plan.lowering.rewrite import effective
from jumar.tune.search.precision.outcome import Point
from jumar.tune.search.precision.request.files import (
    PrecisionFile,
    ini_text,
    mix_list_from,
    mix_list_text,
    names_of,
    parse_ini,
    read_precision_file,
    with_file_read,
    write_files,
)
from jumar.tune.search.precision.request.lists import (
    MODES,
    Changes,
    MixList,
    ModeList,
    mix_list_of,
    mode_list_of,
    node_names,
)

NAMES = st.text(
    st.characters(codec="ascii", min_codepoint=48, max_codepoint=122, exclude_characters="[];=<>?@\\^`"), min_size=1
)
MODE_LISTS = st.builds(
    ModeList,
    by_type=st.dictionaries(NAMES, st.sampled_from(MODES)),
    by_name=st.dictionaries(NAMES, st.sampled_from(MODES)),
)
CHANGES = st.builds(Changes, to_remove=st.lists(NAMES).map(tuple), to_add=st.lists(NAMES).map(tuple))


def residual() -> Graph:
    return graph_of(Residual(), torch.randn(2, 3, 8, 8))[0]


def lowered_nodes(graph: Graph, nodes: dict[int, LowPrecision]) -> list[str]:
    names = node_names(graph)
    return [names[value] for value in effective(graph, Lowering(nodes=nodes)) if value in names]


@settings(derandomize=True)
@given(modes=MODE_LISTS)
def test_an_op_precision_file_is_read_back_as_it_was_written(modes: ModeList) -> None:
    assert parse_ini(ini_text(modes), "file") == modes


@settings(derandomize=True)
@given(lists=st.builds(MixList, black=CHANGES, white=CHANGES))
def test_a_mixlist_file_is_read_back_as_it_was_written(lists: MixList) -> None:
    assert mix_list_from(json.loads(mix_list_text(lists)), "file") == lists


@settings(derandomize=True)
@given(text=st.text())
def test_any_other_text_is_refused_or_is_a_list_like_others(text: str) -> None:
    with suppress(InputError):
        modes = parse_ini(text, "file")
        assert parse_ini(ini_text(modes), "file") == modes


def test_lines_before_a_section_are_types_and_comments_are_left_out() -> None:
    text = "# made by hand\nConv2D=high_performance\n\n[ByNodeName]\n; the last one\nlinear_0 = high_precision\n"
    assert parse_ini(text, "file") == ModeList(
        by_type={"Conv2D": "high_performance"}, by_name={"linear_0": "high_precision"}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Conv2D=fast", "file:1 must be operator=mode"),
        ("[ByOpType]\nConv2D", "file:2 must be"),
        ("[ByLayer]\n", r"file:1 begins \[ByLayer\]"),
    ],
)
def test_a_wrong_line_is_named(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_ini(text, "file")


@pytest.mark.parametrize("data", [{"white": {}}, {"white-list": {"to-add": "Conv2D"}}, {"black-list": {"add": []}}])
def test_a_mixlist_of_another_form_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(InputError, match="it must hold"):
        mix_list_from(data, "file")


def test_a_name_wins_over_a_type_and_keep_fp16_says_which_type() -> None:
    graph = residual()
    modes = ModeList(
        by_type={"Conv2D": "high_performance"}, by_name={"conv2d_0": "high_precision", "linear_0": "keep_fp16"}
    )
    names = node_names(graph)
    assert {names[value]: precision for value, precision in modes.nodes(graph, "bf16").items()} == {
        "conv2d_1": "bf16", "linear_0": "fp16",
    }  # fmt: skip


def test_types_are_meant_by_the_vendors_name_and_by_pytorchs() -> None:
    graph = residual()
    for kind in ("Conv2D", "conv2d", "aten::conv2d"):
        modes = ModeList(by_type={kind: "high_performance"})
        assert lowered_nodes(graph, modes.nodes(graph, "bf16")) == ["conv2d_0", "conv2d_1"]


def test_a_mixlist_changes_the_built_in_lists_and_gray_operators_follow() -> None:
    graph = residual()
    usual = lowered_nodes(graph, MixList().nodes(graph, "bf16"))
    assert usual == ["conv2d_0", "batch_norm_0", "relu_0", "conv2d_1", "add_0", "linear_0", "mm_0"]
    black = MixList(black=Changes(to_add=("Conv2D",)))
    assert lowered_nodes(graph, black.nodes(graph, "bf16")) == ["linear_0", "mm_0"]
    gray = MixList(white=Changes(to_remove=("MatMulV2",)))
    assert lowered_nodes(graph, gray.nodes(graph, "bf16")) == [*usual[:5]]


def test_gray_operators_follow_through_operators_of_several_outputs() -> None:
    graph, _ = graph_of(Attention(), torch.randn(2, 6, 16))
    lists = MixList(white=Changes(to_remove=("FlashAttentionScore",)))
    assert "scaled_dot_product_attention_0" in lowered_nodes(graph, lists.nodes(graph, "bf16"))


@pytest.mark.parametrize("chosen", [["conv2d_0", "conv2d_1"], ["conv2d_1"], ["relu_0", "linear_0", "mm_0"], []])
def test_a_lowering_is_read_back_out_of_its_mode_list(chosen: list[str]) -> None:
    graph = residual()
    nodes: dict[int, LowPrecision] = {value: "bf16" for value, name in node_names(graph).items() if name in chosen}
    assert lowered_nodes(graph, mode_list_of(graph, Lowering(nodes=nodes)).nodes(graph, "bf16")) == chosen


def test_a_lowering_by_whole_types_is_read_back_out_of_its_mixlist() -> None:
    graph = residual()
    chosen = ["conv2d_0", "batch_norm_0", "relu_0", "conv2d_1", "add_0"]
    nodes: dict[int, LowPrecision] = {value: "bf16" for value, name in node_names(graph).items() if name in chosen}
    lists = mix_list_of(graph, Lowering(nodes=nodes))
    assert "MatMulV2" in lists.black.to_add
    assert lowered_nodes(graph, lists.nodes(graph, "bf16")) == chosen


def test_a_mixlist_of_int8_says_nothing_of_gray_operators() -> None:
    graph = residual()
    nodes: dict[int, LowPrecision] = dict.fromkeys(MixList().nodes(graph, "int8"), "int8")
    assert mix_list_of(graph, Lowering(nodes=nodes)) == MixList()


def some_point(graph: Graph) -> Point:
    nodes: dict[int, LowPrecision] = {
        value: "int8" if name == "linear_0" else "bf16" for value, name in node_names(graph).items() if name != "mm_0"
    }
    lowering = Lowering(nodes=effective(graph, Lowering(nodes=nodes)))
    plan = Plan(regions=(Region(nodes=(), engine="any", version="1"),), lowering=lowering)
    gain = gain_of([10.0] * 9, [5.0] * 9)
    return Point(plan=plan, gain=gain, error=0.004, errors=(0.004, float("inf")), lowering=lowering)


def test_the_three_files_of_a_point_are_read_back(tmp_path: Path) -> None:
    graph = residual()
    point = some_point(graph)
    ini, mix, own = write_files(graph, point, tmp_path, "my net 8x3")
    assert [path.name for path in (ini, mix, own)] == [
        "my_net_8x3_op_precision.ini", "my_net_8x3_mixlist.json", "my_net_8x3_precision.json",
    ]  # fmt: skip
    assert isinstance(read_precision_file(ini).lists, ModeList)
    assert isinstance(read_precision_file(mix).lists, MixList)
    again = read_precision_file(own)
    assert (again.key, again.plan, again.lowering) == (graph.key, point.plan, point.lowering)
    assert names_of(graph, Lowering(nodes=again.nodes(graph, "fp16"))) == names_of(graph, point.lowering)
    assert Point.from_json(json.loads(own.read_text())["point"]) == point


@pytest.mark.parametrize("taken", ["net_op_precision.ini", "net_precision.json", "there/../net_mixlist.json"])
def test_files_that_are_taken_stay_and_the_graph_s_key_is_in_the_names(tmp_path: Path, taken: str) -> None:
    graph = residual()
    (tmp_path / "there").mkdir()
    (tmp_path / taken).write_text("mine")
    written = write_files(graph, some_point(graph), tmp_path, "net", taken=[tmp_path / taken])
    assert (tmp_path / taken).read_text() == "mine"
    assert written[0].name == f"net_{graph.key[:8]}_op_precision.ini"
    again = write_files(graph, some_point(graph), tmp_path, "net", taken=[tmp_path / taken, *written])
    assert [path.name for path in again] == [
        f"net_{graph.key[:8]}_2_{end}" for end in ("op_precision.ini", "mixlist.json", "precision.json")
    ]


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "net.ini"
    path.write_text("Conv2D=high_performance\n")
    asked = with_file_read(PrecisionOptions(precision=str(path)))
    path.write_text("Conv2D=quick\n")
    assert with_file_read(asked) is asked
    assert asked.content == PrecisionFile(lists=ModeList(by_type={"Conv2D": "high_performance"}))
    assert with_file_read(PrecisionOptions()) == PrecisionOptions()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "must hold one JSON object"),
        ('{"format": "jumar-precision", "version": 2}', "version 2"),
        ('{"format": "jumar-precision", "version": 1}', "no whole precision file"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_precision_file(path)


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    graph = residual()
    (tmp_path / "net_op_precision.ini").mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        write_files(graph, some_point(graph), tmp_path, "net")
    assert [path.name for path in tmp_path.iterdir()] == ["net_op_precision.ini"]


@pytest.mark.parametrize(
    "text", ["[ByOpType]\r\nConv2D=high_performance\r\n", '{"white-list": {"to-add": ["Conv2D"]}}']
)
def test_a_file_that_was_saved_on_windows_is_read_like_any_other(tmp_path: Path, text: str) -> None:
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.write_bytes(text.encode())
    marked.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_precision_file(marked) == read_precision_file(plain)


def test_json_that_is_nested_without_end_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text('{"a":' * 100_000)
    with pytest.raises(InputError, match="must hold one JSON object"):
        read_precision_file(tmp_path / "deep")
