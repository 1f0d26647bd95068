"""Trains ShuffleNetV2 on one GPU: prefetching on a side stream, label smoothing, cosine schedule, weight averaging.

Without a data file the script makes one: small pictures of coloured gratings in ten classes.
"""
import argparse
import copy
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn

from shufflenetv2 import WIDTHS, ShuffleNetV2

NUM_CLASSES = 10


def get_args():
    parser = argparse.ArgumentParser("ShuffleNetV2")
    parser.add_argument('--data', type=str, default='data/gratings.npz', help='made when it does not exist')
    parser.add_argument('--model-size', type=str, default='x1.0', choices=sorted(WIDTHS))
    parser.add_argument('--image-size', type=int, default=64)
    parser.add_argument('--num-images', type=int, default=640, help='pictures to make, one fifth for validation')
    parser.add_argument('--batch-size', type=int, default=16)
    parser.add_argument('--total-iters', type=int, default=60)
    parser.add_argument('--warmup-iters', type=int, default=5)
    parser.add_argument('--learning-rate', type=float, default=0.05)
    parser.add_argument('--momentum', type=float, default=0.9)
    parser.add_argument('--weight-decay', type=float, default=4e-5)
    parser.add_argument('--label-smooth', type=float, default=0.1)
    parser.add_argument('--ema-decay', type=float, default=0.99)
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    parser.add_argument('--save', type=str, default='./models', help='folder for checkpoints')
    parser.add_argument('--save-interval', type=int, default=30)
    parser.add_argument('--display-interval', type=int, default=1)
    parser.add_argument('--auto-continue', action='store_true', help='go on from the newest checkpoint in --save')
    parser.add_argument('--eval', action='store_true', help='only evaluate the newest checkpoint')
    parser.add_argument('--seed', type=int, default=0)
    return parser.parse_args()


def make_data(path, num_images, image_size, seed):
    """Write `images` (uint8, NCHW) and `labels` (int64) to path."""
    rng = np.random.RandomState(seed)
    labels = np.arange(num_images) % NUM_CLASSES
    axis = np.linspace(-1.0, 1.0, image_size)
    rows, columns = np.meshgrid(axis, axis, indexing='ij')
    angle = (math.pi * labels / NUM_CLASSES)[:, None, None]
    pitch = (6.0 + 2.0 * (labels % 4))[:, None, None]
    phase = rng.uniform(0.0, 2.0 * math.pi, size=(num_images, 1, 1))
    wave = np.sin(pitch * (np.cos(angle) * rows + np.sin(angle) * columns) + phase)
    colour = np.stack([np.cos(labels + shift) for shift in (0.0, 2.0, 4.0)], axis=1)
    images = 0.5 + 0.25 * wave[:, None] * colour[:, :, None, None]
    images += rng.normal(0.0, 0.1, size=images.shape)
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    np.savez(path, images=(images.clip(0.0, 1.0) * 255).astype(np.uint8), labels=labels.astype(np.int64))


class DataIterator:
    """Shuffled batches for ever."""

    def __init__(self, images, labels, batch_size, seed):
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.generator = torch.Generator().manual_seed(seed)
        self.order = []

    def next(self):
        if len(self.order) < self.batch_size:
            self.order = torch.randperm(len(self.labels), generator=self.generator).tolist()
        batch, self.order = self.order[:self.batch_size], self.order[self.batch_size:]
        return self.images[batch].pin_memory(), self.labels[batch].pin_memory()


class DataPrefetcher:
    """Copies the next batch to the GPU on its own stream while the current one is being trained on."""

    def __init__(self, iterator):
        self.iterator = iterator
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).cuda().view(1, 3, 1, 1)
        self.std = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).cuda().view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        images, labels = self.iterator.next()
        with torch.cuda.stream(self.stream):
            self.next_images = images.cuda(non_blocking=True).float().sub_(self.mean).div_(self.std)
            self.next_labels = labels.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        images, labels = self.next_images, self.next_labels
        images.record_stream(torch.cuda.current_stream())
        labels.record_stream(torch.cuda.current_stream())
        self.preload()
        return images, labels


class CrossEntropyLabelSmooth(nn.Module):
    def __init__(self, num_classes, epsilon):
        super().__init__()
        self.num_classes = num_classes
        self.epsilon = epsilon
        self.logsoftmax = nn.LogSoftmax(dim=1)

    def forward(self, inputs, targets):
        log_probs = self.logsoftmax(inputs)
        targets = torch.zeros_like(log_probs).scatter_(1, targets.unsqueeze(1), 1)
        targets = (1 - self.epsilon) * targets + self.epsilon / self.num_classes
        return (-targets * log_probs).mean(0).sum()


class ModelEMA:
    """A copy of the model whose weights follow the trained ones slowly."""

    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        source = model.state_dict()
        for name, value in self.module.state_dict().items():
            if value.dtype.is_floating_point:
                value.mul_(self.decay).add_(source[name].detach(), alpha=1 - self.decay)
            else:
                value.copy_(source[name])


def get_parameters(model):
    """No weight decay for the parameters of normalisation layers and for biases."""
    decay, no_decay = [], []
    for p in model.parameters():
        (no_decay if p.ndim <= 1 else decay).append(p)
    return [dict(params=decay), dict(params=no_decay, weight_decay=0.0)]


