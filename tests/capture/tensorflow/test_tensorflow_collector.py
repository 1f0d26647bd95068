"""The collector for machines where Jumar cannot be installed: one file, Python 3.7, NumPy and TensorFlow alone."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from jumar.base.errors import RecordingError
from jumar.capture.frameworks.tensorflow.pack import NAME, collector_modules, write_collector
from jumar.cli.commands.record import command
from jumar.recording.foreign.recognise import opened

sys.path.insert(0, str(Path(__file__).parents[2] / "recording"))

import foreign_samples as samples

ALLOWED = {"numpy", "tensorflow", "keras", "jumar", *sys.stdlib_module_names} - {"tomllib", "graphlib", "zoneinfo"}
NEWER_ARGUMENTS = {"strict", "slots", "kw_only"}
NEWER_METHODS = {"removeprefix", "removesuffix", "is_relative_to", "bit_count", "with_stem", "readlink", "hardlink_to"}


def test_every_module_is_python_3_7_and_imports_only_what_is_there() -> None:
    within = {name.removesuffix(".py").replace("/", ".") for name, _ in collector_modules()}
    for name, text in collector_modules():
        tree = ast.parse(text, name, feature_version=(3, 7))
        for node in ast.walk(tree):
            assert not isinstance(node, (ast.NamedExpr, ast.Match)), (name, node.lineno)
            if isinstance(node, ast.Call):
                assert not NEWER_ARGUMENTS & {word.arg for word in node.keywords if word.arg}, (name, node.lineno)
            if isinstance(node, ast.Attribute):
                assert node.attr not in NEWER_METHODS, (name, node.lineno)
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                assert module.partition(".")[0] in ALLOWED | {"__future__"}, (name, module)
                assert not module.startswith("jumar") or module in within, (name, module)


def test_no_type_of_newer_python_is_evaluated() -> None:
    """`list[int]` and `A | B` outside annotations fail before Python 3.9 and 3.10."""
    builtin = {"list", "dict", "tuple", "set", "frozenset", "type", "Callable", "Iterator", "Sequence", "Mapping"}
    for name, text in collector_modules():
        tree = ast.parse(text)
        annotations = {id(part) for one in ast.walk(tree) for part in _annotations(one)}
        guarded = {id(part) for one in ast.walk(tree) if _is_type_checking(one) for part in ast.walk(one)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in builtin:
                assert id(node) in annotations | guarded, (name, node.lineno)


def _annotations(node: ast.AST) -> list[ast.AST]:
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [part for one in found if isinstance(one, ast.AST) for part in ast.walk(one)]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_the_command_writes_one_file_and_says_how_it_is_used(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--collector", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert f"python {NAME} -o collected train.py" in done.output
    assert zipfile.is_zipfile(tmp_path / "new" / NAME)
    first = (tmp_path / "new" / NAME).read_bytes()
    assert write_collector(tmp_path / "other").read_bytes() == first


def test_what_it_wrote_is_read(tmp_path: Path) -> None:
    dump = opened(samples.collected(tmp_path / "x", steps=2))
    assert dump.info.framework == "tensorflow"
    assert dump.info.layers == {"act": {"type": "ReLU"}}
    assert dump.steps() == [0, 1]
    row = dump.rows(1)[0]
    assert (row.name, row.module_path, row.inputs[0].shape, row.inputs[0].maximum) == ("tf::Relu", "act", (2, 2), 4.0)
    assert np.array_equal(dump.tensors(row)["output.0"], np.maximum(samples.SIGNED + 1, 0))
    assert dump.ends[0].status == "finished"
    stats = opened(samples.collected(tmp_path / "stats", keeps_tensors=False))
    assert not stats.has_tensors()


def test_a_killed_run_keeps_its_steps_and_says_so(tmp_path: Path) -> None:
    folder = samples.collected(tmp_path / "x", steps=2)
    (folder / "end.json").unlink()
    (folder / "steps" / "step-000002.part").write_text("{")
    dump = opened(folder)
    assert dump.steps() == [0, 1]
    assert any("was killed" in one for one in dump.warnings)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    folder = samples.collected(tmp_path / "x")
    text = (folder / "collected.json").read_text()
    (folder / "collected.json").write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(RecordingError, match="version 9"):
        opened(folder)


SCRIPT = """
import sys, numpy as np, tensorflow.compat.v1 as tf
assert sys.argv == ["train.py", "--rate", "0.1"], sys.argv
tf.disable_v2_behavior()
random = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [None, 4])
with tf.variable_scope("fc"):
    kernel = tf.get_variable("kernel", initializer=tf.constant(random.randn(4, 3).astype("float32")))
    y = tf.matmul(x, kernel)
loss = tf.reduce_mean(tf.square(y))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: random.randn(2, 4)})
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", ["tensorflow", "new_tensorflow"])
def test_it_records_a_script_without_jumar(version: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = request.getfixturevalue(version)
    shutil.copy(write_collector(tmp_path / "made"), tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "jumar").mkdir()  # a package of this name that cannot be imported: the collector's own comes first
    (tmp_path / "jumar" / "__init__.py").write_text("raise ImportError('not the collector')")
    words = [NAME, "-o", "out", "--values", "tensors", "--steps", "0:2", "train.py", "--rate", "0.1"]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([python, *words], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    dump = opened(tmp_path / "out")
    assert dump.steps() == [0, 1]
    assert dump.ends[0].status == "stopped"
    rows = {(row.kind, row.phase): row for row in dump.rows(0) if row.module_path == "fc" and row.kind != "op"}
    assert rows["module", "forward"].outputs[0].shape == (2, 3)
    assert rows["parameter", "optimizer"].inputs[0].shape == (3, 4)
    assert rows["module", "forward"].source == "train.py:9"
    again = subprocess.run([python, *words], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert again.returncode == 2
    assert "Name a new folder" in again.stderr
