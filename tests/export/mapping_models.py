"""Made-up models that calculate one thing under other names, for the tests of maps."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block as torchvision names it."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    """torchvision's names: conv1, bn1, layer1.0.conv1, fc."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(Block(8, 8, 1), Block(8, 8, 1))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.fc = nn.Linear(16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


class OtherBlock(nn.Module):
    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        if stride > 1:
            self.shortcut = nn.ModuleDict(
                {
                    "proj": nn.Conv2d(width, out, 1, stride, bias=False),
                    "norm": nn.BatchNorm2d(out),
                }
            )
        self.conv_1, self.norm_1 = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv_2, self.norm_2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_2(self.conv_2(functional.relu(self.norm_1(self.conv_1(x)))))
        short = self.shortcut["norm"](self.shortcut["proj"](x)) if hasattr(self, "shortcut") else x
        return functional.relu(y + short)


class OtherResNet(nn.Module):
    """The same calculation with names like timm's: stem.conv, stages.0.blocks.0.conv_1, head.fc."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.ModuleDict({"conv": nn.Conv2d(3, 8, 3, 1, 1, bias=False), "norm": nn.BatchNorm2d(8)})
        self.stages = nn.ModuleList(
            [
                nn.ModuleDict({"blocks": nn.Sequential(OtherBlock(8, 8, 1), OtherBlock(8, 8, 1))}),
                nn.ModuleDict({"blocks": nn.Sequential(OtherBlock(8, 16, 2), OtherBlock(16, 16, 1))}),
            ]
        )
        self.head = nn.ModuleDict({"fc": nn.Linear(16, classes)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem["norm"](self.stem["conv"](x)))
        for stage in self.stages:
            x = stage["blocks"](x)
        return self.head["fc"](x.mean((2, 3)))


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weight is [in, out]."""

    def __init__(self, out: int, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, out) * 0.2), nn.Parameter(torch.randn(out) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int = 2) -> torch.Tensor:
    def split(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)

    return functional.scaled_dot_product_attention(split(q), split(k), split(v)).transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(d)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(3 * d, d), "c_proj": Conv1D(d, d)})
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(4 * d, d), "c_proj": Conv1D(d, 4 * d)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn["c_proj"](attention(*self.attn["c_attn"](self.ln_1(x)).chunk(3, -1)))
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Gpt(nn.Module):
    """GPT-2's names: wte, wpe, h.0.attn.c_attn, ln_f, lm_head tied to wte."""

    def __init__(self, d: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(31, d),
                "wpe": nn.Embedding(12, d),
                "h": nn.ModuleList([GptBlock(d) for _ in range(layers)]),
                "ln_f": nn.LayerNorm(d),
            }
        )
        self.lm_head = nn.Linear(d, 31, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.transformer["wte"](ids) + self.transformer["wpe"](torch.arange(ids.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


class OwnBlock(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.key, self.value, self.out = (nn.Linear(d, d) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.out(attention(self.query(y), self.key(y), self.value(y)))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Own(nn.Module):
    """The same calculation with plain linear layers and separate projections."""

    def __init__(self, d: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(31, d), nn.Embedding(12, d)
        self.blocks = nn.ModuleList([OwnBlock(d) for _ in range(layers)])
        self.final_norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 31, bias=False)
        self.head.weight = self.token_embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


def trained(model: nn.Module, seed: int) -> nn.Module:
    """Return the model with values that no two tensors share."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=generator)
                value.copy_(noise.abs() + 0.5 if name.endswith("running_var") else noise * 0.3)
    return model.eval()


def resnet() -> tuple[nn.Module, torch.Tensor]:
    return trained(ResNet(), 1), torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(5))


def other_resnet() -> tuple[nn.Module, torch.Tensor]:
    return trained(OtherResNet(), 2), torch.randn(2, 3, 16, 16)


def gpt() -> tuple[nn.Module, torch.Tensor]:
    return trained(Gpt(), 3), torch.arange(10).reshape(1, 10)


def own() -> tuple[nn.Module, torch.Tensor]:
    return trained(Own(), 4), torch.arange(10).reshape(1, 10)