def adjust_learning_rate(optimizer, iters, args):
    if iters < args.warmup_iters:
        lr = args.learning_rate * (iters + 1) / args.warmup_iters
    else:
        done = (iters - args.warmup_iters) / max(1, args.total_iters - args.warmup_iters)
        lr = 0.5 * args.learning_rate * (1 + math.cos(math.pi * done))
    for group in optimizer.param_groups:
        group['lr'] = lr
    return lr


def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.view(1, -1))
    return [correct[:k].reshape(-1).float().sum() * (100.0 / target.size(0)) for k in topk]


def newest_checkpoint(folder):
    """(path, iterations) of the newest checkpoint, or (None, 0)."""
    if not os.path.isdir(folder):
        return None, 0
    found = [name for name in os.listdir(folder) if name.startswith('checkpoint-') and name.endswith('.pth.tar')]
    if not found:
        return None, 0
    iters = max(int(name[len('checkpoint-'):-len('.pth.tar')]) for name in found)
    return os.path.join(folder, 'checkpoint-{:06d}.pth.tar'.format(iters)), iters


def save_checkpoint(state, iters, folder):
    os.makedirs(folder, exist_ok=True)
    torch.save(state, os.path.join(folder, 'checkpoint-{:06d}.pth.tar'.format(iters)))


def validate(model, images, labels, criterion, batch_size):
    model.eval()
    mean = torch.cuda.FloatTensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).view(1, 3, 1, 1)
    std = torch.cuda.FloatTensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).view(1, 3, 1, 1)
    total_loss, total_top1, total_top5, num_batches = 0.0, 0.0, 0.0, 0
    with torch.no_grad():
        for start in range(0, len(labels) - batch_size + 1, batch_size):
            batch = images[start:start + batch_size].cuda().float()
            target = labels[start:start + batch_size].cuda()
            output = model((batch - mean) / std)
            top1, top5 = accuracy(output, target, topk=(1, 5))
            total_loss += criterion(output, target).item()
            total_top1 += top1.item()
            total_top5 += top5.item()
            num_batches += 1
    model.train()
    print('TEST: loss = {:.6f}\tTop-1 acc = {:.3f}\tTop-5 acc = {:.3f}'.format(
        total_loss / num_batches, total_top1 / num_batches, total_top5 / num_batches), flush=True)


def main():
    args = get_args()
    if not torch.cuda.is_available():
        print('no gpu device available')
        sys.exit(1)

    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    torch.backends.cudnn.benchmark = True
    print('device: {}'.format(torch.cuda.get_device_name(0)))

    if not os.path.exists(args.data):
        make_data(args.data, args.num_images, args.image_size, args.seed)
    data = np.load(args.data)
    images, labels = torch.from_numpy(data['images']), torch.from_numpy(data['labels'])
    num_train = len(labels) * 4 // 5
    train_data = DataIterator(images[:num_train], labels[:num_train], args.batch_size, args.seed)
    val_images, val_labels = images[num_train:], labels[num_train:]

    model = ShuffleNetV2(args.model_size, num_classes=NUM_CLASSES).cuda()
    optimizer = torch.optim.SGD(get_parameters(model), lr=args.learning_rate, momentum=args.momentum,
                                weight_decay=args.weight_decay, nesterov=True)
    criterion_smooth = CrossEntropyLabelSmooth(NUM_CLASSES, args.label_smooth).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    ema = ModelEMA(model, args.ema_decay)

    iters = 0
    if args.auto_continue or args.eval:
        path, iters = newest_checkpoint(args.save)
        if path is not None:
            print('load from {}'.format(path))
            checkpoint = torch.load(path)
            model.load_state_dict(checkpoint['state_dict'])
            ema.module.load_state_dict(checkpoint['ema'])
            optimizer.load_state_dict(checkpoint['optimizer'])
            scaler.load_state_dict(checkpoint['scaler'])

    if args.eval:
        validate(ema.module, val_images, val_labels, criterion, args.batch_size)
        return

    model.train()
    prefetcher = DataPrefetcher(train_data)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    t1 = time.time()
    while iters < args.total_iters:
        lr = adjust_learning_rate(optimizer, iters, args)
        images, target = prefetcher.next()

        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(images)
            loss = criterion_smooth(output, target)

        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        ema.update(model)
        iters += 1

        if iters % args.display_interval == 0:
            top1, top5 = accuracy(output, target, topk=(1, 5))
            torch.cuda.synchronize()
            seconds = (time.time() - t1) / args.display_interval
            t1 = time.time()
            print('TRAIN Iter {}: lr = {:.6f}, loss = {:.6f}, Top-1 acc = {:.2f}, Top-5 acc = {:.2f}, '
                  '{:.3f} s/iter, {:.0f} MiB'.format(iters, lr, loss.item(), top1.item(), top5.item(), seconds,
                                                     torch.cuda.max_memory_allocated() / 2**20), flush=True)

        if iters % args.save_interval == 0 or iters == args.total_iters:
            save_checkpoint({
                'state_dict': model.state_dict(),
                'ema': ema.module.state_dict(),
                'optimizer': optimizer.state_dict(),
                'scaler': scaler.state_dict(),
            }, iters, args.save)

    validate(ema.module, val_images, val_labels, criterion, args.batch_size)


if __name__ == "__main__":
    main()
