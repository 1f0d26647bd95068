"""A small ResNet in PyTorch: trains two steps, and saves its first weights and its batches for MindSpore."""

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.down = nn.Conv2d(inside, outside, 1, stride, bias=False) if stride != 1 else None

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1, self.layer2 = Block(16, 16, 1), Block(16, 32, 2)
        self.pool = nn.AvgPool2d(8)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(self.pool(x).flatten(1))


torch.manual_seed(0)
model, loss_of = ResNet(), nn.CrossEntropyLoss()
torch.save(model.state_dict(), "resnet.pth")
rng = np.random.default_rng(0)
images = rng.normal(size=(2, 8, 3, 16, 16)).astype(np.float32)
labels = rng.integers(0, 10, (2, 8)).astype(np.int32)
np.savez("batches.npz", images=images, labels=labels)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for image, label in zip(images, labels, strict=True):
    optimizer.zero_grad()
    loss = loss_of(model(torch.from_numpy(image)), torch.from_numpy(label).long())
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
