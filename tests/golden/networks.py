"""Known convolutional networks at 32x32 with narrow layers: LeNet-5, ResNet-18, VGG-11-BN, MobileNetV2, DenseNet-121."""
import torch
import torchvision.models as models
from torch import nn
from torchvision.models.resnet import BasicBlock

from cases import Case

IMAGE = {"x": ("float", (3, 32, 32))}


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(16, 24, 5), nn.Tanh(), nn.Flatten(), nn.Linear(24, 84), nn.Tanh(), nn.Linear(84, 10))


class NarrowResNet(models.ResNet):
    """torchvision's, whose stem has 64 channels, with an eighth of the channels everywhere."""

    def __init__(self, layers):
        super().__init__(BasicBlock, layers, num_classes=10)
        self.inplanes = 8
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = self._make_layer(BasicBlock, 8, layers[0])
        self.layer2 = self._make_layer(BasicBlock, 12, layers[1], stride=2)
        self.layer3 = self._make_layer(BasicBlock, 16, layers[2], stride=2)
        self.layer4 = self._make_layer(BasicBlock, 24, layers[3], stride=2)
        self.fc = nn.Linear(24, 10)


def vgg11_bn():
    body = models.vgg.make_layers([8, "M", 12, "M", 16, 16, "M", 24, 24, "M", 24, 24, "M"], batch_norm=True)
    return nn.Sequential(body, nn.Flatten(), nn.Linear(24, 32), nn.ReLU(True), nn.Dropout(0.0), nn.Linear(32, 32),
                         nn.ReLU(True), nn.Dropout(0.0), nn.Linear(32, 10))


def mobilenet_v2():
    settings = [[1, 8, 1, 1], [3, 8, 2, 1], [3, 8, 2, 2], [3, 12, 2, 2], [3, 16, 2, 1], [3, 20, 2, 2], [3, 24, 1, 1]]
    network = models.MobileNetV2(num_classes=10, inverted_residual_setting=settings, round_nearest=4, dropout=0.0)
    network.features[0] = models.mobilenetv2.Conv2dNormActivation(3, 32, stride=1, activation_layer=nn.ReLU6)
    network.features[-1] = models.mobilenetv2.Conv2dNormActivation(24, 48, kernel_size=1, activation_layer=nn.ReLU6)
    network.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(48, 10))
    return network


def densenet121():
    network = models.DenseNet(growth_rate=4, block_config=(6, 12, 24, 16), num_init_features=8, bn_size=2, num_classes=10)
    network.features.conv0 = nn.Conv2d(3, 8, 3, padding=1, bias=False)  # for small images: 2x2 positions at the end
    return network


def away_from_ones(build):
    """So that a wrong scale or bias of a batch norm shows."""
    def built():
        network = build()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
        return network
    return built


# Batch norm on few values is chaotic: float32 follows float64 for twenty steps at low rates only.
RATES = dict(rows=16, sgd=dict(lr=1e-3, momentum=0.9), adamw=dict(lr=1e-4, weight_decay=0.01))
CASES = {
    "lenet5": Case(lenet5, {"x": ("float", (1, 32, 32))}),
    "resnet18": Case(away_from_ones(lambda: NarrowResNet([2, 2, 2, 2])), IMAGE, rows=16,
                     sgd=dict(lr=3e-4, momentum=0.9), adamw=dict(lr=3e-5, weight_decay=0.01)),
    "vgg11_bn": Case(away_from_ones(vgg11_bn), IMAGE, **RATES),
    "mobilenet_v2": Case(away_from_ones(mobilenet_v2), IMAGE, rows=12, sgd=dict(lr=5e-5, momentum=0.9),
                         adamw=dict(lr=5e-6, weight_decay=0.01)),
    "densenet121": Case(away_from_ones(densenet121), IMAGE, rows=16, sgd=dict(lr=1e-4, momentum=0.9),
                        adamw=dict(lr=1e-5, weight_decay=0.01)),
}
