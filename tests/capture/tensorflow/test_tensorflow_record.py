"""`jumar record` and `overflow` of TensorFlow scripts, with TensorFlow itself in environments of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from jumar.recording import CallRow, Recording

pytestmark = pytest.mark.slow

NET = """
import numpy as np, tensorflow as tf
tf.keras.utils.set_random_seed(0)
random = np.random.RandomState(0)
x, y = random.randn(12, 6, 6, 2).astype("float32"), random.randint(0, 3, 12)

class Block(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.conv = tf.keras.layers.Conv2D(4, 3, padding="same")
        self.norm = tf.keras.layers.BatchNormalization()

    def call(self, x, training=None):
        return tf.nn.relu(self.norm(self.conv(x), training=training))

class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block()]
        self.flat, self.fc = tf.keras.layers.Flatten(), tf.keras.layers.Dense(3)

    def call(self, x, training=None):
        for block in self.blocks:
            x = block(x, training=training)
        return self.fc(self.flat(x))

net = Net()
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
FIT = """
net.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss_of)
net.fit(x, y, batch_size=4, shuffle=False, verbose=0, validation_data=(x, y))
"""
LOOP = """
net(x[:1])
optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
{decorated}
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, net(x, training=True))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss
for place in range(0, 12, 4):
    print(step(tf.constant(x[place:place + 4]), tf.constant(y[place:place + 4])).numpy().tobytes().hex())
    net.predict(x, verbose=0)
"""
SESSION = """
import numpy as np, tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
random = np.random.RandomState(0)
x, y = tf.placeholder(tf.float32, [None, 6, 6, 2]), tf.placeholder(tf.int64, [None])
def variable(name, *shape):
    return tf.get_variable(name, initializer=tf.constant(random.randn(*shape).astype("float32") * 0.1))
with tf.variable_scope("conv"):
    h = tf.nn.relu(tf.nn.conv2d(x, variable("kernel", 3, 3, 2, 4), [1, 1, 1, 1], "SAME") + variable("bias", 4))
with tf.variable_scope("fc"):
    logits = tf.matmul(tf.reshape(h, [-1, 144]), variable("kernel", 144, 3)) + variable("bias", 3)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
train = tf.train.AdamOptimizer(0.01).minimize(loss)
feed = {x: random.randn(4, 6, 6, 2), y: random.randint(0, 3, 4)}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        print(np.float32(session.run([train, loss], feed)[1]).tobytes().hex())
    session.run(loss, feed)
"""
ESTIMATOR = """
import numpy as np, tempfile, tensorflow.compat.v1 as tf
def model_fn(features, labels, mode):
    h = tf.layers.dense(features["x"], 16, activation=tf.nn.relu, name="d1")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.layers.dense(h, 4, name="d2"))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
def input_fn():
    random = np.random.RandomState(0)
    rows = {"x": random.randn(32, 8).astype("float32")}, random.randint(0, 4, 32)
    return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(8)
tf.estimator.Estimator(model_fn, tempfile.mkdtemp()).train(input_fn, steps=3)
"""
BLOCK = (".conv:Conv2D", ".norm:BatchNormalization", ":Block")


