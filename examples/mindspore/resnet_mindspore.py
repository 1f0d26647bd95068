"""The same ResNet in MindSpore, with the weights and batches that resnet_torch.py saved.

Its second convolution of a block has MindSpore's default padding, as a first port often has: right with stride 1, and
wrong where the stride is 2. `--mended` gives it PyTorch's.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

PADDED = {"pad_mode": "pad", "padding": 1}
FIRST = PADDED if "--mended" in sys.argv else {}


class Block(nn.Cell):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, **FIRST)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, **PADDED)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.down = nn.Conv2d(inside, outside, 1, stride) if stride != 1 else None

    def construct(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, **PADDED)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1, self.layer2 = Block(16, 16, 1), Block(16, 32, 2)
        self.pool = nn.AvgPool2d(8)
        self.fc = nn.Dense(32, 10)

    def construct(self, x):
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        x = self.pool(x)
        return self.fc(x.reshape(x.shape[0], -1))


ms.set_context(mode=ms.GRAPH_MODE, device_target="Ascend")
model = ResNet()
ms.load_param_into_net(model, ms.load_checkpoint("resnet.ckpt"), strict_load=True)
optimizer = nn.Momentum(model.trainable_params(), 0.1, 0.9)
train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.CrossEntropyLoss()), optimizer).set_train()
batches = np.load("batches.npz")
for image, label in zip(batches["images"], batches["labels"], strict=True):
    loss = train(Tensor(image), Tensor(label))
    print(f"loss {float(loss.asnumpy()):.4f}")
