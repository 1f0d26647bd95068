"""What `jumar record` costs a MindSpore training step: `python benchmarks/mindspore/recording.py --mindspore PYTHON`.

A transformer (4 blocks of width 128, batch 8, 64 tokens) and a ResNet-like network (batch 4, 16x16 pictures) train in
PyNative mode, plain and recorded, in turns. Time of a step (MindSpore's threads spin, so that processor time tells
nothing), median of the later half of the steps; the ratio to the plain run of the same round. Writes `recording.json`
beside it. About 4 minutes on two cores.
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
STEPS, ROUNDS = 8, 3
WAYS = {
    "plain": [],
    "modules, statistics": ["--level", "module", "--values", "stats"],
    "statistics": ["--values", "stats"],
    "sketches": ["--values", "sketch"],
    "whole tensors": ["--values", "tensors"],
}
SCRIPT = """
import sys, time
import numpy as np, mindspore as ms
from mindspore import Tensor, nn, ops

class Block(nn.Cell):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((dim,)), nn.LayerNorm((dim,))
        self.q, self.k, self.v, self.o = (nn.Dense(dim, dim) for _ in range(4))
        self.up, self.act, self.down = nn.Dense(dim, 4 * dim), nn.GELU(), nn.Dense(4 * dim, dim)
        self.softmax = nn.Softmax()
    def construct(self, x):
        h = self.norm1(x)
        x = x + self.o(ops.matmul(self.softmax(ops.matmul(self.q(h), self.k(h).swapaxes(1, 2)) * 0.1), self.v(h)))
        return x + self.down(self.act(self.up(self.norm2(x))))

class Transformer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(500, 128), nn.Dense(128, 500)
        self.blocks = nn.SequentialCell([Block(128) for _ in range(4)])
    def construct(self, x):
        return self.head(self.blocks(self.table(x))).reshape(-1, 500)

class Convolutions(nn.Cell):
    def __init__(self):
        super().__init__()
        layers, width = [], 3
        for outside in (32, 32, 64, 64):
            layers += [nn.Conv2d(width, outside, 3), nn.BatchNorm2d(outside), nn.ReLU()]
            width = outside
        self.layers, self.head = nn.SequentialCell(layers), nn.Dense(64, 10)
    def construct(self, x):
        return self.head(self.layers(x).mean((2, 3)))

np.random.seed(0)
if sys.argv[1] == "transformer":
    net, x, y = Transformer(), np.random.randint(0, 500, (8, 64)), np.random.randint(0, 500, 512)
else:
    net, x, y = Convolutions(), np.random.randn(4, 3, 16, 16).astype(np.float32), np.random.randint(0, 10, 4)
x, y = Tensor(x if x.dtype == np.float32 else x.astype(np.int32)), Tensor(y.astype(np.int32))
optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), optimizer).set_train()
times = []
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    train(x, y).asnumpy()
    times.append(time.perf_counter() - began)
print("TIMES", *times)
"""


def step_s(python, folder, network, options):
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = [str(script), network, str(STEPS)]
    command = [python, *words]
    if options:
        command = [
            python,
            "-m",
            "jumar",
            "record",
            "--force",
            "-o",
            str(folder / "out"),
            "--device",
            "cpu",
            *options,
            *words,
        ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOG_v": "3"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    times = next(line for line in done.stdout.splitlines() if line.startswith("TIMES")).split()[1:]
    return statistics.median(map(float, times[STEPS // 2 :]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mindspore", required=True, metavar="PYTHON")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for network in ("transformer", "convolutions"):
            rounds = [{way: step_s(options.mindspore, Path(name), network, words) for way, words in WAYS.items()}
                      for _ in range(ROUNDS)]  # fmt: skip
            found[network] = {
                way: {
                    "milliseconds": round(1e3 * statistics.median(one[way] for one in rounds), 1),
                    "ratio": sorted(round(one[way] / one["plain"], 2) for one in rounds),
                }
                for way in WAYS
            }
            sys.stderr.write(f"{network}: {found[network]}\n")
    about = {"python": platform.python_version(), "processor": platform.machine(), "steps": STEPS, "rounds": ROUNDS}
    (HERE / "recording.json").write_text(json.dumps({"about": about, "networks": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
