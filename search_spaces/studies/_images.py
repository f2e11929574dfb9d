"""A part of CIFAR-10 that 2 cores can train on: the values of the budget `images`."""

from typing import Any

PART: dict[str, Any] = {"data.kind": "cifar10", "data.train_size": 5_000, "data.val_size": 1_000}
"""5,000 of the 50,000 images, and all 10,000 test images."""

IMAGES: dict[str, Any] = {
    **PART,
    "model.depth": 4,
    "optimizer.epochs": 20,
    "optimizer.lr": 0.002,
    "optimizer.batch_size": 100,
}

SEARCHED: dict[str, Any] = {**IMAGES, "optimizer.epochs": 10}
"""The same for searches, which train more runs."""

IMAGES_GAP = "5,000 images of CIFAR-10, without augmentation, in a ViT of 4 blocks; the paper trains DeiT on ImageNet"
"""What every claim that is judged at `images` must bear with."""