@pytest.fixture(params=["tensorflow", "new_tensorflow"])
def python(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def jumar(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [str(python), "-m", "jumar", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def recorded(python: Path, folder: Path, body: str, *words: str, name: str = "out") -> tuple[Recording, str]:
    (folder / "train.py").write_text(body)
    done = jumar(python, folder, "record", "-o", name, *words, "train.py")
    assert done.returncode == 0, done.stderr
    return Recording.open(folder / name), done.stdout


def rows_of(recording: Recording, kind: str, phase: str = "forward", step: int = 0) -> dict[str, CallRow]:
    return {
        f"{row.module_path}:{row.name}": row for row in recording.rows(step) if (row.kind, row.phase) == (kind, phase)
    }


@pytest.mark.parametrize("body", [FIT, LOOP.format(decorated=""), LOOP.format(decorated="@tf.function")])
def test_modules_gradients_parameters_and_losses_are_recorded(python: Path, tmp_path: Path, body: str) -> None:
    recording, _ = recorded(python, tmp_path, NET + body)
    assert recording.info.framework == "tensorflow"
    assert recording.ends[0].num_steps == 3
    for step in range(3):
        modules = rows_of(recording, "module", step=step)
        assert list(modules) == [
            *(f"blocks.{place}{name}" for place in (0, 1) for name in BLOCK),
            "flat:Flatten", "fc:Dense", ":Net",
        ]  # fmt: skip
        assert modules["blocks.1.conv:Conv2D"].source == "train.py:14"
        assert modules["blocks.0.conv:Conv2D"].inputs[0].shape == (4, 2, 6, 6)
        backward = rows_of(recording, "module", "backward", step)
        assert set(backward) == set(modules)
        assert backward["blocks.1:Block"].outputs[0].l2 == pytest.approx(backward["blocks.1.conv:Conv2D"].outputs[0].l2)
        parameters = rows_of(recording, "parameter", "optimizer", step)
        assert parameters["blocks.0.conv:kernel"].inputs[0].shape == (4, 2, 3, 3)
        assert parameters["fc:kernel"].outputs[0].shape == (3, 144)
        assert set(parameters) == {"fc:kernel", "fc:bias"} | {
            f"blocks.{place}.{name}"
            for place in (0, 1)
            for name in ("conv:kernel", "conv:bias", "norm:gamma", "norm:beta")
        }
        losses = [row for row in recording.rows(step) if row.kind == "loss"]
        assert len(losses) == 1
        assert losses[0].outputs[0].shape == ()
    optimizer = next(row for row in recording.rows(0) if row.kind == "optimizer")
    assert '"learning_rate": [0.1]' in optimizer.arguments
    assert recording.info.layers["blocks.0.conv"]["padding"] == "same"


@pytest.mark.parametrize(
    ("name", "body"), [("tensorflow", SESSION), ("new_tensorflow", NET + LOOP.format(decorated=""))]
)
def test_the_losses_of_a_program_stay_bit_by_bit(
    name: str, body: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    python = request.getfixturevalue(name)
    _, out = recorded(python, tmp_path, body)
    (tmp_path / "plain.py").write_text(body)
    plain = subprocess.run([python, "plain.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert out.split() == plain.stdout.split()


def test_a_session_is_recorded_by_name_scopes(python: Path, tmp_path: Path) -> None:
    recording, _ = recorded(python, tmp_path, SESSION)
    assert recording.ends[0].num_steps == 3
    modules = rows_of(recording, "module")
    assert modules["conv:Conv2D"].inputs[0].shape == (4, 2, 6, 6)
    assert modules["conv:Conv2D"].source == "train.py:9"
    assert modules["fc:Dense"].outputs[0].shape == (4, 3)
    backward = rows_of(recording, "module", "backward")
    assert backward["fc:Dense"].outputs[0].shape == (4, 4, 6, 6)
    parameters = rows_of(recording, "parameter", "optimizer")
    assert parameters["conv:kernel"].inputs[0].shape == (4, 2, 3, 3)
    assert parameters["fc:kernel"].outputs[0].shape == (3, 144)
    optimizer = next(row for row in recording.rows(0) if row.kind == "optimizer")
    assert optimizer.name == "Adam"
    assert '"learning_rate": [0.01]' in optimizer.arguments


def test_an_estimator_is_recorded(tensorflow: Path, tmp_path: Path) -> None:
    recording, _ = recorded(tensorflow, tmp_path, ESTIMATOR)
    assert recording.ends[0].num_steps == 3
    assert {"d1:Dense", "d2:Dense"} <= set(rows_of(recording, "module"))
    assert set(rows_of(recording, "parameter", "optimizer")) == {"d1:kernel", "d1:bias", "d2:kernel", "d2:bias"}


def test_flattened_images_are_in_the_order_of_channels_first(tensorflow: Path, tmp_path: Path) -> None:
    body = NET + FIT + "np.savez('after.npz', kernel=net.fc.kernel.numpy(), conv=net.blocks[0].conv.kernel.numpy())\n"
    recording, _ = recorded(tensorflow, tmp_path, body, "--values", "tensors")
    kept = np.load(tmp_path / "after.npz")
    row = rows_of(recording, "parameter", "optimizer", step=2)["fc:kernel"]
    kernel = recording.tensors(row)["output.0"]
    assert np.array_equal(kernel, kept["kernel"].reshape(6, 6, 4, 3).transpose(3, 2, 0, 1).reshape(3, 144))
    modules = rows_of(recording, "module")
    kept_of = recording.tensors(modules["flat:Flatten"])
    assert np.array_equal(kept_of["input.0"].reshape(4, -1), kept_of["output.0"])


def test_loss_scales_and_skipped_updates_are_recorded(python: Path, tmp_path: Path) -> None:
    body = NET + (
        "x[4:8] = np.inf\n"
        "optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01))\n"
        "net.compile(optimizer, loss_of)\nnet.fit(x, y, batch_size=4, shuffle=False, verbose=0)\n"
    )
    recording, _ = recorded(python, tmp_path, body)
    infos = [recording.step_info(step) for step in range(3)]
    assert [info.skipped for info in infos] == [False, True, False]
    assert infos[0].loss_scale == 32768.0
    assert not [row for row in recording.rows(1) if row.kind == "optimizer"]


def test_overflow_names_the_operator(python: Path, tmp_path: Path) -> None:
    body = NET + LOOP.format(decorated="@tf.function").replace("loss = loss_of", "loss = tf.sqrt(-1.0) + loss_of")
    (tmp_path / "train.py").write_text(body)
    done = jumar(python, tmp_path, "overflow", "train.py")
    assert "tf::Sqrt" in done.stdout, done.stderr
    assert "train.py:35" in done.stdout


def test_a_program_without_training_is_recorded(python: Path, tmp_path: Path) -> None:
    recording, _ = recorded(python, tmp_path, NET + "for place in range(3): net(x[place:place + 1])\n")
    assert recording.ends[0].num_steps == 3


def test_steps_end_the_run_and_an_error_keeps_what_was_seen(tensorflow: Path, tmp_path: Path) -> None:
    recording, _ = recorded(tensorflow, tmp_path, NET + FIT, "--steps", "1:2")
    assert recording.steps() == [1]
    assert recording.ends[0].status == "stopped"
    (tmp_path / "train.py").write_text(NET + FIT + "raise ValueError('planted')\n")
    done = jumar(tensorflow, tmp_path, "record", "-o", "raised", "train.py")
    assert done.returncode == 2
    assert Recording.open(tmp_path / "raised").ends[0].status == "raised"


def test_a_killed_run_keeps_its_finished_steps(tensorflow: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NET + FIT + "import time\nprint('done', flush=True)\ntime.sleep(100)\n")
    command = [str(tensorflow), "-m", "jumar", "record", "-o", "out", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        assert b"done" in running.stdout.readline()
        time.sleep(0.1)
        running.send_signal(signal.SIGKILL)
    assert Recording.open(tmp_path / "out").steps() == [0, 1, 2]


def test_a_fault_of_the_observer_does_not_reach_the_program(tensorflow: Path, tmp_path: Path) -> None:
    body = (
        "import jumar.capture.frameworks.notebook as own\n"
        "def broken(array):\n    raise ZeroDivisionError('planted')\n"
        "own.statistics = broken\n" + NET + LOOP.format(decorated="")
    )
    recording, out = recorded(tensorflow, tmp_path, body)
    assert len(out.split()) == 3
    assert any("ZeroDivisionError: planted" in one for one in recording.ends[0].not_covered)
