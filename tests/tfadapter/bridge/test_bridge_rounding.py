"""Matrix operators in the type of a precision mode: in sessions, eager code, functions and their gradients."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SESSION = """
import sys
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

r = np.random.RandomState(0)
# Products and sums of these are exact in float32, in any order; float16 rounds the last bit away.
exact = lambda *shape: (r.randint(1, 64, shape) * r.choice([-1, 1], shape) / 64 * (1 + 2.0**-13)).astype("f")
x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.float32, [None, 1])
first, second = exact(64, 64), exact(64, 1)
w, v = tf.get_variable("w", initializer=first), tf.get_variable("v", initializer=second)
middle = tf.matmul(x, w, name="fc1")
out = tf.matmul(tf.nn.relu(middle), v, name="fc2")
cost = tf.reduce_mean(tf.square(out - y))
gradient = tf.gradients(cost, w)[0]
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(sys.argv[1])
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes("dump")
custom_op.parameter_map["enable_dump_debug"].b = True
half = lambda a: a.astype(np.float16).astype(np.float32)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    value = exact(8, 64)
    fetched = sess.run({"named": "fc1:0", "list": [out, gradient]}, {x: value, y: np.ones((8, 1))})
    later = sess.run(tf.matmul(middle, w), {x: value})
    huge = sess.run(middle, {x: value * 30000})
m = half(half(value) @ half(first))
o = half(half(np.maximum(m, 0)) @ half(second))
g = half(half(half((o - 1) / 4) @ half(second).T) * (m > 0))
print("RESULT", [
    np.array_equal(fetched["named"], m), np.array_equal(fetched["list"][0], o),
    np.allclose(fetched["list"][1], half(value).T @ g, rtol=2e-3, atol=1e-2),
    np.array_equal(later, half(m @ half(first))), float(np.abs(huge).max()),
])
"""


def run(python: Path, folder: Path, text: str, *words: str) -> tuple[str, str]:
    (folder / "train.py").write_text(text)
    done = subprocess.run(
        [str(python), "-m", "jumar", "run", *words], cwd=folder, check=False, capture_output=True, text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.partition("RESULT ")[2].strip(), done.stderr


def test_matrix_operators_of_a_session_take_and_give_float16(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    result, error = run(tensorflow, tmp_path, SESSION, "train.py", "allow_fp32_to_fp16")
    assert result == "[True, True, True, True, inf]"
    assert "MatMul fc1 (aicore_overflow)" in error
    assert "without effect here" not in error
    assert "only matrix operators are rounded" in error
    (output,) = (tmp_path / "dump").rglob("MatMul.fc1.*.output.0.npy")
    assert np.load(output).dtype == np.float16
    (listed,) = (tmp_path / "dump").rglob("overflow.json")
    assert json.loads(listed.read_text())["overflow"][0]["name"] == "fc1"


def test_the_first_chips_saturate_and_the_overflow_is_found(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    words = ("--soc", "Ascend910A", "train.py", "force_fp16")
    result, error = run(tensorflow, tmp_path, SESSION, *words)
    assert result == "[True, True, True, True, 65504.0]"
    assert "MatMul fc1 (aicore_overflow)" in error


def test_modes_that_keep_the_type_round_nothing(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    result, error = run(tensorflow, tmp_path, SESSION, "train.py", "must_keep_origin_dtype")
    assert result.startswith("[False, False,")
    assert "jumar: no overflow (all)" in error


DEVICE = """
import sys
import numpy as np
import tensorflow as tf
import npu_device as npu

npu.global_options().precision_mode = sys.argv[1]
if len(sys.argv) > 2:
    npu.global_options().dump_config.enable_dump_debug = True
    npu.global_options().dump_config.dump_path = sys.argv[2]
npu.open().as_default()
r = np.random.RandomState(0)
# Products and sums of these are exact in float32, in any order; float16 rounds the last bit away.
exact = lambda *shape: (r.randint(1, 64, shape) * r.choice([-1, 1], shape) / 64 * (1 + 2.0**-13)).astype("f")
half = lambda a: a.astype(np.float16).astype(np.float32)
value, first = exact(8, 64), exact(64, 64)
w = tf.Variable(first)
expected = half(half(value) @ half(first))
product = lambda x: tf.matmul(x, w)

def slope(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(product(x)))
    return tape.gradient(loss, w)

image, kernel = r.randn(2, 8, 8, 3).astype("f"), r.randn(3, 3, 3, 4).astype("f")
print("RESULT", [
    np.array_equal(product(value), expected), np.array_equal(tf.function(product)(value), expected),
    np.array_equal(slope(value), half(half(value.T) @ half(expected / 256))),
    np.array_equal(tf.function(slope)(value), slope(value)),
    np.array_equal(tf.nn.conv2d(image, kernel, 1, "SAME"), half(np.asarray(
        tf.raw_ops.Conv2D(input=half(image), filter=half(kernel), strides=[1, 1, 1, 1], padding="SAME")))),
])
model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", name="wide")])
model.compile("sgd", "mse")
model.fit(np.full((8, 64), 2000.0, "f"), np.ones((8, 1), "f"), batch_size=8, verbose=0)
"""


@pytest.mark.parametrize("name", ["tensorflow", "new_tensorflow"])
def test_matrix_operators_on_npu_device_round_with_their_gradients(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(name)
    (tmp_path / "dump").mkdir()
    result, error = run(python, tmp_path, DEVICE, "train.py", "allow_mix_precision", "dump")
    assert result == "[True, True, True, True, True]"
    assert "overflow in step 0 of graph_1: MatMul" in error
    (output,) = (tmp_path / "dump").rglob("MatMul.*.output.0.npy")
    assert np.load(output).dtype == np.float16


KEPT = """
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *
from npu_bridge.estimator.npu.npu_scope import keep_dtype_scope

x = tf.constant(np.full((2, 4), 3e4, "f"))
with npu_scope.keep_dtype_scope():
    kept = tf.matmul(x, x, transpose_b=True)
rounded = tf.matmul(x, x, transpose_b=True)
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["precision_mode"].s = b"force_fp16"
npu_plugin.set_device_sat_mode(0)
with tf.Session(config=npu_config_proto(config)) as session:
    print("RESULT", [float(one[0, 0]) for one in session.run([kept, rounded])])
"""


def test_operators_keep_their_type_and_the_mode_of_overflow_is_followed(tensorflow: Path, tmp_path: Path) -> None:
    assert run(tensorflow, tmp_path, KEPT, "train.py")[0] == "[3600000000.0, 65504.0]"
    assert run(tensorflow, tmp_path, KEPT.replace("mode(0)", "mode(1)"), "train.py")[0] == "[3600000000.0, inf]"
    device = DEVICE.partition("r = np")[0] + (
        "npu.npu_device.set_device_sat_mode(0)\nx = tf.fill((2, 4), 3e4)\n"
        "product = lambda: tf.matmul(x, x, transpose_b=True)\n"
        "with npu.keep_dtype_scope():\n    kept = product()\n"
        'print("RESULT", [float(kept[0, 0]), float(product()[0, 0]), float(tf.function(product)()[0, 0])])\n'
    )
    assert run(tensorflow, tmp_path, device, "train.py", "allow_mix_precision")[0] == "[3600000000.0, 65504.0, 65504.0]"
