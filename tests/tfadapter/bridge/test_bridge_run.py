"""`jumar run` on programs for the adapter of TensorFlow: the documents' own code, wrong options, overflow, steps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from jumar.cli.main import main

pytestmark = pytest.mark.slow

NET = """
import os, sys
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

tf.set_random_seed(1)
x = tf.placeholder(tf.float32, [None, 4])
y = tf.placeholder(tf.float32, [None, 1])
w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
out = tf.matmul(x, w, name="fc/MatMul")
half = tf.multiply(tf.cast(out, tf.float16), tf.constant(60000.0, tf.float16), name="head/scaled")
total = tf.unsorted_segment_sum(tf.cast(out, tf.float16) * 5000.0, tf.zeros([2, 1], tf.int32), 1, name="head/summed")
cost = tf.reduce_mean(tf.square(out - y))
train = tf.train.GradientDescentOptimizer(0.001).minimize(cost)
feed = {x: np.ones((2, 4)) * 2, y: np.ones((2, 1))}
"""
SESSION = """
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
{lines}
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(3):
        print("cost", sess.run([cost, train, half, total], feed)[0])
"""
"""The frame of the document on overflow collection."""
OVERFLOW = """
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes(sys.argv[1])
custom_op.parameter_map["enable_dump_debug"].b = True
custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes(sys.argv[2])
"""


def run(
    python: Path, folder: Path, text: str, *arguments: str, options: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    import os

    (folder / "train.py").write_text(text)
    words = ["-m", "jumar", "run", *options, "train.py", *arguments]
    return subprocess.run(
        [str(python), *words], cwd=folder, check=False, capture_output=True, text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    )  # fmt: skip


def losses(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if line.startswith("cost")]


@pytest.mark.parametrize(
    ("mode", "operators"),
    [
        ("aicore_overflow", ["head/scaled"]),
        ("atomic_overflow", ["head/summed"]),
        ("all", ["head/scaled", "head/summed"]),
    ],
)
def test_the_sessions_code_of_the_document_finds_overflow_by_mode(
    tensorflow: Path, tmp_path: Path, mode: str, operators: list[str]
) -> None:
    (tmp_path / "dump").mkdir()
    done = run(tensorflow, tmp_path, NET + SESSION.format(lines=OVERFLOW), "dump", mode)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(losses(done.stdout)) == 3
    assert "jumar: overflow in step 0 of graph_2" in done.stderr
    (listed,) = (tmp_path / "dump").rglob("graph_2/2/0/overflow.json")
    found = json.loads(listed.read_text())["overflow"]
    assert sorted(one["name"] for one in found) == operators
    for name in operators:
        tensors = list(listed.parent.glob(f"*.{name.replace('/', '_')}.*.npy"))
        kinds = {path.name.split(".")[-3]: np.load(path) for path in tensors}
        assert not np.isfinite(kinds["output"]).all()
        assert np.isfinite(kinds["input"]).all()


def test_jumars_own_analysis_reads_the_dump(
    tensorflow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump").mkdir()
    run(tensorflow, tmp_path, NET + SESSION.format(lines=OVERFLOW), "dump", "aicore_overflow")
    main(["overflow", str(tmp_path / "dump")])
    assert "makes Inf of finite values" in capsys.readouterr().out


ESTIMATOR = """
import os, sys
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

def data():
    x = np.random.RandomState(0).rand(32, 4).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).repeat().batch(8, drop_remainder=True)

def model(features, labels, mode):
    w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
    big = tf.exp(tf.matmul(features, w) * 100.0, name="big")
    loss = tf.reduce_mean(tf.square(tf.matmul(features, w) - labels))
    loss += 0.0 * tf.stop_gradient(tf.reduce_min(tf.minimum(big, 1.0)))
    optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.01))
    manager = ExponentialUpdateLossScaleManager(init_loss_scale=1024, incr_every_n_steps=2)
    optimizer = NPULossScaleOptimizer(optimizer, manager)
    step = tf.train.get_global_step()
    return NPUEstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, global_step=step))

# the document's code
dump_config = DumpConfig(enable_dump_debug = True, dump_path = sys.argv[1], dump_debug_mode = "all" )
session_config=tf.ConfigProto()
config = NPURunConfig(
 dump_config=dump_config,
 session_config=session_config,
 graph_memory_max_size=str(26*1024 * 1024 * 1024),
 model_dir="model")
