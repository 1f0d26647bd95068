"""What `jumar record` costs a TensorFlow step: `python benchmarks/tensorflow/recording.py --tensorflow PYTHON`.

A transformer (4 blocks of width 128, batch 8, 64 tokens) and a stack of convolutions (batch 4, 16x16 pictures) train
in an eager loop and by Keras' `fit`, plain and recorded, in turns. The recorder runs functions eagerly, so `fit` is
compared with itself as a function. Time of a step on the clock, median of the later half of the steps; the ratio to
the plain run of the same round. Writes `recording.json` beside it. About 8 minutes on two cores.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS, ROUNDS = 10, 3
WAYS = {
    "plain": [],
    "modules, statistics": ["--level", "module", "--values", "stats"],
    "statistics": ["--values", "stats"],
    "sketches": ["--values", "sketch"],
    "whole tensors": ["--values", "tensors"],
}
SCRIPT = """
import sys, time
import numpy as np, tensorflow as tf
from tensorflow.keras import layers

class Block(layers.Layer):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.q, self.k, self.v, self.o = (layers.Dense(dim) for _ in range(4))
        self.up, self.down = layers.Dense(4 * dim, activation="gelu"), layers.Dense(dim)
    def call(self, x):
        h = self.norm1(x)
        weights = tf.nn.softmax(tf.matmul(self.q(h), self.k(h), transpose_b=True) * 0.1)
        x = x + self.o(tf.matmul(weights, self.v(h)))
        return x + self.down(self.up(self.norm2(x)))

tf.keras.utils.set_random_seed(0)
steps = int(sys.argv[3])
if sys.argv[1] == "transformer":
    model = tf.keras.Sequential([layers.Embedding(500, 128), *(Block(128) for _ in range(4)), layers.Dense(500)])
    x, y = np.random.randint(0, 500, (8, 64)), np.random.randint(0, 500, (8, 64))
else:
    body = []
    for width in (32, 32, 64, 64):
        body += [layers.Conv2D(width, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]
    model = tf.keras.Sequential([*body, layers.GlobalAveragePooling2D(), layers.Dense(10)])
    x, y = np.random.randn(4, 16, 16, 3).astype(np.float32), np.random.randint(0, 10, 4)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
times = []
if sys.argv[2] == "fit":
    class Clock(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None): self.began = time.perf_counter()
        def on_train_batch_end(self, batch, logs=None): times.append(time.perf_counter() - self.began)
    model.compile(optimizer, loss)
    model.fit(np.concatenate([x] * steps), np.concatenate([y] * steps), len(x), verbose=0, shuffle=False,
              callbacks=[Clock()])
else:
    x, y = tf.constant(x), tf.constant(y)
    for _ in range(steps):
        began = time.perf_counter()
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
        value.numpy()
        times.append(time.perf_counter() - began)
print("TIMES", *times)
"""


def step_s(python, folder, network, style, options):
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = [str(script), network, style, str(STEPS)]
    record = ["-m", "jumar", "record", "--force", "-o", str(folder / "out"), "--device", "cpu", *options]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python, *(record if options else []), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    times = next(line for line in done.stdout.splitlines() if line.startswith("TIMES")).split()[1:]
    return statistics.median(map(float, times[STEPS // 2 :]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", required=True, metavar="PYTHON")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for network in ("transformer", "convolutions"):
            for style in ("loop", "fit"):
                rounds = [
                    {way: step_s(options.tensorflow, Path(name), network, style, words) for way, words in WAYS.items()}
                    for _ in range(ROUNDS)
                ]
                one = found[f"{network}, {style}"] = {
                    way: {
                        "milliseconds": round(1e3 * statistics.median(one[way] for one in rounds), 1),
                        "ratio": sorted(round(one[way] / one["plain"], 2) for one in rounds),
                    }
                    for way in WAYS
                }
                sys.stderr.write(f"{network}, {style}: {one}\n")
    code = "import tensorflow; print(tensorflow.__version__)"
    version = subprocess.run([options.tensorflow, "-c", code], check=True, capture_output=True, text=True).stdout
    about = {
        "tensorflow": version.strip(),
        "python": platform.python_version(),
        "processor": platform.machine(),
        "steps": STEPS,
        "rounds": ROUNDS,
    }
    (HERE / "recording.json").write_text(json.dumps({"about": about, "networks": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
