"""The models of `benchmarks/tune.py`: random weights, batch-norm statistics that are not trivial, fixed seeds.

`selected` is a factory for `jumar tune benchmarks/tune_models.py:selected`; the environment variable
JUMAR_BENCH_ROW says which model and batch it makes: `shufflenet:8`. Run as a script, one step of that model is
carried out under `torch.compile`, as a training script would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

SEED = 20
ROW_VARIABLE = "JUMAR_BENCH_ROW"
IMAGE = 224
TOKENS = 128
VOCABULARY = {"bert": 30522, "gpt": 1024}


# ---- convolution networks ----------------------------------------------------------------------------------------


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, act(inplace=True)) if act is not None else nn.Sequential(*layers)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions; the stride is in the 3x3 one."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(inputs, width, 1), conv_bn(width, width, 3, stride), conv_bn(width, width * 4, 1, act=None)
        )
        same = stride == 1 and inputs == width * 4
        self.short = nn.Identity() if same else conv_bn(inputs, width * 4, 1, stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.short(x))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for stage, (width, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for index in range(depth):
                blocks.append(Bottleneck(inputs, width, 2 if stage and not index else 1))
                inputs = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


class Inverted(nn.Module):
    """MobileNetV2's inverted residual."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        width = inputs * expand
        first = [conv_bn(inputs, width, 1, act=nn.ReLU6)] if expand != 1 else []
        self.body = nn.Sequential(
            *first, conv_bn(width, width, 3, stride, width, nn.ReLU6), conv_bn(width, outputs, 1, act=None)
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    TABLE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_bn(3, 32, 3, 2, act=nn.ReLU6)]
        inputs = 32
        for expand, outputs, depth, stride in self.TABLE:
            for index in range(depth):
                layers.append(Inverted(inputs, outputs, stride if not index else 1, expand))
                inputs = outputs
        layers.append(conv_bn(inputs, 1280, 1, act=nn.ReLU6))
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean([2, 3]))


def shuffle(x: torch.Tensor) -> torch.Tensor:
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


class Shuffled(nn.Module):
    """ShuffleNetV2's unit: half of the channels pass, or, with a stride, both branches are new."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.stride = stride
        self.left = (
            nn.Sequential(conv_bn(inputs, inputs, 3, 2, inputs, None), conv_bn(inputs, half, 1))
            if stride == 2
            else nn.Identity()
        )
        self.right = nn.Sequential(
            conv_bn(inputs if stride == 2 else half, half, 1),
            conv_bn(half, half, 3, stride, half, None),
            conv_bn(half, half, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = (x, x) if self.stride == 2 else x.chunk(2, dim=1)
        return shuffle(torch.cat((self.left(left), self.right(right)), dim=1))


class ShuffleNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1))
        layers: list[nn.Module] = []
        inputs = 24
        for depth, outputs in ((4, 116), (8, 232), (4, 464)):
            for index in range(depth):
                layers.append(Shuffled(inputs, outputs, 1 if index else 2))
                inputs = outputs
        self.stages = nn.Sequential(*layers)
        self.last = conv_bn(464, 1024, 1)
        self.head = nn.Linear(1024, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.last(self.stages(self.stem(x))).mean([2, 3]))


# ---- transformers ------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    """A transformer layer: BERT's (norm after the residual) or GPT's (norm before)."""

    def __init__(self, width: int, heads: int, *, gpt: bool) -> None:
        super().__init__()
        self.gpt = gpt
        self.attention = Attention(width, heads, causal=gpt)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gpt:
            x = x + self.attention(self.norms[0](x))
            return x + self.mlp(self.norms[1](x))
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.mlp(x))


class Transformer(nn.Module):
    """Token and place embeddings, layers, and for GPT a head over a small vocabulary."""

    def __init__(self, words: int, width: int, heads: int, depth: int, *, gpt: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(1, TOKENS, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads, gpt=gpt) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words) if gpt else nn.Identity()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.words(tokens) + self.places)))


# ---- what the rows are made of -----------------------------------------------------------------------------------

CONVOLUTION: dict[str, Callable[[], nn.Module]] = {
    "resnet50": ResNet50, "mobilenet": MobileNetV2, "shufflenet": ShuffleNetV2,
}  # fmt: skip
TRANSFORMERS: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: Transformer(VOCABULARY["bert"], 768, 12, 12, gpt=False),
    "gpt": lambda: Transformer(VOCABULARY["gpt"], 512, 8, 2, gpt=True),
}
TRAINING = {"shufflenet-train": "shufflenet", "gpt-train": "gpt"}
NAMES = (*CONVOLUTION, *TRANSFORMERS, *TRAINING)


def with_statistics(model: nn.Module) -> nn.Module:
    """Give every BatchNorm statistics and weights as after a training: nothing folds away to the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
    return model


def make(name: str, batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return a model for inference and one set of inputs. Raises KeyError for a name that is none of `NAMES`."""
    torch.manual_seed(SEED)
    model = with_statistics((CONVOLUTION | TRANSFORMERS)[TRAINING.get(name, name)]()).eval()
    return model, inputs_of(name, batch)


def inputs_of(name: str, batch: int) -> tuple[torch.Tensor, ...]:
    """Return one set of inputs of a model, drawn now."""
    name = TRAINING.get(name, name)
    if name in CONVOLUTION:
        return (torch.randn(batch, 3, IMAGE, IMAGE),)
    return (torch.randint(0, VOCABULARY[name], (batch, TOKENS)),)


def training_step(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Callable[[], torch.Tensor]:
    """Return one step of training: forward, loss, backward, SGD. `model` may be compiled."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    generator = torch.Generator().manual_seed(SEED)
    x = inputs[0]
    is_image = x.is_floating_point()
    target = torch.randint(0, 1000, (len(x),), generator=generator) if is_image else x.roll(-1, dims=1)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        outputs = model(x)
        loss = functional.cross_entropy(outputs.flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def selected() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the model and the inputs that JUMAR_BENCH_ROW names."""
    name, _, batch = os.environ[ROW_VARIABLE].partition(":")
    return make(name, int(batch or 1))


def main() -> None:
    """Carry out one step of the row's model as a user's script would."""
    name = os.environ[ROW_VARIABLE].partition(":")[0]
    model, inputs = selected()
    if name in TRAINING:
        training_step(torch.compile(model.train()), inputs)()
    else:
        with torch.no_grad():
            torch.compile(model)(*inputs)


if __name__ == "__main__":
    main()
