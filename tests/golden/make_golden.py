#!/usr/bin/env python3
"""Writes fixtures/<case>.onnx and fixtures/<case>.npz: what PyTorch computes in float64.

An .npz holds, with P = the parameters in order of name and S = parameters and running statistics:
  x u8 [4,N,...], label i64 [4,N]      batches; step t of a run reads batch t % 4
  loss f64 [], grad/<P> f32            of batch 0 with the initial weights, computed in float64
  grad_error f64 [P]                   relative L2 error of PyTorch's own float32 gradients
  <run>/options f64 [8]                lr, weight decay, momentum, dampening, nesterov, beta1, beta2, epsilon
  <run>/loss f64 [20], <run>/loss_f32 f64 [20]   of 20 steps, in float64 and in float32
  <run>/final/<S> f32                  after them, computed in float64
  <run>/final_error f64 [S]            relative L2 error of PyTorch's own float32 run
Runs are sgd, adam and adamw. Initial weights are drawn again until no input of a ReLU comes so close to
a kink that rounding could decide on its side. Made with PyTorch 1.13.1 (Debian: python3-torch)."""
import copy
import pathlib

import numpy as np
import torch

import golden_models
from kinks import KinkDistance

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
BATCHES = 4
STEPS = 20
LEAST_KINK_DISTANCE = 1e-6
RUNS = {
    "sgd": dict(lr=0.02, weight_decay=5e-4, momentum=0.9, nesterov=True),
    "adam": dict(lr=1e-3, weight_decay=1e-4),
    "adamw": dict(lr=2e-3, weight_decay=0.05, betas=(0.9, 0.99)),
}
# Cases with a run of their own: momentum without Nesterov, and with dampening.
SPECIAL = {"lenet": {"sgd": dict(lr=0.05, momentum=0.8, dampening=0.1)},
           "vgg": {"sgd": dict(lr=0.02, momentum=0.9, weight_decay=1e-3)}}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def batches(case, row_shape, size):
    """Digits for the examples' shapes, noise for the others: integers from 0 to 16."""
    if np.prod(row_shape) == 64:
        import export_models
        x, label = export_models.load_digits()
        x, label = x[: BATCHES * size], label[: BATCHES * size]
    else:
        random = np.random.RandomState(len(case))
        x = random.randint(0, 17, (BATCHES * size, int(np.prod(row_shape))))
        label = random.randint(0, 10, BATCHES * size)
    return x.astype(np.uint8).reshape(BATCHES, size, *row_shape), label.reshape(BATCHES, size)


def loss_of(model, x, label, dtype):
    return torch.nn.functional.cross_entropy(model(torch.from_numpy(x).to(dtype)),
                                             torch.from_numpy(label))


def gradients(initial, x, label, dtype):
    model = copy.deepcopy(initial).to(dtype).train()
    loss = loss_of(model, x, label, dtype)
    loss.backward()
    return loss.item(), {name: p.grad.double().numpy() for name, p in model.named_parameters()}


def train(initial, x, label, dtype, run, options):
    model = copy.deepcopy(initial).to(dtype).train()
    kinks = KinkDistance(model)
    optimizer = OPTIMIZERS[run](model.parameters(), **options)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, x[step % BATCHES], label[step % BATCHES], dtype)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    final = {name: value.double().numpy() for name, value in model.state_dict().items()
             if not name.endswith("num_batches_tracked")}
    return np.array(losses), final, kinks.least


def relative_errors(values, exact):
    return np.array([np.linalg.norm(values[name] - exact[name]) / max(np.linalg.norm(exact[name]), 1e-300)
                     for name in sorted(exact)])


def initialise(case, seed):
    constructor, _, _ = golden_models.CASES[case]
    torch.manual_seed(seed)
    model = constructor()
    # Away from 1 and 0, so that a wrong scale or bias shows.
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    return model


def runs_of(case):
    return {**RUNS, **SPECIAL.get(case, {})}


def robust_model(case, x, label):
    """Initial weights of which no run passes close to a kink; and the least distance."""
    for seed in range(100):
        model = initialise(case, seed)
        least = min(train(model, x, label, torch.float64, run, options)[2]
                    for run, options in runs_of(case).items())
        if least > LEAST_KINK_DISTANCE:
            return model, least
    raise RuntimeError(f"{case}: every seed comes close to a kink")


def make(case):
    _, row_shape, size = golden_models.CASES[case]
    x, label = batches(case, row_shape, size)
    initial, least = robust_model(case, x, label)
    # The export runs the model, which moves its running statistics: give it a copy.
    golden_models.models.export(copy.deepcopy(initial), row_shape, str(FIXTURES / f"{case}.onnx"))
    arrays = {"x": x, "label": label}

    arrays["loss"], exact = gradients(initial, x[0], label[0], torch.float64)
    _, single = gradients(initial, x[0], label[0], torch.float32)
    arrays["grad_error"] = relative_errors(single, exact)
    arrays.update({f"grad/{name}": value.astype(np.float32) for name, value in exact.items()})

    for run, options in runs_of(case).items():
        losses, final, _ = train(initial, x, label, torch.float64, run, options)
        losses_f32, final_f32, _ = train(initial, x, label, torch.float32, run, options)
        beta1, beta2 = options.get("betas", (0.9, 0.999))
        arrays[f"{run}/options"] = np.array(
            [options["lr"], options.get("weight_decay", 0), options.get("momentum", 0),
             options.get("dampening", 0), options.get("nesterov", False), beta1, beta2, 1e-8], np.float64)
        arrays[f"{run}/loss"] = losses
        arrays[f"{run}/loss_f32"] = losses_f32
        arrays[f"{run}/final_error"] = relative_errors(final_f32, final)
        arrays.update({f"{run}/final/{name}": value.astype(np.float32) for name, value in final.items()})
        drift = np.abs(losses_f32 / losses - 1)
        print(f"{case:10} {run:6} loss {losses[0]:.3f} -> {losses[-1]:.3f}; float32 drifts "
              f"{drift[:10].max():.1e}, {drift.max():.1e}")
    np.savez_compressed(FIXTURES / f"{case}.npz", **arrays)
    print(f"{case:10} {sum(v.size for v in exact.values()):,} parameters, float32 gradient error "
          f"{np.median(arrays['grad_error']):.1e} (median), {arrays['grad_error'].max():.1e} (most); "
          f"kinks {least:.1e} away")


if __name__ == "__main__":
    torch.set_num_threads(1)
    FIXTURES.mkdir(exist_ok=True)
    for case in golden_models.CASES:
        make(case)
