"""The documents' own code, each piece in a script that trains: typical cases of AOE, tuning, overflow collection."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

NET = """
import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import *

x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
out = tf.matmul(x, w, name="fc")
bad = tf.exp(out * 100.0, name="bad")
cost = tf.reduce_mean(tf.square(out - y), name="loss")
train = tf.train.GradientDescentOptimizer(0.001).minimize(cost)
"""
CASES_SESSION = 'custom_op.parameter_map["graph_memory_max_size"].s = tf.compat.as_bytes(str(26*1024 * 1024 * 1024))\n'
"""Typical cases of AOE, mode of sess.run."""
TUNING = 'custom_op.parameter_map["static_memory_policy"].i = 0\n'
"""Before tuning."""
OVERFLOW_SESSION = """
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
# dump_path
custom_op.parameter_map["dump_path"].s = tf.compat.as_bytes("/home/HwHiAiUser/output")
# enable_dump_debug
custom_op.parameter_map["enable_dump_debug"].b = True
# dump_debug_mode
custom_op.parameter_map["dump_debug_mode"].s = tf.compat.as_bytes("all")
{more}config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    feed = {{x: np.ones((2, 4)), y: np.ones((2, 1))}}
    for _ in range(3):
        sess.run([train, bad], feed)
    print(sess.run(cost, feed))
"""
CASES_ESTIMATOR = """
config = NPURunConfig(graph_memory_max_size=str(26*1024 * 1024 * 1024))
"""
OVERFLOW_ESTIMATOR = """
dump_config = DumpConfig(enable_dump_debug = True, dump_path = "/home/HwHiAiUser/output", dump_debug_mode = "all" )
session_config=tf.ConfigProto()
config = NPURunConfig(
 dump_config=dump_config,
 session_config=session_config)
"""
TRAIN_ESTIMATOR = """
def data():
    return tf.data.Dataset.from_tensors((np.ones((2, 4), "f"), np.ones((2, 1), "f"))).repeat()

def model(features, labels, mode):
    w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
    out = tf.matmul(features, w)
    loss = tf.reduce_mean(tf.square(out - labels))
    bad = tf.stop_gradient(tf.exp(out * 100.0, name="bad"))
    train = tf.train.GradientDescentOptimizer(0.001).minimize(loss, global_step=tf.train.get_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=tf.group(train, bad))

