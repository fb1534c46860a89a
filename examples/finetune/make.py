#!/usr/bin/env python3
"""Writes what pretrain.yaml and finetune.yaml read: resnet18.onnx (torchvision's network, ten classes) and index files.

The first job sees the digits 0 to 4 only; the second has 200 images of all ten. Needs PyTorch, torchvision, onnx."""
import pathlib
import sys

import numpy as np
import torch
import torchvision
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import export_models  # noqa: E402


class Enlarged(nn.Module):
    """ResNet-18 on digits of 8x8: every pixel becomes 4x4, in three equal channels."""

    def __init__(self):
        super().__init__()
        self.resnet = torchvision.models.resnet18(num_classes=10)

    def forward(self, x):
        n = x.shape[0]
        x = (x / 16).reshape(n, 1, 8, 1, 8, 1).expand(n, 3, 8, 4, 8, 4).reshape(n, 3, 32, 32)
        return self.resnet(x)


def main():
    _, labels = export_models.load_digits()
    train, test = export_models.split(labels)
    np.save(HERE / "first_five.npy", train[labels[train] < 5])
    np.save(HERE / "first_five_val.npy", test[labels[test] < 5])
    few = np.concatenate([train[labels[train] == c][:20] for c in range(10)])
    np.save(HERE / "few.npy", np.sort(few))
    np.save(HERE / "test.npy", test)
    torch.manual_seed(0)
    torch.onnx.export(Enlarged().train(), (torch.zeros(2, 64),), str(HERE / "resnet18.onnx"), dynamo=False,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
                      input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}})


if __name__ == "__main__":
    main()
