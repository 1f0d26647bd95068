"""Train a small network whose normalization, dropout and product are Triton kernels, on a GPU."""

import torch
import triton
import triton.language as tl
from torch import nn

DEVICE = torch.device("cuda")


@triton.jit
def squared(x):
    return x * x


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, mean_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(squared(centred), axis=0) / n + eps)
    tl.store(y_ptr + row * n + columns, centred * rstd, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keep = tl.rand(seed, offsets) > p
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.autotune(
    configs=[triton.Config({"TILE": 16}, num_warps=4), triton.Config({"TILE": 32}, num_warps=8)], key=["m", "n", "k"]
)
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_column, b_row, b_column, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, TILE):
        inner = start + tl.arange(0, TILE)
        a_mask = (rows[:, None] < m) & (inner[None, :] < k)
        b_mask = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * a_row + inner[None, :] * a_column, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * b_row + columns[None, :] * b_column, mask=b_mask, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total, mask=mask)


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["TILE"]), triton.cdiv(n, meta["TILE"]))](
        a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1)
    )
    return c


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        mean, rstd = (torch.empty(rows, device=x.device) for _ in range(2))
        layer_norm_kernel[(rows,)](x, y, mean, rstd, n, 1e-5, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(y, rstd)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, rstd = ctx.saved_tensors
        inner = (grad * y).mean(1, keepdim=True) * y + grad.mean(1, keepdim=True)
        return (grad - inner) * rstd[:, None]


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        ctx.p, ctx.seed = p, seed
        return dropped(x, p, seed)

    @staticmethod
    def backward(ctx, grad):
        return dropped(grad, ctx.p, ctx.seed), None, None


def dropped(x, p, seed):
    x = x.contiguous()
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), p, seed, BLOCK=256)
    return y


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return matmul(x, weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return matmul(grad, weight), matmul(grad.t(), x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(40, 20) / 20**0.5)
        self.last = nn.Linear(40, 3)

    def forward(self, x, seed):
        hidden = torch.relu(Linear.apply(x, self.first))
        return self.last(Dropout.apply(LayerNorm.apply(hidden), 0.1, seed))


def main():
    torch.manual_seed(0)
    network = Network().to(DEVICE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    x, y = torch.randn(32, 20, device="cuda"), torch.randint(0, 3, (32,), device="cuda")
    for step in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x, step), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
