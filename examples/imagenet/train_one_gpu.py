"""Trains a ResNet on an ImageNet-like task, on one GPU; train.py is the form for many.

The pictures are made on the fly (see synthetic.py), so that the script runs anywhere within seconds.
"""
import argparse
import os
import random
import shutil
import time

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim
import torch.utils.data

from resnet import ARCHS
from synthetic import SyntheticImages

parser = argparse.ArgumentParser(description='ResNet training')
parser.add_argument('-a', '--arch', default='resnet18', choices=sorted(ARCHS), help='model (default: resnet18)')
parser.add_argument('-j', '--workers', default=0, type=int, metavar='N', help='data loading workers (default: 0)')
parser.add_argument('--epochs', default=1, type=int, metavar='N', help='number of epochs to run')
parser.add_argument('--start-epoch', default=0, type=int, metavar='N', help='first epoch, for restarts')
parser.add_argument('--steps-per-epoch', default=20, type=int, metavar='N', help='training steps in an epoch')
parser.add_argument('--val-steps', default=4, type=int, metavar='N', help='validation steps')
parser.add_argument('-b', '--batch-size', default=16, type=int, metavar='N',
                    help='batch size (default: 16)')
parser.add_argument('--image-size', default=64, type=int, help='height and width of the pictures')
parser.add_argument('--num-classes', default=10, type=int)
parser.add_argument('--lr', '--learning-rate', default=0.02, type=float, dest='lr', help='initial learning rate')
parser.add_argument('--momentum', default=0.9, type=float)
parser.add_argument('--wd', '--weight-decay', default=1e-4, type=float, dest='weight_decay')
parser.add_argument('-p', '--print-freq', default=1, type=int, metavar='N', help='print every N steps')
parser.add_argument('--resume', default='', type=str, metavar='PATH', help='checkpoint to continue from')
parser.add_argument('--checkpoint-dir', default='checkpoints', type=str, metavar='DIR')
parser.add_argument('-e', '--evaluate', action='store_true', help='only evaluate on the validation set')
parser.add_argument('--amp', action='store_true', help='mixed precision (float16) with loss scaling')
parser.add_argument('--seed', default=1, type=int, help='seed of the weights and of the data')
parser.add_argument('--gpu', default=0, type=int, help='GPU to use')

best_acc1 = 0.0


def main():
    global best_acc1
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    print("=> creating model '{}'".format(args.arch))
    model = ARCHS[args.arch](num_classes=args.num_classes)

    torch.cuda.set_device(args.gpu)
    model = model.cuda(args.gpu)
    device = torch.device('cuda:{}'.format(args.gpu))

    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)

    if args.resume:
        if os.path.isfile(args.resume):
            print("=> loading checkpoint '{}'".format(args.resume))
            # the checkpoint may come from another GPU
            checkpoint = torch.load(args.resume, map_location='cuda:{}'.format(args.gpu))
            args.start_epoch = checkpoint['epoch']
            best_acc1 = checkpoint['best_acc1']
            best_acc1 = best_acc1.to(device)
            model.load_state_dict(checkpoint['state_dict'])
            optimizer.load_state_dict(checkpoint['optimizer'])
            scheduler.load_state_dict(checkpoint['scheduler'])
            scaler.load_state_dict(checkpoint['scaler'])
            print("=> loaded checkpoint '{}' (epoch {})".format(args.resume, checkpoint['epoch']))
        else:
            print("=> no checkpoint found at '{}'".format(args.resume))

    cudnn.benchmark = True

    # the validation set has other pictures of the same classes
    train_set = SyntheticImages(args.steps_per_epoch * args.batch_size, args.image_size,
                                args.num_classes, seed=args.seed)
    val_set = SyntheticImages(args.val_steps * args.batch_size, args.image_size,
                              args.num_classes, seed=args.seed + 1)
    train_loader = torch.utils.data.DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True,
        num_workers=args.workers, pin_memory=True)
    val_loader = torch.utils.data.DataLoader(
        val_set, batch_size=args.batch_size, shuffle=False,
        num_workers=args.workers, pin_memory=True)

    if args.evaluate:
        validate(val_loader, model, criterion, args)
        return

    for epoch in range(args.start_epoch, args.epochs):
        train(train_loader, model, criterion, optimizer, scaler, epoch, device, args)
        acc1 = validate(val_loader, model, criterion, args)
        scheduler.step()

        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)

        save_checkpoint({
            'epoch': epoch + 1,
            'arch': args.arch,
            'state_dict': model.state_dict(),
            'best_acc1': best_acc1,
            'optimizer': optimizer.state_dict(),
            'scheduler': scheduler.state_dict(),
            'scaler': scaler.state_dict(),
        }, is_best, args.checkpoint_dir)


