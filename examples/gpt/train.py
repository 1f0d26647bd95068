"""Trains a small GPT on characters.

On one GPU:
$ python train.py --batch_size=32 --compile
On four GPUs of one machine:
$ torchrun --standalone --nproc_per_node=4 train.py
"""
import argparse
import json
import math
import os
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from model import GPT, GPTConfig
from prepare import prepare

parser = argparse.ArgumentParser()
# I/O
parser.add_argument('--out_dir', default='out')
parser.add_argument('--data_dir', default='data', help='made when it does not exist')
parser.add_argument('--eval_interval', type=int, default=25)
parser.add_argument('--eval_iters', type=int, default=4)
parser.add_argument('--log_interval', type=int, default=1)
parser.add_argument('--eval_only', action='store_true')
parser.add_argument('--init_from', default='scratch', choices=['scratch', 'resume'])
# data
parser.add_argument('--gradient_accumulation_steps', type=int, default=4)
parser.add_argument('--batch_size', type=int, default=8, help='micro-batch')
parser.add_argument('--block_size', type=int, default=128)
# model
parser.add_argument('--n_layer', type=int, default=4)
parser.add_argument('--n_head', type=int, default=4)
parser.add_argument('--n_embd', type=int, default=128)
parser.add_argument('--dropout', type=float, default=0.0)
# AdamW
parser.add_argument('--learning_rate', type=float, default=1e-3)
parser.add_argument('--max_iters', type=int, default=50)
parser.add_argument('--weight_decay', type=float, default=1e-1)
parser.add_argument('--beta1', type=float, default=0.9)
parser.add_argument('--beta2', type=float, default=0.99)
parser.add_argument('--grad_clip', type=float, default=1.0, help='0 turns clipping off')
parser.add_argument('--warmup_iters', type=int, default=5)
parser.add_argument('--min_lr', type=float, default=1e-4)
# system
parser.add_argument('--backend', default='nccl')
parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu', help="'cpu', 'cuda', 'cuda:1', ...")
parser.add_argument('--dtype', default='bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else 'float16',
                    choices=['float32', 'bfloat16', 'float16'])
parser.add_argument('--compile', action='store_true')
parser.add_argument('--seed', type=int, default=1337)
args = parser.parse_args()

ddp = int(os.environ.get('RANK', -1)) != -1
if ddp:
    init_process_group(backend=args.backend)
    ddp_rank = int(os.environ['RANK'])
    ddp_local_rank = int(os.environ['LOCAL_RANK'])
    ddp_world_size = int(os.environ['WORLD_SIZE'])
    device = f'cuda:{ddp_local_rank}'
    torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    seed_offset = ddp_rank
    if args.gradient_accumulation_steps % ddp_world_size != 0:
        raise SystemExit('gradient_accumulation_steps must be a multiple of the number of processes')
    gradient_accumulation_steps = args.gradient_accumulation_steps // ddp_world_size
else:
    device = args.device
    master_process = True
    seed_offset = 0
    ddp_world_size = 1
    gradient_accumulation_steps = args.gradient_accumulation_steps
tokens_per_iter = gradient_accumulation_steps * ddp_world_size * args.batch_size * args.block_size
print(f"tokens per iteration: {tokens_per_iter:,}")

if master_process:
    os.makedirs(args.out_dir, exist_ok=True)
    if not os.path.exists(os.path.join(args.data_dir, 'meta.json')):
        prepare(args.data_dir)
if ddp:
    torch.distributed.barrier()
torch.manual_seed(args.seed + seed_offset)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = 'cuda' if 'cuda' in device else 'cpu'
ptdtype = {'float32': torch.float32, 'bfloat16': torch.bfloat16, 'float16': torch.float16}[args.dtype]
ctx = nullcontext() if device_type == 'cpu' else torch.autocast(
    device_type=device_type, dtype=ptdtype, enabled=ptdtype != torch.float32)

sampler = torch.Generator().manual_seed(args.seed + seed_offset)


