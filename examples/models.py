"""The example networks. Each takes the digits' raw pixels (0..16) and scales them itself, so that a
job needs no preprocessing. `width` shrinks them for the numerical fixtures of tests/golden."""
import inspect

import onnx
import torch
from torch import nn


class Scaled(nn.Module):
    """Multiplies the input by a constant, then applies the body."""

    def __init__(self, body, scale=1 / 16):
        super().__init__()
        self.body = body
        self.scale = scale

    def forward(self, x):
        return self.body(x * self.scale)


def mlp(width=128):
    return Scaled(nn.Sequential(
        nn.Linear(64, width), nn.ReLU(),
        nn.Linear(width, width // 2), nn.ReLU(),
        nn.Linear(width // 2, 10)))


def conv_bn_relu(inputs, outputs, stride=1):
    return [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


def cnn(width=32):
    return Scaled(nn.Sequential(
        *conv_bn_relu(1, width),
        *conv_bn_relu(width, 2 * width),
        nn.MaxPool2d(2),
        *conv_bn_relu(2 * width, 2 * width),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 2 * 2, 10)))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, as in ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def resnet(width=16, blocks=2):
    layers = conv_bn_relu(1, width)
    inputs = width
    for stage, outputs in enumerate([width, 2 * width, 4 * width]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(BasicBlock(inputs, outputs, stride))
            inputs = outputs
    return Scaled(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)))


# Name -> (constructor, shape of one input row).
MODELS = {"mlp": (mlp, (64,)), "cnn": (cnn, (1, 8, 8)), "resnet": (resnet, (1, 8, 8))}


def export(model, row_shape, path):
    """Writes an ONNX file to train from: training mode, nothing folded, a dynamic batch axis."""
    model = model.train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    options = {}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:  # PyTorch 2.5 and later
        options["dynamo"] = False
    torch.onnx.export(
        model, (torch.zeros(2, *row_shape),), path,
        input_names=["x"], output_names=["logits"],
        dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}},
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
        **options)
    # The exporter ran the model once, which moved the running statistics: put the old ones back.
    exported = onnx.load(path)
    for initializer in exported.graph.initializer:
        if "running_" in initializer.name:
            initializer.raw_data = state[initializer.name].numpy().tobytes()
    onnx.save(exported, path)
