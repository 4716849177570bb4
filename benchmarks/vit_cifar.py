"""Our ViT recipe beside timm's ViT of the same shape in a plain PyTorch loop, each with the same time on this machine.

python benchmarks/vit_cifar.py ROOT --minutes 10 [--only zoo|timm]     ROOT holds train/<class>/ and test/<class>/
Needs lightning-zoo[vision].  Each side measures its own step first and plans as many steps as fit into the budget, so
that its cosine ends with it; decoding, this measurement and the test are not counted.  Threads: OMP_NUM_THREADS.
From the configs timm's side has: size, patch, dim, depth, heads, hidden, dropout, batch size, optimizer (without our
decay groups and fused kernel), schedule, clipping, label smoothing.  Its augmentation is the customary one, image by
image: a random crop and a mirror image.
"""

# Shapes: N images, B batch, H height, W width.

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import torch
import torch.nn.functional as F
from jsonargparse import Namespace
from loading import load
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from zoo.cli.errors import quiet

WARM, TIMED = 5, 20  # steps before the clock starts, steps that are timed
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def seconds_now() -> float:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Clock(pl.Callback):
    """Notes when the first, and the last, of the steps after ``after`` ended."""

    def __init__(self, after: int = 0):
        self.after, self.start, self.end = after, 0.0, 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.start = seconds_now()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        if trainer.global_step == self.after:
            self.start = seconds_now()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.end = seconds_now()


# ---- zoo


def trainer(given: Namespace, steps: int, clock: Clock, options: argparse.Namespace) -> pl.Trainer:
    return pl.Trainer(
        max_epochs=-1,
        max_steps=steps,
        accelerator="auto",
        devices=1,
        precision=options.precision,
        gradient_clip_val=clip(given),
        use_distributed_sampler=False,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )


def train_zoo(options: argparse.Namespace) -> dict:
    given, task, data = configured(options)
    for split in ("train", "test"):
        data.loader(split)  # decodes
    clock = Clock(after=WARM)
    trainer(given, WARM + TIMED, clock, options).fit(task, data)
    steps = max(1, int(options.minutes * 60 * TIMED / (clock.end - clock.start)))
    if options.epochs:
        steps = options.epochs * len(data.loader("train"))
    fresh, clock = configured(options)[1], Clock()
    data.task = fresh
    runner = trainer(given, steps, clock, options)
    runner.fit(fresh, data)
    accuracy = runner.test(fresh, data, verbose=False)[0]["test/accuracy"]
    return result("zoo", fresh, accuracy, steps, data.batch_size, len(data.loader("train").dataset), clock)


# ---- timm


def pictures(folder: Path, size: list[int]) -> tuple[Tensor, Tensor]:
    """(N, 3, H, W) uint8 and (N,) class ids, classes in the order of their names."""
    from torchvision.datasets import ImageFolder

    files = ImageFolder(str(folder)).samples
    images = np.stack([np.asarray(Image.open(file).convert("RGB").resize(size)) for file, _ in files])
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.tensor([label for _, label in files])


def timm_model(given: Namespace, task: pl.LightningModule) -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    shape, tokenizer = given.model.init_args.backbone.init_args, task.tokenizer
    return VisionTransformer(
        img_size=(tokenizer.height, tokenizer.width),
        patch_size=tokenizer.patch,
        embed_dim=shape.dim,
        depth=shape.depth,
        num_heads=shape.heads,
        mlp_ratio=(shape.get("hidden") or 4 * shape.dim) / shape.dim,
        pos_drop_rate=shape.get("dropout") or 0.0,
        proj_drop_rate=shape.get("dropout") or 0.0,
        drop_path_rate=shape.get("drop_path") or 0.0,
        num_classes=task.classes,
        class_token=False,
        global_pool="avg",
    ).to(DEVICE)


def batches(images: Tensor, labels: Tensor, size: int, change: Callable) -> Iterator[tuple[Tensor, Tensor]]:
    """Without end, each epoch in a new order, each image changed by itself."""
    while True:
        for index in torch.randperm(len(images)).split(size):
            x = torch.stack([change(images[i]) for i in index])
            yield x.to(DEVICE), labels[index].to(DEVICE)