estimator = NPUEstimator(model_fn=model, config=config)
estimator.train(data, steps=4, hooks=npu_hooks_append())
print("step", estimator.get_variable_value("global_step"))
"""


def test_the_estimators_code_of_the_documents_runs(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    done = run(tensorflow, tmp_path, ESTIMATOR, "dump")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "step 4" in done.stdout
    assert "Exp big (aicore_overflow)" in done.stderr
    assert "graph_memory_max_size='27917287424'" in done.stderr.partition("without effect here:")[2].splitlines()[0]
    assert "not shown: gradients of several processes" in done.stderr
    missing = run(tensorflow, tmp_path, ESTIMATOR, "nowhere")
    assert missing.returncode == 2
    assert "it does not exist on this machine" in missing.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('custom_op.parameter_map["hcom_paralel"].b = True', "no option hcom_paralel (did you mean hcom_parallel?)"),
        ('custom_op.parameter_map["precision_mode"].i = 1', "must be set by .s (bytes), not .i"),
        ('custom_op.parameter_map["op_debug_level"].i = 7', "must be 0, 1, 2, 3, 4"),
    ],
)
def test_a_wrong_option_ends_the_script_in_a_sentence(tensorflow: Path, tmp_path: Path, line: str, words: str) -> None:
    done = run(tensorflow, tmp_path, NET + SESSION.format(lines=line))
    assert done.returncode == 2
    before, _, _ = (tmp_path / "train.py").read_text().partition("with tf.Session")
    assert f"train.py, line {before.count(chr(10)) + 1}: parameter_map" in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_the_losses_are_those_of_tensorflow_itself_and_steps_are_counted(tensorflow: Path, tmp_path: Path) -> None:
    rewriter = "from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig"
    plain = (NET + SESSION.format(lines="")).replace("import tensorflow as tf\n", "import tensorflow.compat.v1 as tf\n")
    plain = plain.replace("from npu_bridge.npu_init import *", f"tf.disable_v2_behavior()\n{rewriter}")
    (tmp_path / "plain.py").write_text(plain)
    reference = subprocess.run([str(tensorflow), "plain.py"], cwd=tmp_path, check=True, capture_output=True, text=True)
    ours = run(tensorflow, tmp_path, NET + SESSION.format(lines=""))
    assert losses(ours.stdout) == losses(reference.stdout)
    assert len(losses(ours.stdout)) == 3
    stopped = run(tensorflow, tmp_path, NET + SESSION.format(lines=""), options=("--steps", "2"))
    assert stopped.returncode == 0
    assert "stopped after 2 steps" in stopped.stderr
    assert len(losses(stopped.stdout)) == 1, "the second step is run, and the program ends in it"


def test_a_loop_on_the_device_makes_its_steps(tensorflow: Path, tmp_path: Path) -> None:
    text = NET + SESSION.format(lines='custom_op.parameter_map["iterations_per_loop"].i = 4')
    text = text.replace("    for _", "    train = set_iteration_per_loop(sess, train, 4)\n    for _").replace(
        "range(3)", "range(1)"
    )
    text += "    print('cost', sess.run(cost, feed))\n"
    looped = losses(run(tensorflow, tmp_path, text).stdout)
    plain = NET + SESSION.format(lines="").replace("range(3)", "range(4)") + "    print('cost', sess.run(cost, feed))\n"
    assert looped[-1] == losses(run(tensorflow, tmp_path, plain).stdout)[-1]


def test_tuning_is_not_claimed(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, NET + SESSION.format(lines=""), AOE_MODE="2")
    assert done.returncode == 0
    assert "tuning (AOE mode 2): nothing was tuned" in done.stderr
    assert not list(tmp_path.glob("aoe_result*"))
    static = 'custom_op.parameter_map["static_memory_policy"].i = 1'
    assert "while tuning is on" in run(tensorflow, tmp_path, NET + SESSION.format(lines=static), AOE_MODE="2").stderr


def test_the_scripts_own_end_is_kept(tensorflow: Path, tmp_path: Path) -> None:
    assert run(tensorflow, tmp_path, "import tensorflow\nraise SystemExit(7)").returncode == 7
    done = run(tensorflow, tmp_path, "import tensorflow\n1 / 0")
    assert (done.returncode, done.stderr.count("ZeroDivisionError")) == (1, 1)


DEVICE = """
import os, sys
import numpy as np
import tensorflow as tf
import npu_device as npu

npu.global_options().precision_mode = "allow_mix_precision"
if len(sys.argv) > 1:
    npu.global_options().dump_config.enable_dump_debug = True
    npu.global_options().dump_config.dump_path = sys.argv[1]
npu.open().as_default()
tf.random.set_seed(1)

class Big(tf.keras.layers.Layer):
    def call(self, x):
        return tf.math.exp(x * 200.0)

model = tf.keras.Sequential([tf.keras.layers.Dense(4, kernel_initializer="ones"), Big(), tf.keras.layers.Dense(1)])
model.compile(npu.distribute.npu_distributed_keras_optimizer_wrapper(tf.keras.optimizers.SGD(0.01)), "mse")
x = np.ones((32, 4), np.float32)
model.fit(x, x[:, :1], batch_size=8, epochs=1, verbose=0)
"""


@pytest.mark.parametrize("name", ["tensorflow", "new_tensorflow"])
def test_keras_on_npu_device_runs_and_overflow_is_found(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(name)
    (tmp_path / "dump").mkdir()
    done = run(python, tmp_path, DEVICE, "dump")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "overflow in step 0 of graph_1: Exp" in done.stderr
    assert "run eagerly while a dump is on" in done.stderr
    stopped = run(python, tmp_path, DEVICE, options=("--steps", "2"))
    assert "stopped after 2 steps under TensorFlow" in stopped.stderr
    wrong = run(python, tmp_path, DEVICE.replace("allow_mix_precision", "mixed"))
    assert "must be allow_fp32_to_fp16" in wrong.stderr
    unknown = run(python, tmp_path, DEVICE.replace(".precision_mode", ".precison_mode"))
    assert "did you mean precision_mode?" in unknown.stderr
