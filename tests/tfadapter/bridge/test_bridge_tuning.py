"""`AOE_MODE` and the options of tuning: the documented lines, the graph of the first step, the tuner that gets it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SESSION = """
import sys
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

data = tf.data.Dataset.from_tensor_slices(np.ones((8, 1), "f")).repeat().batch(2)
y = tf.data.make_one_shot_iterator(data).get_next()
x = tf.placeholder(tf.float32, [None, 4], name="x")
w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
cost = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), name="cost")
train = tf.train.GradientDescentOptimizer(0.001).minimize(cost)
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["static_memory_policy"].i = 0
exec(sys.argv[1] if len(sys.argv) > 1 else "")
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(2):
        print("cost", sess.run([cost, train], {x: np.ones((2, 4)) * 2})[0])
"""
"""Memory as the document on AOE wants it."""
READ = """
import glob, sys
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
v1.disable_eager_execution()
graph = v1.GraphDef()
(path,) = glob.glob(sys.argv[1])
graph.ParseFromString(open(path, "rb").read())
tf.import_graph_def(graph, name="")
operations = v1.get_default_graph().get_operations()
shapes = {one.name: one.outputs[0].shape.as_list() for one in operations if one.type == "Placeholder"}
feed = {f"{name}:0": np.full(shape, 2.0 if name == "x" else 1.0) for name, shape in shapes.items()}
print(sorted(shapes.items()), v1.Session().run(sys.argv[2], feed))
"""


def run(python: Path, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), *words], cwd=folder, check=False, capture_output=True, text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    )  # fmt: skip


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SESSION)
    (tmp_path / "read.py").write_text(READ)
    (tmp_path / "work").mkdir()
    return tmp_path


def test_the_forward_part_of_the_first_step_is_written_and_computes_the_loss(tensorflow: Path, script: Path) -> None:
    done = run(tensorflow, script, "-m", "jumar", "run", "train.py", AOE_MODE="1", ASCEND_WORK_PATH="work")
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines[:2] == ["in tune mode, training graph handled by tools.", "cost 49.0"]
    second = lines[2].split()[1]  # the graph has the parameters that the first step leaves
    assert "Aoe tuning graph." not in done.stdout, "no tuner is here"
    assert "nothing was tuned, and no result file is written" in done.stderr
    assert "jumar tune work/jumar_graph_pid" in done.stderr
    assert not list(script.rglob("aoe_result*"))
    graph = run(tensorflow, script, "read.py", "work/*.pb", "cost:0")
    assert graph.stdout.strip() == f"[('IteratorGetNext', [2, 1]), ('x', [2, 4])] {second}", graph.stderr


def test_options_ask_for_tuning_too_and_the_tuner_gets_the_graph(tensorflow: Path, script: Path) -> None:
    (script / "modules" / "tf2onnx").mkdir(parents=True)
    (script / "modules" / "tf2onnx" / "__init__.py").write_text("")
    tuner = script / "tuner"
    tuner.write_text('#!/bin/sh\necho "tuner $* mode=$AOE_MODE by $JUMAR_TENSORFLOW: $(wc -c < $2)"\n')
    tuner.chmod(0o755)
    option = 'custom_op.parameter_map["aoe_mode"].s = b"2"; custom_op.parameter_map["work_path"].s = b"work"'
    option += '; custom_op.parameter_map["aoe_config_file"].s = b"work/aoe.json"'
    (script / "work" / "aoe.json").write_text('{"tune_ops_type": ["MatMul"]}')
    words = ("-m", "jumar", "run", "train.py", option)
    done = run(tensorflow, script, *words, JUMAR_TUNER=str(tuner), PYTHONPATH=str(script / "modules"))
    assert done.returncode == 0, done.stderr[-2000:]
    begin, last = done.stdout.splitlines()[-2:]
    assert begin == "Aoe tuning graph."
    assert last.startswith("tuner tune work/jumar_graph_pid")
    assert f".pb --job-type 2 --aoe-config-file work/aoe.json mode= by {tensorflow}: " in last
    assert int(last.split()[-1]) > 0
    assert "and ended; it measured ONNX Runtime" in done.stderr


@pytest.mark.parametrize(
    ("environment", "words", "sentence"),
    [
        ({"AOE_MODE": "3"}, (), "AOE_MODE=3: it must be 1, 2, 4"),
        ({"AOE_MODE": "1"}, ("--soc", "Ascend910B1"), "AOE_MODE=1: Ascend910B1 takes 2, 4 only"),
    ],
)
def test_a_wrong_mode_is_refused_before_the_script_runs(
    tensorflow: Path, script: Path, environment: dict[str, str], words: tuple[str, ...], sentence: str
) -> None:
    done = run(tensorflow, script, "-m", "jumar", "run", *words, "train.py", **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


DEVICE = """
import numpy as np
import tensorflow as tf
import npu_device as npu

npu.global_options().aoe_config.aoe_mode = "1"
npu.global_options().aoe_config.work_path = "work"
npu.open().as_default()
model = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.0), "mse")
model.fit(np.full((4, 8, 8, 1), 2.0, "f"), np.ones((4, 1), "f"), batch_size=2, verbose=0)
print("model", float(model(np.full((1, 8, 8, 1), 1.0, "f"))[0, 0]))
"""


@pytest.mark.parametrize("name", ["tensorflow", "new_tensorflow"])
def test_a_model_of_keras_is_written(name: str, script: Path, request: pytest.FixtureRequest) -> None:
    python = request.getfixturevalue(name)
    (script / "train.py").write_text(DEVICE)
    done = run(python, script, "-m", "jumar", "run", "train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    graph = run(python, script, "read.py", "work/*.pb", "Identity:0")
    value = float(graph.stdout.rpartition("[[")[2].split("]")[0])
    assert value == pytest.approx(float(done.stdout.rpartition("model ")[2]), rel=1e-5)