def train_timm(options: argparse.Namespace) -> dict:
    from torchvision.transforms import v2

    given, task, _ = configured(options)
    tokenizer, size = task.tokenizer, given.data.init_args.batch_size
    shape = [tokenizer.height, tokenizer.width]
    mean, std = (x.flatten().tolist() for x in (tokenizer.mean, tokenizer.std))
    scaled = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    change = v2.Compose([v2.RandomCrop(shape, padding=options.padding), v2.RandomHorizontalFlip(), *scaled])
    images, labels = pictures(Path(options.root) / "train", shape[::-1])
    tested, truth = pictures(Path(options.root) / "test", shape[::-1])
    smoothing, norm = task.label_smoothing, clip(given)

    def fit(model: nn.Module, steps: int, after: int, total: int) -> Clock:
        model.train()
        optimizer = task.optimizer(model.parameters())
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: task.schedule.factor(step, total))
        clock = Clock()
        clock.start = seconds_now()
        for step, (x, y) in zip(range(1, steps + 1), batches(images, labels, size, change)):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=options.precision == "bf16-mixed"):
                loss = F.cross_entropy(model(x), y, label_smoothing=smoothing)
            optimizer.zero_grad()
            loss.backward()
            if norm:
                nn.utils.clip_grad_norm_(model.parameters(), norm)
            optimizer.step()
            schedule.step()
            if step == after:
                clock.start = seconds_now()
        clock.end = seconds_now()
        return clock

    clock = fit(timm_model(given, task), WARM + TIMED, WARM, WARM + TIMED)
    steps = max(1, int(options.minutes * 60 * TIMED / (clock.end - clock.start)))
    torch.manual_seed(options.seed)
    model = timm_model(given, task)
    clock = fit(model, steps, 0, steps)
    right, plain = 0, v2.Compose(scaled)
    with torch.no_grad():
        model.eval()
        for x, y in zip(tested.split(size), truth.split(size)):
            right += int((model(plain(x).to(DEVICE)).argmax(-1).cpu() == y).sum())
    return result("timm", model, right / len(truth), steps, size, len(images), clock)


# ---- both


def configured(options: argparse.Namespace) -> tuple[Namespace, pl.LightningModule, pl.LightningDataModule]:
    """Both sides train on all of train/: nothing is held out."""
    torch.manual_seed(options.seed)
    return load(options.config, f"--data.init_args.root={options.root}", "--data.init_args.val=0")


def clip(given: Namespace) -> float:
    """What gradients are clipped at: as ``python -m zoo``, at 1 where the config does not say."""
    return 1.0 if given.trainer.gradient_clip_val is None else given.trainer.gradient_clip_val


def result(side: str, model: nn.Module, accuracy: float, steps: int, batch: int, images: int, clock: Clock) -> dict:
    per_epoch = -(-images // batch)
    seen = steps // per_epoch * images + steps % per_epoch * batch
    seconds = clock.end - clock.start
    return {
        "side": side,
        "parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        "test accuracy": f"{accuracy:.4f}",
        "steps": str(steps),
        "epochs": f"{seen / images:.2f}",
        "images/s": f"{seen / seconds:.0f}",
        "seconds": f"{seconds:.1f}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", help="a folder with train/<class>/ and test/<class>/")
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, for each side")
    parser.add_argument("--only", choices=("zoo", "timm"))
    parser.add_argument(
        "--config", nargs="+", default=["vit_cifar", "vit_cifar_cpu"], help="the later over the earlier"
    )
    parser.add_argument("--epochs", type=int, help="of the zoo's side, instead of as many as fit into the minutes")
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"), default="32-true", help="of both sides")
    parser.add_argument("--padding", type=int, default=4, help="of timm's random crop")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for split in ("train", "test"):
        if not (Path(options.root) / split).is_dir():
            print(f"{options.root}: no folder {split}/ of class folders", file=sys.stderr)
            return 1
    quiet()
    title = f"{' + '.join(options.config)}, {options.precision}, {DEVICE}, {torch.get_num_threads()} threads"
    found = []
    try:
        for side, train in {"zoo": train_zoo, "timm": train_timm}.items():
            if options.only in (None, side):
                found.append(train(options))
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    table = Table(*found[0], title=title)
    for row in found:
        table.add_row(*row.values())
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
