"""train.py moved to the NPUs of one machine by hand, step by step as the migration guide does it; each is marked.

The guide's steps: options for the devices, the address and mixed precision (apex), a map from processes to
devices, a process group from the environment, the process's own device, loaders without pinned memory and
without a smaller last batch, model and loss on that device, apex around model and optimizer, targets in int32,
a checkpoint with apex's state, and the scaled loss.
"""
import argparse
import os
import random
import shutil
import time

import torch
import torch_npu  # NPU: the guide's `import torch.npu`, as it is called now
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed

from apex import amp  # NPU: mixed precision
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
                    help='batch size of all GPUs of this node together (default: 16)')
parser.add_argument('--image-size', default=64, type=int, help='height and width of the pictures')
parser.add_argument('--num-classes', default=10, type=int)
parser.add_argument('--lr', '--learning-rate', default=0.02, type=float, dest='lr', help='initial learning rate')
parser.add_argument('--momentum', default=0.9, type=float)
parser.add_argument('--wd', '--weight-decay', default=1e-4, type=float, dest='weight_decay')
parser.add_argument('-p', '--print-freq', default=1, type=int, metavar='N', help='print every N steps')
parser.add_argument('--resume', default='', type=str, metavar='PATH', help='checkpoint to continue from')
parser.add_argument('--checkpoint-dir', default='checkpoints', type=str, metavar='DIR')
parser.add_argument('-e', '--evaluate', action='store_true', help='only evaluate on the validation set')
# NPU: which devices, where the processes meet, and mixed precision
parser.add_argument('--device', default='npu', type=str, help='npu or gpu')
parser.add_argument('--addr', default='127.0.0.1', type=str, help='address of the first process')
parser.add_argument('--device-list', default='0,1', type=str, help='numbers of the devices to use')
parser.add_argument('--amp', action='store_true', help='mixed precision (float16) with loss scaling')
parser.add_argument('--loss-scale', default=1024., type=float, help='loss scale; -1 means dynamic')
parser.add_argument('--opt-level', default='O2', type=str, help='level of mixed precision')
parser.add_argument('--seed', default=1, type=int, help='seed of the weights and of the data')
parser.add_argument('--gpu', default=0, type=int, help='process number where none is spawned')
parser.add_argument('--world-size', default=1, type=int, help='number of nodes (of processes without spawning)')
parser.add_argument('--rank', default=0, type=int, help='rank of this node (of this process without spawning)')
parser.add_argument('--dist-backend', default='hccl', type=str)
parser.add_argument('--multiprocessing-distributed', action='store_true',
                    help='start one process for each device of the list')

best_acc1 = 0.0


# NPU: process i uses the i-th device of the list
def device_id_to_process_device_map(device_list):
    devices = sorted(int(device) for device in device_list.split(','))
    return dict(enumerate(devices))


