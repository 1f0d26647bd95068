"""Every way in gives the same graphs, and everything else is one sentence."""

from __future__ import annotations

from pathlib import Path

import graph_models as models
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError, JumarError, UsageError
from jumar.tune.graph.capture import data
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.captured import InputShape, parse_shapes
from jumar.tune.graph.capture.source import is_graph_source, load_graphs
from jumar.tune.graph.operators import function_of
from jumar.tune.model.errors import TuneError

HERE = Path(__file__).parents[1]


def loaded(where: str, folder: Path, shape: str = ""):
    return load_graphs(where, folder=folder / "data", input_shape=shape)


def test_a_factory_an_exported_program_and_the_model_itself_give_one_key(tmp_path):
    model, x = models.residual()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(model.eval(), (x,)), path)
    ways = [
        graph_of_module(model, (x,), folder=tmp_path),
        *loaded("graph_models:residual", tmp_path),
        *loaded(f"{HERE / 'graph_models.py'}:residual", tmp_path),
        *loaded(str(path), tmp_path),
    ]
    assert len({one.graph.key for one in ways}) == 1
    assert [one.name for one in ways] == ["model", "residual", "residual", "net"]


def test_an_exported_program_that_writes_in_place_to_what_a_view_shows_computes_what_it_computed(tmp_path):
    def writes(x):
        y = x.exp()
        turned = y.t()
        y.mul_(3)
        return turned + 1

    x, path = torch.randn(3, 3), tmp_path / "net.pt2"
    torch.export.save(torch.export.export(models.Function(writes), (x,)), path)
    (found,) = loaded(str(path), tmp_path)
    with torch.no_grad():
        assert torch.allclose(function_of(found.graph)(*data.load(found.data).values())[0], writes(x))


def test_gears_are_one_graph_each(tmp_path):
    found = loaded("graph_models:alone", tmp_path, "x:1,3,8,8;4,3,16,16")
    assert [one.name for one in found] == ["alone 1x3x8x8", "alone 4x3x16x16"]
    assert [one.graph.inputs[0].shape for one in found] == [(1, 3, 8, 8), (4, 3, 16, 16)]


def test_gears_replace_the_sizes_of_given_inputs_and_keep_to_their_values(tmp_path):
    (found,) = loaded("graph_models:tied", tmp_path, "ids:3,5;mask:3,5")
    ids, mask = (found.graph.inputs[place] for place in found.graph.variables)
    assert (ids.shape, ids.dtype, mask.shape) == ((3, 5), "int64", (3, 5))
    assert (mask.minimum, mask.maximum) == (1.0, 1.0)


def test_a_model_that_is_no_single_graph_is_its_pieces(tmp_path):
    found = loaded("graph_models:chooses", tmp_path)
    assert [one.name for one in found] == ["chooses piece 0", "chooses piece 1"]
    assert {finding.code for one in found for finding in one.findings} == {"JM513"}
    assert [one.reason_not_tuned for one in found] == ["", ""]
    assert all(spec.constant for one in found for spec in one.graph.inputs if spec.shape == (4, 4))


def test_a_program_of_changing_sizes_is_refused_without_gears_and_specialised_with_them(tmp_path):
    model, x = models.residual()
    path = tmp_path / "any.pt2"
    sizes = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(model.eval(), (x,), dynamic_shapes=sizes), path)
    with pytest.raises(TuneError, match=r'changing sizes \(x: dimension 0\).*--input-shape "x:2,3,8,8"'):
        loaded(str(path), tmp_path)
    found = loaded(str(path), tmp_path, "1,3,8,8;3,3,8,8")
    assert [one.graph.inputs[0].shape[0] for one in found] == [1, 3]
    assert [finding.code for one in found for finding in one.findings] == ["JM514", "JM514"]
    alone = graph_of_module(model, (x[:1],), folder=tmp_path)
    assert found[0].graph.key == alone.graph.key


def test_gears_name_the_tensors_of_a_program_also_in_a_nesting_and_behind_a_number(tmp_path):
    def function(pair, factor, x, *, mask):
        return (pair[0] + pair[1]) * factor + x * mask

    rows, path = torch.export.Dim("rows"), tmp_path / "nested.pt2"
    args, kwargs = ([torch.randn(2, 3), torch.randn(2, 3)], 2.5, torch.randn(2, 3)), {"mask": torch.ones(3)}
    sizes = {"inputs": ([{0: rows}, {0: rows}], None, {0: rows}), "mask": None}
    program = torch.export.export(models.Keywords(function), args, kwargs, dynamic_shapes=sizes)
    torch.export.save(program, path)
    with pytest.raises(TuneError) as error:
        loaded(str(path), tmp_path)
    advice = str(error.value).partition('--input-shape "')[2].partition('"')[0]
    (found,) = loaded(str(path), tmp_path, advice.replace("2,3", "5,3"))
    assert [found.graph.inputs[place].shape for place in found.graph.variables] == [(5, 3)] * 3 + [(3,)]


