"""`jumar run` on programs of other kinds: Keras of TensorFlow 1, monitored sessions, started processes, submodules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIG = """
import os, sys
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

sess_config = tf.ConfigProto()
custom_op = sess_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes("dump")
custom_op.parameter_map["enable_dump_debug"].b = True
sess_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
sess_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
"""
KERAS = """
from tensorflow.keras import backend as K
from tensorflow.train import AdamOptimizer
K.set_session(tf.Session(config=sess_config))
model = tf.keras.Sequential([
    tf.keras.layers.Dense(4, input_shape=(3,), kernel_initializer="ones"),
    tf.keras.layers.Lambda(lambda t: tf.exp(t * 1000.0), name="big"), tf.keras.layers.Dense(1),
])
model.compile(optimizer=npu_keras_optimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")
model.fit(np.ones((32, 3)), np.ones((32, 1)), batch_size=8, verbose=0, callbacks=npu_callbacks_append([]))
"""
MONITORED = """
from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer
from npu_bridge.estimator.npu.npu_hook import NPUBroadcastGlobalVariablesHook
from npu_bridge.hccl import hccl_ops
from npu_bridge.estimator import npu_ops
from hccl.manage.api import get_rank_id, get_rank_size, get_local_rank_id

assert (get_rank_size(), get_rank_id(), get_local_rank_id()) == (1, 0, 0)
x, w = tf.constant(np.ones((4, 3), "f")), tf.get_variable("w", [3, 1])
loss = tf.reduce_mean(tf.square(npu_ops.dropout(tf.matmul(x, w), 1.0) - 1)) + 0 * hccl_ops.allreduce(w, "sum")[0, 0]
step = tf.train.get_or_create_global_step()
optimizer = NPUDistributedOptimizer(tf.train.AdamOptimizer(0.01), is_weight_update_sharding=False)
manager = FixLossScaleManager(loss_scale=128)
optimizer = NPUOptimizer(optimizer, manager, is_loss_scale=True, is_tailing_optimization=True)
train = optimizer.minimize(loss, global_step=step)
hooks = [tf.train.StopAtStepHook(last_step=5), NPUBroadcastGlobalVariablesHook(0, int(os.getenv("RANK_ID", "0")))]
with tf.train.MonitoredTrainingSession(config=npu_config_proto(config_proto=sess_config), hooks=hooks) as session:
    losses = []
    while not session.should_stop():
        losses.append(session.run([train, loss])[1])
assert losses == sorted(losses, reverse=True), losses
print("steps", len(losses))
"""
PARENT = """
import subprocess, sys
import tensorflow
print("child ended with", subprocess.run([sys.executable, "child.py"]).returncode, flush=True)
"""


def run(python: Path, folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "dump").mkdir(exist_ok=True)
    (folder / "train.py").write_text(text)
    return subprocess.run(
        [str(python), "-m", "jumar", "run", *options, "train.py"], cwd=folder, check=False, capture_output=True,
        text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )  # fmt: skip


def test_keras_of_tensorflow_1_runs_in_the_session_for_the_npu(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, CONFIG + KERAS, "--steps", "3")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Exp big/Exp (aicore_overflow)" in done.stderr
    assert "stopped after 3 steps" in done.stderr


def test_a_monitored_session_trains_with_the_names_of_the_submodules(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, CONFIG + MONITORED)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "steps 5" in done.stdout
    assert "jumar: no overflow (all)" in done.stderr


def test_processes_that_a_program_starts_are_watched(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CONFIG + KERAS)
    done = run(tensorflow, tmp_path, PARENT)
    assert "child ended with 0" in done.stdout, done.stderr[-2000:]
    assert "Exp big/Exp (aicore_overflow)" in done.stderr
    (tmp_path / "child.py").write_text((CONFIG + KERAS).replace("use_off_line", "use_ofline"))
    done = run(tensorflow, tmp_path, PARENT)
    assert "child ended with 1" in done.stdout
    assert "did you mean use_off_line?" in done.stderr


CONTROL_FLOW = """
t = tf.placeholder_with_default(True, [])
x = tf.placeholder(tf.float32, [None, 8, 8, 3])
h = tf.layers.batch_normalization(tf.layers.conv2d(x, 4, 3, name="conv"), training=t)
outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(5), tf.reshape(h, [-1, 6, 24]), dtype=tf.float32)
loss = tf.reduce_mean(tf.square(tf.layers.dense(outputs[:, -1], 1, name="last")))
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
big = tf.exp(1000.0 * (1.0 + loss), name="after")
custom_op.parameter_map["precision_mode"].s = b"allow_mix_precision"
with tf.Session(config=sess_config) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run([loss, train, big], {x: np.random.rand(4, 8, 8, 3)})
"""


def test_loops_and_conditions_of_a_graph_are_left_out_and_said(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, CONFIG + CONTROL_FLOW, "--steps", "3")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Exp after (aicore_overflow)" in done.stderr
    assert "not shown: operators inside loops and conditions of a graph, in dumps and overflow" in done.stderr
    assert "not shown: rounding of matrix operators inside loops" in done.stderr
    assert "stopped after 3 steps" in done.stderr


LOOP = """
import sys
import numpy as np
import tensorflow as tf
import npu_device as npu