def main():
    args = parser.parse_args()

    # NPU: where the processes meet
    os.environ['MASTER_ADDR'] = args.addr
    os.environ['MASTER_PORT'] = os.environ.get('MASTER_PORT', '29688')

    random.seed(args.seed)
    torch.manual_seed(args.seed)

    args.distributed = args.world_size > 1 or args.multiprocessing_distributed

    # NPU: as many processes as there are devices in the list
    args.process_device_map = device_id_to_process_device_map(args.device_list)
    if args.device == 'npu':
        ngpus_per_node = len(args.process_device_map)
    else:
        ngpus_per_node = torch.cuda.device_count()
    if args.multiprocessing_distributed:
        # from here on the world is counted in processes, not in nodes
        args.world_size = ngpus_per_node * args.world_size
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(args.gpu, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    global best_acc1
    # NPU: the device of this process
    args.gpu = args.process_device_map[gpu]

    if args.gpu is not None:
        print("Use GPU: {} for training".format(args.gpu))

    if args.distributed:
        if args.multiprocessing_distributed:
            args.rank = args.rank * ngpus_per_node + gpu
        # NPU: the processes find each other by the environment
        dist.init_process_group(backend=args.dist_backend, world_size=args.world_size, rank=args.rank)

    torch.manual_seed(args.seed)
    print("=> creating model '{}'".format(args.arch))
    model = ARCHS[args.arch](num_classes=args.num_classes)

    # NPU: this process computes on its own device, on its part of the batch
    loc = 'npu:{}'.format(args.gpu)
    torch.npu.set_device(loc)
    args.batch_size = int(args.batch_size / ngpus_per_node)
    args.workers = int((args.workers + ngpus_per_node - 1) / ngpus_per_node)

    # NPU: model and loss move to it; apex sees model and optimizer before the model becomes parallel
    model = model.to(loc)
    criterion = nn.CrossEntropyLoss().to(loc)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    if args.amp:
        model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, loss_scale=args.loss_scale)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)

    if args.resume:
        if os.path.isfile(args.resume):
            print("=> loading checkpoint '{}'".format(args.resume))
            checkpoint = torch.load(args.resume, map_location=loc)
            args.start_epoch = checkpoint['epoch']
            best_acc1 = checkpoint['best_acc1']
            model.load_state_dict(checkpoint['state_dict'])
            optimizer.load_state_dict(checkpoint['optimizer'])
            scheduler.load_state_dict(checkpoint['scheduler'])
            if args.amp:
                amp.load_state_dict(checkpoint['amp'])  # NPU: apex's state as well
            print("=> loaded checkpoint '{}' (epoch {})".format(args.resume, checkpoint['epoch']))
        else:
            print("=> no checkpoint found at '{}'".format(args.resume))

    cudnn.benchmark = True

    # the validation set has other pictures of the same classes
    train_set = SyntheticImages(args.steps_per_epoch * args.batch_size * args.world_size, args.image_size,
                                args.num_classes, seed=args.seed)
    val_set = SyntheticImages(args.val_steps * args.batch_size * args.world_size, args.image_size,
                              args.num_classes, seed=args.seed + 1)
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_set, seed=args.seed)
    # NPU: nothing is pinned, and no batch is smaller than the others
    train_loader = torch.utils.data.DataLoader(
        train_set, batch_size=args.batch_size, shuffle=(train_sampler is None),
        num_workers=args.workers, pin_memory=False, sampler=train_sampler, drop_last=True)
    val_loader = torch.utils.data.DataLoader(
        val_set, batch_size=args.batch_size, shuffle=True,
        num_workers=args.workers, pin_memory=False, drop_last=True)

    if args.evaluate:
        validate(val_loader, model, criterion, args)
        return

    for epoch in range(args.start_epoch, args.epochs):
        train_sampler.set_epoch(epoch)

        train(train_loader, model, criterion, optimizer, epoch, args)
        acc1 = validate(val_loader, model, criterion, args)
        scheduler.step()

        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)

        if not args.multiprocessing_distributed or args.rank % ngpus_per_node == 0:
            state = {
                'epoch': epoch + 1,
                'arch': args.arch,
                'state_dict': model.state_dict(),
                'best_acc1': best_acc1,
                'optimizer': optimizer.state_dict(),
                'scheduler': scheduler.state_dict(),
            }
            if args.amp:
                state['amp'] = amp.state_dict()  # NPU: apex's state as well
            save_checkpoint(state, is_best, args.checkpoint_dir)

    if args.distributed:
        dist.destroy_process_group()


def train(train_loader, model, criterion, optimizer, epoch, args):
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

        # NPU: int32 targets are what the device computes with; the batch moves to this process's device
        loc = 'npu:{}'.format(args.gpu)
        target = target.to(torch.int32)
        images, target = images.to(loc, non_blocking=False), target.to(loc, non_blocking=False)

        output = model(images)
        loss = criterion(output, target)

        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        top5.update(acc5[0], images.size(0))

        optimizer.zero_grad()
        # NPU: the loss is scaled for float16
        if args.amp:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()

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
            # NPU: int32 targets are what the device computes with; as in train()
            loc = 'npu:{}'.format(args.gpu)
            target = target.to(torch.int32)
            images, target = images.to(loc, non_blocking=False), target.to(loc, non_blocking=False)

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