@pytest.mark.parametrize(
    ("where", "shape", "said"),
    [
        ("graph_models:alone", "", "must return (model, example inputs)"),
        ("graph_models:alone", "y:1,3,8,8", "--input-shape names y, and the model takes x"),
        ("graph_models:tied", "other:1,3", "--input-shape names other"),
        ("graph_models:raises", "", "raised ZeroDivisionError: of no use; mend it"),
        ("graph_models:leaves", "", "raised SystemExit: 4; mend it"),
        ("graph_models:nothing", "", "must return a model, (model, args) or (model, args, kwargs); got (NoneType)"),
        ("graph_models:unusual", "", "got (Residual, Tensor, dict, str)"),
        ("graph_models:unwrapped", "", "got (Bilinear, Tensor, Tensor). Put several args into a tuple."),
        ("graph_models:number", "", "must be a function that returns a model; it is a int"),
        ("graph_models:absent", "", "cannot be imported"),
        ("absent.py:model", "", "cannot be imported: there is no file absent.py"),
        ("absent_module_of_mine:model", "", "cannot be imported: No module named"),
        ("absent.pt2", "", "must be a file; there is none"),
        ("absent.onnx", "", "must be a file; there is none"),
        ("nothing of the kind", "", "must be a model: an .onnx or .pt2 file"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path, where, shape, said):
    with pytest.raises(JumarError) as error:
        loaded(where, tmp_path, shape)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_program_is_one_sentence(tmp_path, capfd, caplog):
    path = tmp_path / "net.pt2"
    path.write_bytes(b"not a program")
    with pytest.raises(InputError, match="must be an exported program"):
        loaded(str(path), tmp_path)
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_a_factory_that_goes_to_another_folder_leaves_the_run_where_it_was(tmp_path, monkeypatch):
    """`--output net.jumar` is meant from where the command was given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "net_elsewhere.py").write_text(
        "import os, torch\n"
        "os.chdir(os.path.dirname(__file__))\n"
        "def make():\n"
        "    return torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),)\n"
    )
    load_graphs("project/net_elsewhere.py:make", folder=tmp_path)
    assert Path.cwd() == tmp_path


def test_what_a_factory_prints_does_not_reach_stdout(tmp_path, monkeypatch, capsys):
    (tmp_path / "chatty_factory.py").write_text("from graph_models import residual as make\nprint('hello')\n")
    monkeypatch.chdir(tmp_path)
    loaded("chatty_factory:make", tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("net.pt2", True), ("folder/net.ONNX", True), ("a.b:c", True), ("file.py:make.it", True), ("recording", False),
        ("C:\\recordings", False), ("a b:c", False), ("postgresql://x", False),
    ],
)  # fmt: skip
def test_models_are_told_from_recordings_by_their_names(where, answer):
    assert is_graph_source(where) is answer


names = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
shapes = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(tuple)


@given(st.dictionaries(names, st.tuples(st.lists(shapes, min_size=2, max_size=2), st.sampled_from(["", "int64"]))))
def test_shapes_are_read_as_they_are_written(inputs):
    text = ";".join(
        f"{name}:{','.join(map(str, first))}{':' + dtype if dtype else ''};{','.join(map(str, second))}"
        for name, ((first, second), dtype) in inputs.items()
    )
    gears = parse_shapes(text)
    assert gears == [
        [InputShape(name=name, shape=pair[gear], dtype=dtype) for name, (pair, dtype) in inputs.items()]
        for gear in range(2 if inputs else 0)
    ]


@pytest.mark.parametrize("text", ["x", "x:", "x:1,,2", "1,-2", "x:1,2:float33", ";", "x:1;2;y:1;2;3", "x:1.5"])
def test_a_shape_that_is_none_is_one_sentence(text):
    with pytest.raises(UsageError, match="--input-shape"):
        parse_shapes(text)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        gears = parse_shapes(text)
    except UsageError:
        return
    assert all(shape.shape for gear in gears for shape in gear)