def train(train_loader, model, criterion, optimizer, scaler, epoch, device, args):
    batch_time = AverageMeter('Time', ':6.3f')
    data_time = AverageMeter('Data', ':6.3f')
    losses = AverageMeter('Loss', ':.6f')
    top1 = AverageMeter('Acc@1', ':6.2f')
    top5 = AverageMeter('Acc@5', ':6.2f')
    progress = ProgressMeter(len(train_loader), [batch_time, data_time, losses, top1, top5],
                             prefix="Epoch: [{}]".format(epoch))

    model.train()

    end = time.time()
    for i, (images, target) in enumerate(train_loader):
        data_time.update(time.time() - end)

        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)

        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(images)
            loss = criterion(output, target)

        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        top5.update(acc5[0], images.size(0))

        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

        batch_time.update(time.time() - end)
        end = time.time()

        if i % args.print_freq == 0:
            progress.display(i + 1)


def validate(val_loader, model, criterion, args):
    batch_time = AverageMeter('Time', ':6.3f')
    losses = AverageMeter('Loss', ':.6f')
    top1 = AverageMeter('Acc@1', ':6.2f')
    top5 = AverageMeter('Acc@5', ':6.2f')
    progress = ProgressMeter(len(val_loader), [batch_time, losses, top1, top5], prefix='Test: ')

    model.eval()

    with torch.no_grad():
        end = time.time()
        for i, (images, target) in enumerate(val_loader):
            images = images.cuda(args.gpu, non_blocking=True)
            target = target.cuda(args.gpu, non_blocking=True)

            output = model(images)
            loss = criterion(output, target)

            acc1, acc5 = accuracy(output, target, topk=(1, 5))
            losses.update(loss.item(), images.size(0))
            top1.update(acc1[0], images.size(0))
            top5.update(acc5[0], images.size(0))

            batch_time.update(time.time() - end)
            end = time.time()
            if i % args.print_freq == 0:
                progress.display(i + 1)

    print(' * Acc@1 {:.3f} Acc@5 {:.3f}'.format(float(top1.avg), float(top5.avg)))
    return top1.avg


def save_checkpoint(state, is_best, folder):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, 'checkpoint.pth.tar')
    torch.save(state, path)
    if is_best:
        shutil.copyfile(path, os.path.join(folder, 'model_best.pth.tar'))


class AverageMeter:
    """Keeps the last value and the running mean."""

    def __init__(self, name, fmt=':f'):
        self.name = name
        self.fmt = fmt
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ('{name} {val' + self.fmt + '} ({avg' + self.fmt + '})').format(
            name=self.name, val=float(self.val), avg=float(self.avg))


class ProgressMeter:
    def __init__(self, num_batches, meters, prefix=""):
        width = len(str(num_batches))
        self.batch_fmt = '[{:' + str(width) + 'd}/' + str(num_batches) + ']'
        self.meters = meters
        self.prefix = prefix

    def display(self, batch):
        entries = [self.prefix + self.batch_fmt.format(batch)]
        entries += [str(meter) for meter in self.meters]
        print('\t'.join(entries), flush=True)


def accuracy(output, target, topk=(1,)):
    """Percentage of targets among the k highest outputs, for each k in topk."""
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


if __name__ == '__main__':
    main()
