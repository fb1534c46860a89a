"""What a network of the fixtures is (networks*.py list them, make_networks.py writes them)."""
import dataclasses
from typing import Callable

from torch import nn


@dataclasses.dataclass
class Case:
    """A network that maps its inputs, batch first, to logits [N, classes, ...] or [N] (binary)."""
    build: Callable[[], nn.Module]
    # Input name -> what a row of it is: ("float", shape), or ("int", shape, least, one more than the largest).
    inputs: dict
    rows: int = 8
    # A row's label: ("class", shape, classes) is i64 under cross entropy, ("binary", shape) is f32 0 or 1 under binary
    # cross entropy with logits.
    label: tuple = ("class", (), 10)
    # Arguments of the optimizers of the two runs, torch.optim.SGD and AdamW: rates at which float32 follows float64.
    sgd: dict = dataclasses.field(default_factory=lambda: dict(lr=0.01, momentum=0.9))
    adamw: dict = dataclasses.field(default_factory=lambda: dict(lr=1e-3, weight_decay=0.01))
    # Which exporters can express it in training mode.
    exporters: tuple = ("torchscript", "dynamo")
    # The batch of the file where the exporter needs a fixed one.
    fixed_batch: tuple = ()
