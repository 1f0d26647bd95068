"""The five networks in PyTorch: `jumar record -o DIR --device cpu torch_side.py NETWORK SEED WEIGHTS.npz [DECAY]`.

Weights and batches are written to WEIGHTS.npz before the training, for the MindSpore and the TensorFlow side. DECAY is
the transformer's weight decay (default 0.1).
"""

import sys

import numpy as np
import torch
from torch import nn

STEPS = 2


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.act = nn.GELU()
        self.fc = nn.Linear(16 * 9, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.act(self.bn2(self.conv2(x)))
        return self.fc(x.flatten(1))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.softmax, self.out = nn.Softmax(dim=-1), nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            layer(x).reshape(batch, length, self.heads, -1).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        weights = self.softmax(torch.matmul(q, k.transpose(2, 3)) * self.scale)
        return self.out(torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(batch, length, dim))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2, self.up, self.act, self.down = nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(50, 32), nn.Embedding(12, 32)
        self.block0, self.block1 = Block(32, 4), Block(32, 4)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50)

    def forward(self, x):
        h = self.embedding(x) + self.position(torch.arange(x.shape[1]))
        return self.head(self.norm(self.block1(self.block0(h)))).reshape(-1, 50)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(40, 16), nn.LSTM(16, 24, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(24), nn.Linear(24, 6)

    def forward(self, x):
        output, _ = self.lstm(self.embedding(x))
        return self.fc(self.norm(output.mean(1)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.norm1, self.act1 = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.pool = nn.AvgPool2d(2)
        self.down2, self.norm2, self.act2 = nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.LeakyReLU(0.1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = self.act1(self.norm1(self.down1(x)))
        deep = self.act2(self.norm2(self.down2(self.pool(skip))))
        joined = torch.cat((skip, self.up(deep)), 1)
        return self.out(torch.tanh(self.merge(joined)))


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(30, 12), nn.Embedding(60, 12)
        self.norm = nn.LayerNorm(24)
        self.fc1, self.act, self.fc2, self.fc3 = nn.Linear(24, 32), nn.ELU(), nn.Linear(32, 16), nn.Linear(16, 1)

    def forward(self, users, items):
        x = self.norm(torch.cat((self.user(users), self.item(items)), 1))
        return self.fc3(torch.sigmoid(self.fc2(self.act(self.fc1(x))))).reshape(-1)


def batches(network, rng):
    for _ in range(STEPS):
        if network == "cnn":
            yield (rng.normal(size=(8, 3, 11, 11)).astype(np.float32),), rng.integers(0, 10, 8)
        elif network == "transformer":
            yield (rng.integers(0, 50, (4, 12)),), rng.integers(0, 50, 48)
        elif network == "lstm":
            yield (rng.integers(0, 40, (8, 10)),), rng.integers(0, 6, 8)
        elif network == "unet":
            yield (rng.normal(size=(4, 1, 16, 16)).astype(np.float32),), rng.normal(size=(4, 1, 16, 16)).astype("f4")
        else:
            yield (rng.integers(0, 30, 16), rng.integers(0, 60, 16)), rng.integers(0, 2, 16).astype(np.float32)


NETWORKS = {"cnn": Cnn, "transformer": Transformer, "lstm": Lstm, "unet": UNet, "wide": Wide}
LOSSES = {
    "cnn": nn.CrossEntropyLoss, "transformer": nn.CrossEntropyLoss, "lstm": nn.CrossEntropyLoss, "unet": nn.MSELoss,
    "wide": nn.BCEWithLogitsLoss,
}  # fmt: skip


def optimizer_of(network, model, decay):
    if network in {"cnn", "unet"}:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if network == "transformer":
        decayed = [one for name, one in model.named_parameters() if "norm" not in name]
        others = [one for name, one in model.named_parameters() if "norm" in name]
        groups = [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.SGD(groups, lr=0.05)
    return torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-8)


def main(network, seed, weights, decay="0.1"):
    torch.manual_seed(int(seed))
    model, loss_of = NETWORKS[network](), LOSSES[network]()
    data = list(batches(network, np.random.default_rng(int(seed))))
    arrays = {f"weight:{name}": value.detach().numpy() for name, value in model.state_dict().items()}
    for step, (inputs, target) in enumerate(data):
        arrays |= {f"input:{step}:{place}": value for place, value in enumerate(inputs)} | {f"target:{step}": target}
    np.savez(weights, **arrays)
    optimizer = optimizer_of(network, model, float(decay))
    for inputs, target in data:
        optimizer.zero_grad()
        loss = loss_of(model(*map(torch.from_numpy, inputs)), torch.from_numpy(target))
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    main(*sys.argv[1:])
