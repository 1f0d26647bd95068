"""A ResNet-50 of MindSpore, an eighth as wide: 161 parameters. With a FOLDER its graph is also profiled into it."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

WIDTH = 8


class Block(nn.Cell):
    def __init__(self, inside, width, stride):
        super().__init__()
        outside = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outside, 1), nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        is_other = stride != 1 or inside != outside
        self.down = (
            nn.SequentialCell(nn.Conv2d(inside, outside, 1, stride), nn.BatchNorm2d(outside)) if is_other else None
        )

    def construct(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + (x if self.down is None else self.down(x)))


def layer(inside, width, count, stride):
    return nn.SequentialCell(Block(inside, width, stride), *[Block(4 * width, width, 1) for _ in range(count - 1)])


class ResNet50(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, WIDTH, 7, 2), nn.BatchNorm2d(WIDTH), nn.ReLU()
        self.layer1, self.layer2 = layer(WIDTH, WIDTH, 3, 1), layer(4 * WIDTH, 2 * WIDTH, 4, 2)
        self.layer3, self.layer4 = layer(8 * WIDTH, 4 * WIDTH, 6, 2), layer(16 * WIDTH, 8 * WIDTH, 3, 2)
        self.fc = nn.Dense(32 * WIDTH, 10)

    def construct(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
model = ResNet50()
optimizer = nn.Momentum(model.trainable_params(), 0.01, 0.9)
step = nn.TrainOneStepCell(nn.WithLossCell(model, nn.CrossEntropyLoss()), optimizer).set_train()
images, labels = Tensor(np.ones((2, 3, 32, 32), np.float32)), Tensor(np.array([1, 2], np.int32))
if len(sys.argv) > 1:
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=tensorboard_trace_handler(sys.argv[1]),
    ) as running:
        for _ in range(4):
            step(images, labels)
            running.step()
else:
    for _ in range(2):
        step(images, labels)
