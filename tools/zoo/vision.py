"""Image classifiers from torchvision and timm, which provide the published weights and therefore the published architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from gpuwise.workload.capture.torch.images import image_subject
from gpuwise.workload.capture.torch.step import Subject
from gpuwise.workload.capture.torch.torchvision import import_torchvision
from zoo.model import Model, plain

__all__ = ["models"]

# name, parameters in the weights' metadata of torchvision 0.28, image, title, aliases
_TORCHVISION = """
alexnet             61100840  224  AlexNet
vgg11              132863336  224  VGG-11
vgg13              133047848  224  VGG-13
vgg16              138357544  224  VGG-16              vgg
vgg19              143667240  224  VGG-19
vgg11_bn           132868840  224  VGG-11-BN
vgg13_bn           133053736  224  VGG-13-BN
vgg16_bn           138365992  224  VGG-16-BN
vgg19_bn           143678248  224  VGG-19-BN
resnet18            11689512  224  ResNet-18
resnet34            21797672  224  ResNet-34
resnet50            25557032  224  ResNet-50           resnet resnet50_v1.5 resnet50v1.5
resnet101           44549160  224  ResNet-101
resnet152           60192808  224  ResNet-152
resnext50_32x4d     25028904  224  ResNeXt-50-32x4d    resnext50
resnext101_32x8d    88791336  224  ResNeXt-101-32x8d   resnext101
resnext101_64x4d    83455272  224  ResNeXt-101-64x4d
wide_resnet50_2     68883240  224  WideResNet-50-2     wide_resnet50 wrn50_2
wide_resnet101_2   126886696  224  WideResNet-101-2    wide_resnet101 wrn101_2
densenet121          7978856  224  DenseNet-121        densenet
densenet161         28681000  224  DenseNet-161
densenet169         14149480  224  DenseNet-169
densenet201         20013928  224  DenseNet-201
squeezenet1_0        1248424  224  SqueezeNet-1.0      squeezenet squeezenet1.0
squeezenet1_1        1235496  224  SqueezeNet-1.1      squeezenet1.1
shufflenet_v2_x0_5   1366792  224  ShuffleNetV2-x0.5   shufflenet_v2_x0.5
shufflenet_v2_x1_0   2278604  224  ShuffleNetV2-x1.0   shufflenet_v2_x1.0 shufflenet_v2 shufflenet
shufflenet_v2_x1_5   3503624  224  ShuffleNetV2-x1.5   shufflenet_v2_x1.5
shufflenet_v2_x2_0   7393996  224  ShuffleNetV2-x2.0   shufflenet_v2_x2.0
mnasnet0_5           2218512  224  MNASNet-0.5         mnasnet0.5
mnasnet0_75          3170208  224  MNASNet-0.75        mnasnet0.75
mnasnet1_0           4383312  224  MNASNet-1.0         mnasnet mnasnet1.0
mnasnet1_3           6282256  224  MNASNet-1.3         mnasnet1.3
mobilenet_v2         3504872  224  MobileNetV2         mobilenet mobilenetv2_100
mobilenet_v3_large   5483032  224  MobileNetV3-Large   mobilenet_v3 mobilenetv3_large_100
mobilenet_v3_small   2542856  224  MobileNetV3-Small   mobilenetv3_small_100
efficientnet_v2_s   21458488  384  EfficientNetV2-S    efficientnetv2 tf_efficientnetv2_s
efficientnet_v2_m   54139356  480  EfficientNetV2-M    tf_efficientnetv2_m
efficientnet_v2_l  118515272  480  EfficientNetV2-L    tf_efficientnetv2_l
"""

# name, millions of parameters in timm's results tables, image, optimizer, timm's name, title, aliases
_TIMM = """
inception_v4        42.68  299 momentum inception_v4                   Inception-v4
seresnext101_32x4d  48.96  224 momentum seresnext101_32x4d             SE-ResNeXt-101-32x4d  se_resnext101 se_resnext101_32x4d
efficientnet_b0      5.29  224 momentum efficientnet_b0                EfficientNet-B0       efficientnet
efficientnet_b1      7.79  240 momentum efficientnet_b1                EfficientNet-B1
efficientnet_b2      9.11  260 momentum efficientnet_b2                EfficientNet-B2
efficientnet_b3     12.23  300 momentum efficientnet_b3                EfficientNet-B3
efficientnet_b4     19.34  380 momentum efficientnet_b4                EfficientNet-B4
efficientnet_b5     30.39  456 momentum efficientnet_b5                EfficientNet-B5
efficientnet_b6     43.04  528 momentum efficientnet_b6                EfficientNet-B6
efficientnet_b7     66.35  600 momentum efficientnet_b7                EfficientNet-B7
regnety_002          3.16  224 momentum regnety_002                    RegNetY-200MF         regnet_y_200mf
regnety_004          4.34  224 momentum regnety_004                    RegNetY-400MF         regnet_y_400mf
regnety_008          6.26  224 momentum regnety_008                    RegNetY-800MF         regnet_y_800mf
regnety_016         11.20  224 momentum regnety_016                    RegNetY-1.6GF
regnety_032         19.44  224 momentum regnety_032                    RegNetY-3.2GF
regnety_040         20.65  224 momentum regnety_040                    RegNetY-4GF           regnety regnety_4gf
regnety_064         30.58  224 momentum regnety_064                    RegNetY-6.4GF
regnety_080         39.18  224 momentum regnety_080                    RegNetY-8GF           regnet_y_8gf
regnety_120         51.82  224 momentum regnety_120                    RegNetY-12GF
regnety_160         83.59  224 momentum regnety_160                    RegNetY-16GF
regnety_320        145.05  224 momentum regnety_320                    RegNetY-32GF
convnext_tiny       28.59  224 adamw    convnext_tiny                  ConvNeXt-T            convnext convnext_t
convnext_small      50.22  224 adamw    convnext_small                 ConvNeXt-S            convnext_s
convnext_base       88.59  224 adamw    convnext_base                  ConvNeXt-B            convnext_b
convnext_large     197.77  224 adamw    convnext_large                 ConvNeXt-L            convnext_l
vit_tiny             5.72  224 adamw    vit_tiny_patch16_224           ViT-Ti/16             vit_ti_16 vit_ti vit_tiny_patch16_224
vit_small           22.05  224 adamw    vit_small_patch16_224          ViT-S/16              vit_s_16 vit_s vit_small_patch16_224
vit_base            86.57  224 adamw    vit_base_patch16_224           ViT-B/16              vit vit_b_16 vit_base_patch16_224
vit_base_patch32    88.22  224 adamw    vit_base_patch32_224           ViT-B/32              vit_b_32 vit_base_patch32_224
vit_large          304.33  224 adamw    vit_large_patch16_224          ViT-L/16              vit_l_16 vit_l vit_large_patch16_224
vit_huge           632.05  224 adamw    vit_huge_patch14_224           ViT-H/14              vit_h_14 vit_h vit_huge_patch14_224
deit_tiny            5.72  224 adamw    deit_tiny_patch16_224          DeiT-Ti               deit_ti deit_tiny_patch16_224
deit_small          22.05  224 adamw    deit_small_patch16_224         DeiT-S                deit deit_s deit_small_patch16_224
deit_base           86.57  224 adamw    deit_base_patch16_224          DeiT-B                deit_b deit_base_patch16_224
deit_base_distilled 87.34  224 adamw    deit_base_distilled_patch16_224 DeiT-B-distilled     deit_base_distilled_patch16_224
swin_tiny           28.29  224 adamw    swin_tiny_patch4_window7_224   Swin-T                swin_t swin_tiny_patch4_window7_224
swin_small          49.61  224 adamw    swin_small_patch4_window7_224  Swin-S                swin_s swin_small_patch4_window7_224
swin_base           87.77  224 adamw    swin_base_patch4_window7_224   Swin-B                swin_b swin_base_patch4_window7_224
swin_large         196.53  224 adamw    swin_large_patch4_window7_224  Swin-L                swin_l swin_large_patch4_window7_224
mixer_s16           18.53  224 adamw    mixer_s16_224                  MLP-Mixer-S/16        mlp_mixer_s mixer_s16_224
mixer_b16           59.88  224 adamw    mixer_b16_224                  MLP-Mixer-B/16        mlp_mixer mlp_mixer_b mixer_b16_224
mixer_l16          208.20  224 adamw    mixer_l16_224                  MLP-Mixer-L/16        mlp_mixer_l mixer_l16_224
"""


def models() -> list[Model]:
    """Return all of them at the usual training sizes: 256 images, or fewer if the images or the model are large."""
    import_torchvision()
    return (
        [_torchvision(*line.split()) for line in _lines(_TORCHVISION)]
        + [_timm(*line.split()) for line in _lines(_TIMM)]
        + _with_helpers()
    )


def _lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.strip()]


def _batch(parameters: float, image: int) -> int:
    """Return a batch size that people use on one card, which is smaller for large images and large models."""
    if image > 400 or parameters > 250e6:
        return 32
    return 64 if image > 250 or parameters > 80e6 else 128


def _torchvision(name: str, parameters: str, image: str, title: str, *aliases: str) -> Model:
    import torchvision

    size = int(image)
    return Model(
        name=name,
        title=title,
        family=_family(name),
        source=f"torchvision:{name}",
        subject=plain(lambda: image_subject(lambda: torchvision.models.get_model(name, weights=None), size)),
        aliases=aliases,
        published=int(parameters),
        batch=_batch(int(parameters), size),
        image=size,
    )


def _timm(name: str, millions: str, image: str, optimizer: str, timm_name: str, title: str, *aliases: str) -> Model:
    import timm

    size, parameters = int(image), round(float(millions) * 1e6)
    return Model(
        name=name,
        title=title,
        family=_family(name),
        source=f"timm:{timm_name}",
        subject=plain(lambda: image_subject(lambda: timm.create_model(timm_name, pretrained=False, num_classes=1000), size)),
        aliases=aliases,
        published=parameters,
        tolerance=6e3 / parameters,  # printed to 0.01 million
        optimizer=optimizer,
        batch=_batch(parameters, size),
        image=size,
    )


def _family(name: str) -> str:
    for family in "wide_resnet resnext resnet vgg densenet squeezenet shufflenet mnasnet mobilenet efficientnet regnet".split():
        if family in name:
            return family
    return name.split("_")[0]


def _with_helpers() -> list[Model]:
    """GoogLeNet and Inception v3 train with auxiliary classifiers, whose losses count 0.3 and 0.4."""
    import torchvision

    def googlenet() -> torch.nn.Module:
        return torchvision.models.googlenet(weights=None, aux_logits=True, init_weights=False)

    def inception() -> torch.nn.Module:
        return torchvision.models.inception_v3(weights=None, aux_logits=True, init_weights=False)

    return [
        Model(
            name="googlenet",
            title="GoogLeNet",
            family="googlenet",
            source="torchvision:googlenet, arXiv:1409.4842",
            subject=plain(lambda: _helped(googlenet, 224, 0.3)),
            aliases=("inception_v1",),
            published=13_004_888,
            batch=128,
            image=224,
        ),
        Model(
            name="inception_v3",
            title="Inception v3",
            family="inception",
            source="torchvision:inception_v3, arXiv:1512.00567",
            subject=plain(lambda: _helped(inception, 299, 0.4)),
            aliases=("inception",),
            published=27_161_264,
            batch=64,
            image=299,
        ),
    ]


def _helped(build: Callable[[], torch.nn.Module], size: int, weight: float) -> Subject:
    plain_subject = image_subject(build, size)

    def forward(model: torch.nn.Module, batch: Any, training: bool) -> Any:
        if not training:
            return model(batch[0])
        main, *helpers = model(batch[0])
        return cross_entropy(main, batch[1]) + weight * sum(cross_entropy(scores, batch[1]) for scores in helpers)

    return Subject(build=plain_subject.build, inputs=plain_subject.inputs, forward=forward)