estimator = NPUEstimator(model_fn=model, config=config.replace(model_dir="model"))
estimator.train(data, steps=2)
print("trained to", estimator.get_variable_value("global_step"))
"""


def run(python: Path, folder: Path, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "output").mkdir(exist_ok=True)
    (folder / "train.py").write_text(text.replace("/home/HwHiAiUser/output", str(folder / "output")))
    return subprocess.run(
        [str(python), "-m", "jumar", "run", *options, "train.py"], cwd=folder, check=False, capture_output=True,
        text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    )  # fmt: skip


def test_the_sessions_of_the_documents(tensorflow: Path, tmp_path: Path) -> None:
    done = run(tensorflow, tmp_path, NET + OVERFLOW_SESSION.format(more=CASES_SESSION + TUNING), AOE_MODE="2")
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.splitlines()[-1]) < 9.0
    assert "in tune mode, training graph handled by tools." in done.stdout
    assert "Exp bad (aicore_overflow)" in done.stderr
    effects = done.stderr.partition("without effect here: ")[2].splitlines()[0]
    assert "parameter_map[\"graph_memory_max_size\"].s = b'27917287424'" in effects
    assert list((tmp_path / "output").rglob("Exp.bad.*.output.0.npy"))


@pytest.mark.parametrize("config", [CASES_ESTIMATOR, OVERFLOW_ESTIMATOR])
def test_the_estimators_of_the_documents(tensorflow: Path, tmp_path: Path, config: str) -> None:
    done = run(tensorflow, tmp_path, NET + config + TRAIN_ESTIMATOR)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "trained to 2" in done.stdout
    assert ("Exp bad (aicore_overflow)" in done.stderr) == ("dump_config" in config)


def test_what_the_documents_rule_out_is_refused(tensorflow: Path, tmp_path: Path) -> None:
    both = NET + OVERFLOW_SESSION.format(more='custom_op.parameter_map["enable_dump"].b = True\n')
    assert "enable_dump" in refused(run(tensorflow, tmp_path, both))
    second = NET + OVERFLOW_ESTIMATOR.replace('"all"', '"aicore_overflow"') + TRAIN_ESTIMATOR
    assert "all only" in refused(run(tensorflow, tmp_path, second, "--soc", "Ascend910B1"))
    nowhere = OVERFLOW_SESSION.format(more="").replace("HwHiAiUser/output", "HwHiAiUser/output/missing")
    assert "missing" in refused(run(tensorflow, tmp_path, NET + nowhere))


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


DUMP = """
custom_op.parameter_map["enable_dump"].b = True
custom_op.parameter_map["dump_step"].s = tf.compat.as_bytes("0|2")
custom_op.parameter_map["dump_mode"].s = tf.compat.as_bytes("{mode}")
"""


@pytest.mark.parametrize(
    ("mode", "kinds"), [("all", {"input", "output"}), ("input", {"input"}), ("output", {"output"})]
)
def test_a_dump_has_the_operators_of_the_steps_that_are_asked_for(
    tensorflow: Path, tmp_path: Path, mode: str, kinds: set[str]
) -> None:
    text = OVERFLOW_SESSION.format(more="").replace(
        'custom_op.parameter_map["enable_dump_debug"].b = True', DUMP.format(mode=mode)
    )
    done = run(tensorflow, tmp_path, NET + text.replace('custom_op.parameter_map["dump_debug_mode"]', "#"))
    assert done.returncode == 0, done.stderr[-2000:]
    (graph,) = (path for path in (tmp_path / "output").glob("*/0/graph_*/*") if list(path.rglob("Exp.bad.*")))
    assert sorted(path.name for path in graph.iterdir()) == ["0", "2"]
    files = list((graph / "2").glob("MatMul.fc.*.npy"))
    assert {path.name.split(".")[-3] for path in files} == kinds
    if mode == "all":
        (taken,) = (path for path in files if ".input.0." in path.name)
        assert np.array_equal(np.load(taken), np.ones((2, 4), "f"))
        (parameter,) = (graph / "0").glob("MatMul.fc.*.input.1.npy")
        assert np.array_equal(np.load(parameter), np.ones((4, 1), "f")), "as the step read it, not as it left it"


def test_a_precision_mode_of_an_estimator_rounds(tensorflow: Path, tmp_path: Path) -> None:
    config = OVERFLOW_ESTIMATOR.replace("session_config=session_config)", 'precision_mode="allow_mix_precision")')
    large = TRAIN_ESTIMATOR.replace('np.ones((2, 4), "f")', 'np.full((2, 4), 3e4, "f")')
    done = run(tensorflow, tmp_path, NET + config + large)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "overflow in step 0" in done.stderr
    assert "MatMul MatMul (aicore_overflow)" in done.stderr


def test_an_adapter_that_is_installed_is_used(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "there" / "npu_bridge").mkdir(parents=True)
    (tmp_path / "there" / "npu_bridge" / "__init__.py").write_text("")
    (tmp_path / "there" / "npu_bridge" / "npu_init.py").write_text("print('the real one')\n")
    text = "import tensorflow as tf\nfrom npu_bridge.npu_init import *\nassert not hasattr(tf, 'Session')\n"
    done = run(tensorflow, tmp_path, text, PYTHONPATH=str(tmp_path / "there"))
    assert (done.returncode, done.stdout) == (0, "the real one\n")
    assert "npu_bridge of this environment is used" in done.stderr
