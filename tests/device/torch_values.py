"""Writes tests/device/fixtures/torch_values.txt: what PyTorch and scikit-learn make of losses, optimizers
and metrics, for tests/device/torch_values_test.cc. Needs torch (2.9 was used), numpy and scikit-learn.

A line is "case/value: numbers". Inputs are given as well, so that the test has no generator to agree with."""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from sklearn import metrics

torch.manual_seed(5)
lines = []


def put(name, tensor):
    numbers = torch.as_tensor(tensor, dtype=torch.float64).flatten().tolist()
    lines.append(name + ": " + " ".join(repr(n) for n in numbers))


def loss_case(name, x, target, loss):
    x = x.clone().requires_grad_()
    value = loss(x, target)
    value.backward()
    put(f"{name}/x", x.detach())
    put(f"{name}/target", target)
    put(f"{name}/loss", value.detach())
    put(f"{name}/grad", x.grad)


def losses():
    x = torch.randn(6, 4, dtype=torch.float64)
    labels = torch.tensor([0, 3, 1, -100, 2, 3])
    weight = torch.tensor([0.5, 2.0, 1.0, 0.25], dtype=torch.float64)
    loss_case("weighted", x, labels, lambda x, t: F.cross_entropy(x, t, weight=weight))
    loss_case("weighted_smooth", x, labels,
              lambda x, t: F.cross_entropy(x, t, weight=weight, label_smoothing=0.2))
    loss_case("nll", F.log_softmax(x, 1) + 0.1, labels, lambda x, t: F.nll_loss(x, t))
    loss_case("nll_weighted", F.log_softmax(x, 1), labels, lambda x, t: F.nll_loss(x, t, weight=weight))
    y = torch.randn(6, 4, dtype=torch.float64) * 2
    y[0, 0] = x[0, 0]
    loss_case("l1", x, y, F.l1_loss)
    loss_case("smooth_l1", x, y, F.smooth_l1_loss)
    loss_case("smooth_l1_beta", x, y, lambda x, t: F.smooth_l1_loss(x, t, beta=0.5))
    loss_case("huber", x, y, lambda x, t: F.huber_loss(x, t, delta=1.5))
    t = torch.rand(6, 4, dtype=torch.float64).round()
    loss_case("pos_weight", x * 10, t, lambda x, t: F.binary_cross_entropy_with_logits(
        x, t, pos_weight=torch.tensor([3.0, 0.5, 1.0, 2.0], dtype=torch.float64)))
    loss_case("pos_weight_one", x, t, lambda x, t: F.binary_cross_entropy_with_logits(
        x, t, pos_weight=torch.tensor([3.0], dtype=torch.float64)))


def optimizers():
    start = torch.randn(5, dtype=torch.float64)
    gradients = torch.randn(4, 5, dtype=torch.float64)
    put("optimizer/start", start)
    put("optimizer/gradients", gradients)
    kinds = {
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
        "adagrad_decay": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.5, weight_decay=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
        "rmsprop_all": lambda p: torch.optim.RMSprop(
            p, lr=0.1, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.8, centered=True),
    }
    for name, make in kinds.items():
        p = start.clone().requires_grad_()
        optimizer = make([p])
        for g in gradients:
            p.grad = g.clone()
            optimizer.step()
        put(f"optimizer/{name}", p.detach())


def measures():
    rng = np.random.default_rng(3)
    scores = np.round(rng.normal(size=60), 1)  # with ties
    targets = (rng.random(60) < 0.4).astype(float)
    put("auc/scores", scores)
    put("auc/targets", targets)
    put("auc/value", metrics.roc_auc_score(targets, scores))
    logits = rng.normal(size=(40, 5))
    logits[:, 4] = -9  # a class that occurs nowhere
    labels = rng.integers(0, 4, size=40)
    put("f1/logits", logits)
    put("f1/labels", labels)
    put("f1/value", metrics.f1_score(labels, logits.argmax(1), average="macro"))
    put("f1/logloss", F.cross_entropy(torch.tensor(logits), torch.tensor(labels)))


losses()
optimizers()
measures()
path = pathlib.Path(__file__).parent / "fixtures" / "torch_values.txt"
path.write_text("\n".join(lines) + "\n")
