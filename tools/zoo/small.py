"""Networks from beginners' tutorials, and DCGAN.

Layer sizes are those of the tutorials named in each entry; our parameter counts must match the printed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, relu

from gpuwise.workload.capture.torch.images import image_subject
from gpuwise.workload.capture.torch.step import Subject
from gpuwise.workload.capture.torch.torchvision import import_torchvision
from zoo.model import Model, plain

__all__ = ["models"]


def _mlp() -> nn.Module:
    """784-512-512-10, as in the PyTorch quickstart and Keras' mnist_mlp."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def _mnist_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def _lenet(channels: int, padding: int) -> nn.Module:
    """Two 5x5 convolutions with pooling and three dense layers; LeNet-5 pads its first convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def _keras_cifar() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10))


def _tensorflow_cifar() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class _Block(nn.Module):
    """Two 3x3 convolutions with a shortcut: padded with zero channels (He 2016, option A) or projected (option B)."""

    def __init__(self, before: int, after: int, stride: int, project: bool) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm_one = nn.BatchNorm2d(after)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_two = nn.BatchNorm2d(after)
        self.stride, self.pad = stride, (after - before) // 2
        changes = stride != 1 or before != after
        self.shortcut = (
            nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) if changes and project else None
        )

    def forward(self, x: Any) -> Any:
        y = self.norm_two(self.two(relu(self.norm_one(self.one(x)))))
        if self.shortcut is not None:
            x = self.shortcut(x)
        elif self.pad:
            x = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return relu(y + x)


def _cifar_resnet(blocks: tuple[int, ...], width: int, project: bool) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage, count in enumerate(blocks):
        after = width * 2**stage
        for number in range(count):
            layers.append(_Block(before, after, 2 if stage and not number else 1, project))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def _cifar_resnet50() -> nn.Module:
    """Return the ResNet-50 for ImageNet with a first layer that keeps all pixels."""
    model = import_torchvision().models.resnet50(weights=None, num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return model


class _Dcgan(nn.Module):
    """Generator and discriminator for 64x64 images with 64 channels at the widest image (Radford et al. 2015)."""

    def __init__(self, noise: int = 100, width: int = 64) -> None:
        super().__init__()
        sizes = [width * 8, width * 4, width * 2, width]
        up: list[nn.Module] = [nn.ConvTranspose2d(noise, sizes[0], 4, 1, 0, bias=False)]
        for before, after in pairwise(sizes):
            up += [nn.BatchNorm2d(before), nn.ReLU(True), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
        up += [nn.BatchNorm2d(width), nn.ReLU(True), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
        self.generator = nn.Sequential(*up)
        down: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
        for before, after in pairwise(sizes[::-1]):
            down += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2, True)]
        self.discriminator = nn.Sequential(*down, nn.Conv2d(sizes[0], 1, 4, 1, 0, bias=False))


def _dcgan() -> Subject:
    """One step of both: the discriminator on real and generated images, then the generator through the discriminator."""

    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, 3, 64, 64), torch.randn(batch, 100, 1, 1)

    def judged(scores: Any, real: bool) -> Any:
        return binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)))

    def forward(model: Any, batch: Any, training: bool) -> Any:
        images, noise = batch
        made = model.generator(noise)
        if not training:
            return made
        both = judged(model.discriminator(images), True) + judged(model.discriminator(made.detach()), False)
        return both + judged(model.discriminator(made), True)

    return Subject(build=_Dcgan, inputs=inputs, forward=forward)


def _images(
    name: str,
    title: str,
    source: str,
    build: Callable[[], nn.Module],
    size: int,
    channels: int,
    published: int,
    *aliases: str,
    **more: Any,
) -> Model:
    return Model(
        name=name,
        title=title,
        family="tutorial",
        source=source,
        subject=plain(lambda: image_subject(build, size, channels)),
        aliases=aliases,
        published=published,
        image=size,
        **({"optimizer": "adam", "batch": 64} | more),
    )


def models() -> list[Model]:
    """Return the tutorials' networks at the tutorials' batch sizes."""
    return [
        _images(
            "mnist_mlp",
            "MNIST MLP",
            "PyTorch quickstart tutorial",
            _mlp,
            28,
            1,
            669_706,
            "mlp",
            "fashion_mnist_mlp",
            optimizer="sgd",
        ),
        _images("mnist_cnn", "MNIST CNN", "pytorch/examples mnist; Keras mnist_cnn", _mnist_cnn, 28, 1, 1_199_882, "simple_cnn"),
        _images("lenet5", "LeNet-5", "LeCun et al. 1998", lambda: _lenet(1, 2), 28, 1, 61_706, "lenet", optimizer="sgd"),
        _images(
            "cifar10_tutorial",
            "CIFAR-10 tutorial CNN",
            "PyTorch 60-minute blitz",
            lambda: _lenet(3, 0),
            32,
            3,
            62_006,
            "pytorch_cifar10",
            optimizer="momentum",
            batch=4,
        ),
        _images(
            "keras_cifar10_cnn",
            "Keras CIFAR-10 CNN",
            "Keras cifar10_cnn",
            _keras_cifar,
            32,
            3,
            1_250_858,
            "cifar10_cnn",
            batch=32,
        ),
        _images(
            "tf_cifar10_cnn",
            "TensorFlow CNN tutorial",
            "TensorFlow tutorials/images/cnn",
            _tensorflow_cifar,
            32,
            3,
            122_570,
            batch=32,
        ),
        _images(
            "resnet20_cifar",
            "ResNet-20 (CIFAR)",
            "arXiv:1512.03385 section 4.2",
            lambda: _cifar_resnet((3, 3, 3), 16, False),
            32,
            3,
            270_000,
            "resnet20",
            tolerance=0.01,
            optimizer="momentum",
            batch=128,
        ),
        _images(
            "resnet56_cifar",
            "ResNet-56 (CIFAR)",
            "arXiv:1512.03385 section 4.2",
            lambda: _cifar_resnet((9, 9, 9), 16, False),
            32,
            3,
            850_000,
            "resnet56",
            tolerance=0.01,
            optimizer="momentum",
            batch=128,
        ),
        _images(
            "resnet18_cifar",
            "ResNet-18 (CIFAR)",
            "arXiv:1512.03385 with a 3x3 stem, as CIFAR tutorials use it",
            lambda: _cifar_resnet((2, 2, 2, 2), 64, True),
            32,
            3,
            11_173_962,
            "resnet18_cifar10",
            optimizer="momentum",
            batch=128,
        ),
        _images(
            "resnet50_cifar",
            "ResNet-50 (CIFAR)",
            "arXiv:1512.03385 with a 3x3 stem, as CIFAR tutorials use it",
            _cifar_resnet50,
            32,
            3,
            23_520_842,
            "resnet50_cifar10",
            "resnet50 (cifar, 32 px)",
            optimizer="momentum",
            batch=256,
        ),
        Model(
            name="dcgan",
            title="DCGAN",
            family="gan",
            source="arXiv:1511.06434; sizes of the PyTorch tutorial",
            subject=plain(_dcgan),
            aliases=("gan",),
            published=3_576_704 + 2_765_568,
            optimizer="adam",
            batch=128,
            image=64,
        ),
    ]