if "dump" in sys.argv:
    npu.global_options().dump_config.enable_dump_debug = True
    npu.global_options().dump_config.dump_path = "dump"
npu.open().as_default()
w = tf.Variable(np.ones((4, 1), "f"))
kinds = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers) if "legacy" in sys.argv else tf.keras.optimizers
optimizer = kinds.SGD(0.001)

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    tf.exp(loss * 100.0)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])

step = tf.function(step) if "function" in sys.argv else step
for number in range(6):
    step(tf.ones((2, 4)))
    print("step", number)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tensorflow", ["function"]),
        ("tensorflow", ["legacy", "function", "dump"]),
        ("new_tensorflow", ["function"]),
        ("new_tensorflow", ["eager", "dump"]),
    ],
)
def test_loops_that_a_program_writes_itself_have_steps(
    name: str, words: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(name)
    text = LOOP.replace("import sys", f"import sys; sys.argv += {words}")
    done = run(python, tmp_path, text, "--steps", "3")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "stopped after 3 steps" in done.stderr
    assert done.stdout.splitlines() == ["step 0", "step 1"]
    assert ("overflow in step 0 of graph_1: Exp" in done.stderr) == ("dump" in words)


COMPAT = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from npu_bridge.npu_init import *

x = tf.placeholder(tf.float32, [2, 2])
y = tf.matmul(x, x)
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["precision_mode"].s = b"force_fp16"
with tf.Session(config=config) as session:
    print(session.run(y, {x: [[300.0, 0.0], [0.0, 1.0]]}).tolist())
"""


@pytest.mark.parametrize("name", ["tensorflow", "new_tensorflow"])
def test_sessions_run_under_both_tensorflows(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    done = run(request.getfixturevalue(name), tmp_path, COMPAT)
    assert (done.returncode, done.stdout) == (0, "[[inf, 0.0], [0.0, 1.0]]\n"), done.stderr[-2000:]


ESTIMATOR = """
import numpy as np
import tensorflow as tf
from npu_bridge.estimator.npu.npu_config import NPURunConfig, ProfilingConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator, NPUEstimatorSpec
from npu_bridge.npu_init import *

def data():
    return tf.data.Dataset.from_tensors((np.ones((8, 4), "f"), np.ones((8, 1), "f"))).repeat(20)

def model(features, labels, mode, params):
    out = tf.layers.dense(features, params["width"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return NPUEstimatorSpec(mode, predictions={"out": out})
    loss = tf.losses.mean_squared_error(labels, out)
    if mode == tf.estimator.ModeKeys.EVAL:
        return NPUEstimatorSpec(mode, loss=loss)
    optimizer = npu_distributed_optimizer_wrapper(tf.train.AdamOptimizer(0.01))
    train = optimizer.minimize(loss, tf.train.get_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=train, host_call=(lambda x: x, [loss]))

config = NPURunConfig(
    hcom_parallel=True, iterations_per_loop=10, precision_mode="allow_mix_precision", model_dir="model",
    profiling_config=ProfilingConfig(enable_profiling=False),
)
estimator = NPUEstimator(model_fn=model, config=config, params={"width": 1}, job_start_file="")
tf.estimator.train_and_evaluate(
    estimator, tf.estimator.TrainSpec(data, max_steps=20), tf.estimator.EvalSpec(data, steps=2, throttle_secs=0)
)
print("steps", estimator.evaluate(data, steps=2)["global_step"], next(estimator.predict(data))["out"].shape)
"""


def test_an_estimator_trains_evaluates_and_predicts(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, ESTIMATOR)
    assert done.stdout == "steps 20 (1,)\n", done.stderr[-2000:]
    assert (
        "without effect here: enable_profiling=False, hcom_parallel=True, NPUEstimatorSpec(host_call=…)\n"
        in done.stderr
    )