def get_batch(split):
    # a new memmap for each batch, as a kept one holds on to the pages it has read
    data = np.memmap(os.path.join(args.data_dir, f'{split}.bin'), dtype=np.uint16, mode='r')
    ix = torch.randint(len(data) - args.block_size, (args.batch_size,), generator=sampler)
    x = torch.stack([torch.from_numpy(data[i:i + args.block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1:i + 1 + args.block_size].astype(np.int64)) for i in ix])
    if device_type == 'cuda':
        # pinned memory lets the copy run beside the computation
        x, y = x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    else:
        x, y = x.to(device), y.to(device)
    return x, y


with open(os.path.join(args.data_dir, 'meta.json')) as f:
    vocab_size = json.load(f)['vocab_size']

iter_num = 0
best_val_loss = 1e9
model_args = dict(n_layer=args.n_layer, n_head=args.n_head, n_embd=args.n_embd, block_size=args.block_size,
                  vocab_size=vocab_size, dropout=args.dropout)
checkpoint = None
if args.init_from == 'resume':
    ckpt_path = os.path.join(args.out_dir, 'ckpt.pt')
    print(f"resuming from {ckpt_path}")
    checkpoint = torch.load(ckpt_path, map_location=device)
    model_args = checkpoint['model_args']
    iter_num = checkpoint['iter_num']
    best_val_loss = checkpoint['best_val_loss']
model = GPT(GPTConfig(**model_args))
if checkpoint is not None:
    state_dict = checkpoint['model']
    # a compiled model puts this in front of every name
    prefix = '_orig_mod.'
    model.load_state_dict({k[len(prefix):] if k.startswith(prefix) else k: v for k, v in state_dict.items()})
model.to(device)
print(f"number of parameters: {model.num_params() / 1e6:.2f}M")

scaler = torch.amp.GradScaler(device_type, enabled=(args.dtype == 'float16' and device_type == 'cuda'))
optimizer = model.configure_optimizers(args.weight_decay, args.learning_rate, (args.beta1, args.beta2), device_type)
if checkpoint is not None:
    optimizer.load_state_dict(checkpoint['optimizer'])
checkpoint = None

if args.compile:
    print("compiling the model")
    model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank])
raw_model = model.module if ddp else model


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ['train', 'val']:
        losses = torch.zeros(args.eval_iters)
        for k in range(args.eval_iters):
            X, Y = get_batch(split)
            with ctx:
                _, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean().item()
    model.train()
    return out


def get_lr(it):
    if it < args.warmup_iters:
        return args.learning_rate * (it + 1) / (args.warmup_iters + 1)
    if it > args.max_iters:
        return args.min_lr
    ratio = (it - args.warmup_iters) / max(1, args.max_iters - args.warmup_iters)
    return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (args.learning_rate - args.min_lr)


X, Y = get_batch('train')
t0 = time.time()
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr

    if master_process and (args.eval_only or (iter_num > 0 and iter_num % args.eval_interval == 0)):
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.6f}, val loss {losses['val']:.6f}", flush=True)
        if losses['val'] < best_val_loss and not args.eval_only:
            best_val_loss = losses['val']
            print(f"saving checkpoint to {args.out_dir}")
            torch.save({
                'model': raw_model.state_dict(),
                'optimizer': optimizer.state_dict(),
                'model_args': model_args,
                'iter_num': iter_num,
                'best_val_loss': best_val_loss,
                'config': vars(args),
            }, os.path.join(args.out_dir, 'ckpt.pt'))
    if args.eval_only or iter_num >= args.max_iters:
        break

    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            # gradients are reduced at the last micro-step only
            model.require_backward_grad_sync = (micro_step == gradient_accumulation_steps - 1)
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        # fetched while the GPU is busy with the forward pass
        X, Y = get_batch('train')
        scaler.scale(loss).backward()
    if args.grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)

    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if iter_num % args.log_interval == 0 and master_process:
        lossf = loss.item() * gradient_accumulation_steps
        print(f"iter {iter_num}: loss {lossf:.6f}, time {dt * 1000:.1f}ms, "
              f"{tokens_per_iter / dt:,.0f} tokens/s", flush=True)
    iter_num += 1

if ddp:
    destroy_process_group()
