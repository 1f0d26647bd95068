"""Writes the dumps beside it, with MindSpore 2.10.0 on the CPU: `python make.py DIR graph|pynative [LEARNING_RATE]`.

graph.zip: graph mode, learning rate 0.1. graph_lr.zip: 0.5. pynative.zip: PyNative mode.
"""

import json
import os
import sys
from pathlib import Path

out, mode = Path(sys.argv[1]).absolute(), sys.argv[2]
out.mkdir(parents=True, exist_ok=True)
common = {
    "op_debug_mode": 0, "dump_mode": 0, "path": str(out), "net_name": "Net", "iteration": "all",
    "saved_data": "tensor", "input_output": 0, "kernels": [], "support_device": [0],
}  # fmt: skip
settings = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}
(out / "config.json").write_text(json.dumps(settings))
os.environ["MINDSPORE_DUMP_CONFIG"] = str(out / "config.json")

import mindspore as ms  # noqa: E402 - it reads the variable when it is imported
import numpy as np  # noqa: E402
from mindspore import Tensor, nn  # noqa: E402

ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE, device_target="CPU")


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc, self.relu, self.out = nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2)

    def construct(self, x):
        return self.out(self.relu(self.fc(x)))


ms.set_seed(0)
net = Net()
np.random.seed(0)
for parameter in net.get_parameters():
    parameter.set_data(Tensor(np.random.randn(*parameter.shape).astype(np.float32)))
rate = float(sys.argv[3]) if len(sys.argv) > 3 else 0.1
optimizer = nn.Momentum(net.trainable_params(), rate, 0.9)
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train()
for step in (1, 2):
    print(train(Tensor(np.full((2, 3), step, np.float32)), Tensor(np.zeros((2, 2), np.float32))))
