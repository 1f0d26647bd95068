"""Four small networks, one of each kind that trainings are made of. `fault` builds one mistake into a model.

A fault sits in the middle of the model, so that healthy operators run before it and after it.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 96, 32, 4, 12, 4
CLASSES = 10


class WrongGelu(torch.autograd.Function):
    """A hand-written GELU whose backward forgets the derivative of the gate (`right` takes it into account)."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, right: bool) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        ctx.right = right
        return functional.gelu(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        gate = 0.5 * (1.0 + torch.erf(x * math.sqrt(0.5)))
        slope = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * (1.0 if ctx.right else 0.9)
        return gradient * (gate + x * slope), None


class Dropout(nn.Module):
    """Dropout by hand; with the fault, what is kept is not scaled up."""

    def __init__(self, p: float, fault: str) -> None:
        super().__init__()
        self.p, self.fault = p, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.p or not self.training:
            return x
        kept = x * torch.rand_like(x).gt(self.p)
        return kept if self.fault == "dropout without scaling" else kept / (1.0 - self.p)


def halved(x: torch.Tensor, fault: str) -> torch.Tensor:
    """Return x; with the fault, by way of float16 with a scale that its greatest elements do not survive."""
    if fault != "float16 overflow in one block":
        return x
    greatest = float(x.detach().abs().max())
    scale = 2.0 ** math.ceil(math.log2(66_000.0 / greatest)) if 0.0 < greatest < 60_000.0 else 1.0  # NaN from step 1 on
    return (x.half() * scale).float() / scale


def spoiled(x: torch.Tensor, fault: str) -> torch.Tensor:
    """Return a block's hidden states with the faults that need one more operator."""
    if fault == "extra scale":
        return x * 1.01
    if fault == "flipped sequence":
        return x.flip(1)
    if fault == "rolled sequence":
        return x.roll(1, 1)
    return halved(x, fault)


def projected(layer: nn.Linear, x: torch.Tensor, fault: str) -> torch.Tensor:
    """Return the layer's result; with the fault, of its transposed (square) weight."""
    return functional.linear(x, layer.weight.t(), layer.bias) if fault == "transposed weight" else layer(x)


def eps_of(fault: str) -> float:
    """Return the epsilon of the normalisation that carries the fault."""
    return 1e-3 if fault == "wrong epsilon" else 1e-5


class Attention(nn.Module):
    """Attention of many heads, written out or fused (`sdpa`)."""

    def __init__(self, fault: str = "", *, sdpa: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.q, self.kv, self.proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fault, self.sdpa, self.causal = fault, sdpa, causal

    def forward(self, x: torch.Tensor, memory: torch.Tensor, hidden: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, _ = x.shape
        k, v = (_heads(part) for part in self.kv(memory).split(WIDTH, 2))
        q = _heads(self.q(x))
        mask = self._mask(length, memory.shape[1], hidden, x.device)
        if self.sdpa:
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(WIDTH // HEADS))
            scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
            axis = -2 if self.fault == "wrong softmax axis" else -1
            mixed = functional.softmax(scores, axis).nan_to_num() if axis == -2 else functional.softmax(scores, axis)
            mixed = mixed @ v
        return projected(self.proj, mixed.transpose(1, 2).reshape(batch, length, WIDTH), self.fault)

    def _mask(self, length: int, memory: int, hidden: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
        """Return which positions may be seen: not those after this one, not those of the padding (`hidden`)."""
        if self.causal:
            diagonal = 1 if self.fault == "wrong causal mask" else 0
            return torch.ones(length, memory, dtype=torch.bool, device=device).tril(diagonal)
        return None if hidden is None else ~hidden[:, None, None, :]


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)


class Mlp(nn.Module):
    """The two layers behind attention."""

    def __init__(self, fault: str = "", dropout: float = 0.0) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.act = nn.GELU(approximate="tanh" if fault == "wrong GELU" else "none")
        self.drop = Dropout(dropout, fault)
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fc1(x)
        own = self.fault in {"wrong autograd function", "hand-written GELU"}
        hidden = WrongGelu.apply(hidden, self.fault == "hand-written GELU") if own else self.act(hidden)
        return self.drop(self.fc2(spoiled(hidden, self.fault)))


class Block(nn.Module):
    def __init__(self, fault: str, dropout: float, *, sdpa: bool, causal: bool, crossed: bool = False) -> None:
        super().__init__()
        self.ln1, self.attention = nn.LayerNorm(WIDTH, eps=eps_of(fault)), Attention(fault, sdpa=sdpa, causal=causal)
        if crossed:
            self.ln_cross, self.cross = nn.LayerNorm(WIDTH), Attention(sdpa=sdpa)
        self.ln2, self.mlp = nn.LayerNorm(WIDTH), Mlp(fault, dropout)

    def forward(self, x, hidden=None, memory=None, hidden_memory=None):
        y = self.ln1(x)
        x = x + self.attention(y, y, hidden)
        if memory is not None:
            x = x + self.cross(self.ln_cross(x), memory, hidden_memory)
        return x + self.mlp(self.ln2(x))


class Embedded(nn.Module):
    """Tokens and their positions."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.fault = fault

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        first = 1 if self.fault == "index off by one" else 0
        positions = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        return self.tokens(tokens) + self.positions(positions)


class Gpt(nn.Module):
    def __init__(self, fault: str = "", *, dropout: float = 0.0, sdpa: bool = False, renamed: bool = False) -> None:
        super().__init__()
        self.embedded = Embedded(fault)
        blocks = nn.ModuleList(
            Block(fault if layer == 1 else "", dropout, sdpa=sdpa, causal=True) for layer in range(3)
        )
        self.name = "layers" if renamed else "blocks"
        self.add_module(self.name, blocks)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedded(tokens)
        for block in getattr(self, self.name):
            x = block(x)
        return self.head(self.norm(x))


class Seq2Seq(nn.Module):
    """Encoder and decoder; the padding of the source is hidden from both."""

    def __init__(self, fault: str = "", *, dropout: float = 0.0, sdpa: bool = False, renamed: bool = False) -> None:
        super().__init__()
        settings = {"dropout": dropout, "sdpa": sdpa}
        self.embedded = Embedded(fault)
        encoder = nn.ModuleList(Block("", causal=False, **settings) for _ in range(2))
        decoder = nn.ModuleList(
            Block(fault if layer == 0 else "", causal=True, crossed=True, **settings) for layer in range(2)
        )
        self.names = ("enc_layers", "dec_layers") if renamed else ("encoder", "decoder")
        for name, blocks in zip(self.names, (encoder, decoder), strict=True):
            self.add_module(name, blocks)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.fault = fault

    def forward(self, pair: torch.Tensor) -> torch.Tensor:
        source, target = pair.unbind(1)
        hidden = source.eq(1 if self.fault == "other padding" else 0)
        memory, x = self.embedded(source), self.embedded(target)
        for block in getattr(self, self.names[0]):
            memory = block(memory, hidden)
        for block in getattr(self, self.names[1]):
            x = block(x, None, memory, hidden)
        return self.head(self.norm(x))


class Cnn(nn.Module):
    """Convolutions with batch norm and a residual connection."""

    def __init__(
        self, fault: str = "", *, dropout: float = 0.0, renamed: bool = False, eval_norm: bool = False
    ) -> None:
        super().__init__()

        def layer(channels_in: int, channels: int, stride: int, fault: str = "") -> nn.Sequential:
            norm = nn.BatchNorm2d(channels, eps=eps_of(fault), momentum=0.01 if fault == "stale statistics" else 0.1)
            return nn.Sequential(nn.Conv2d(channels_in, channels, 3, stride), norm, nn.ReLU(inplace=True))

        self.stem = layer(3, 16, 1)
        self.name = "stage1" if renamed else "layer1"
        self.add_module(self.name, layer(16, 16, 1, fault))
        self.layer2, self.pool = layer(16, 32, 2), nn.MaxPool2d(2)
        self.drop, self.fc = Dropout(dropout, fault), nn.Linear(32, CLASSES)
        self.act = nn.GELU(approximate="tanh" if fault == "wrong GELU" else "none")
        self.fault, self.eval_norm = fault, eval_norm

    def train(self, mode: bool = True) -> Cnn:
        super().train(mode)
        if self.eval_norm:
            getattr(self, self.name)[1].eval()
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(functional.pad(images, (1, 1, 1, 1)))
        mode = "reflect" if self.fault == "other padding" else "constant"
        y = functional.pad(x, (1, 1, 1, 1), mode=mode)
        y = getattr(self, self.name)(y)
        y = spoiled(y.transpose(1, 2), self.fault).transpose(1, 2)
        x = self.act(y + x)
        sides = (1, 0, 1, 0) if self.fault == "padding on the other side" else (0, 1, 0, 1)
        x = self.layer2(functional.pad(x, sides))
        return self.fc(self.drop(self.pool(x).mean((2, 3))))


class Recurrent(nn.Module):
    """An LSTM layer, then a GRU cell by hand over the sequence."""

    def __init__(self, fault: str = "", *, dropout: float = 0.0, renamed: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.name = "memory" if renamed else "lstm"
        self.add_module(self.name, nn.LSTM(WIDTH, WIDTH, batch_first=True))
        self.norm = nn.LayerNorm(WIDTH, eps=eps_of(fault))
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.act = nn.GELU(approximate="tanh" if fault == "wrong GELU" else "none")
        self.drop = Dropout(dropout, fault)
        self.cell, self.head = nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.fault = fault

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, _ = getattr(self, self.name)(self.tokens(tokens))
        x = self.act(projected(self.middle, self.norm(x), self.fault))
        x = self.drop(spoiled(x, self.fault))
        state, states = torch.zeros_like(x[:, 0]), []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return self.head(torch.stack(states, 1))


MODELS = {"cnn": Cnn, "gpt": Gpt, "seq2seq": Seq2Seq, "recurrent": Recurrent}


def batches(kind: str, num_steps: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return inputs and targets of each step."""
    generator = torch.Generator().manual_seed(seed)
    return [_batch(kind, generator) for _ in range(num_steps)]


def _batch(kind: str, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    if kind == "cnn":
        images = torch.randn(8, 3, 14, 14, generator=generator)
        return images, torch.randint(0, CLASSES, (8,), generator=generator)
    tokens = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=generator)
    wanted = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=generator)
    if kind != "seq2seq":
        return tokens, wanted
    source = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=generator)
    source[1, -3:] = 0
    source[2, -1:] = 0
    return torch.stack((source, tokens), 1), wanted
