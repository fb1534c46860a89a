"""The networks of the fixtures: the examples, narrow, and others with ops that those lack."""
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import models  # noqa: E402
from models import Scaled  # noqa: E402


def lenet():
    """Convolutions with bias, tanh, average pooling."""
    return Scaled(nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(4, 8, 3), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(8, 20), nn.Tanh(), nn.Linear(20, 10)))


def vgg():
    """Pairs of 3x3 convolutions with bias, max pooling, two fully connected layers."""
    return Scaled(nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 3 * 3, 16), nn.ReLU(), nn.Linear(16, 10)))


class InvertedResidual(nn.Module):
    """Expand, depthwise, project, as in MobileNetV2."""

    def __init__(self, inputs, outputs, stride, groups=None):
        super().__init__()
        hidden = 2 * inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=groups or hidden, bias=False),
            nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet():
    """Depthwise and grouped convolutions, Clip; the first convolution has a bias before its batch
    normalisation, whose gradient is zero in theory."""
    return Scaled(nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=True), nn.BatchNorm2d(8), nn.ReLU6(),
        InvertedResidual(8, 8, 1), InvertedResidual(8, 12, 2), InvertedResidual(12, 12, 1, groups=4),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10)))


class DenseLayer(nn.Module):
    """Batch normalisation, ReLU, convolution; the result is appended to the input's channels."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.relu = nn.ReLU()
        self.conv = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], 1)


def densenet():
    """Concatenation, average pooling between blocks."""
    return Scaled(nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False),
        DenseLayer(6, 4), DenseLayer(10, 4), DenseLayer(14, 4),
        nn.BatchNorm2d(18), nn.ReLU(), nn.Conv2d(18, 9, 1, bias=False), nn.AvgPool2d(2),
        DenseLayer(9, 4), DenseLayer(13, 4),
        nn.BatchNorm2d(17), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(17, 10)))


# Name -> (constructor, shape of one input row, batch size).
CASES = {
    "mlp": (lambda: models.mlp(32), (64,), 16),
    "cnn": (lambda: models.cnn(6), (1, 8, 8), 16),
    "resnet": (lambda: models.resnet(4, 1), (1, 8, 8), 16),
    "lenet": (lenet, (1, 8, 8), 16),
    "vgg": (vgg, (3, 12, 12), 8),
    "mobilenet": (mobilenet, (3, 16, 16), 8),
    "densenet": (densenet, (3, 8, 8), 8),
}
