#!/usr/bin/env python3
"""Writes fixtures/<case>.{torchscript,dynamo}.onnx, <case>.weights and <case>.npz: what PyTorch computes in float64.

Both .onnx files keep their weights in <case>.weights, under the names of the state dict. The .npz holds, with P = the
parameters in order of name:
  <input> f32|i64 [5,N,...], label i64|f32 [5,N,...]   batches; step t of a run reads batch t % 4, evaluation batch 4
  loss f64 [], grad/<P> f32            of batch 0 with the initial weights, computed in float64
  grad_error f64 [P]                   relative L2 error of PyTorch's own float32 gradients
  <run>/options f64 [8]                lr, weight decay, momentum, dampening, nesterov, beta1, beta2, epsilon
  <run>/loss f64 [20]                  of 20 steps, in float64
  <run>/eval_loss f64 []               after them, of eval(): running statistics, no dropout
Runs are sgd and adamw. Initial weights are drawn again until no input of a ReLU of batch 0 comes so close to a kink
that rounding could decide on its side, and float32 follows float64 over both runs. Initial running statistics are not
0 and 1, so that evaluation sees that they were read.

  make_networks.py [CASE ...]

Made with torch 2.9.1, torchvision 0.24.1, transformers 5.24.0, onnx 1.23.2, onnxscript 0.7.2."""
import copy
import importlib
import pathlib
import sys

import numpy as np
import onnx
import torch

from kinks import KinkDistance

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
MODULES = ("networks", "networks_transformers", "networks_recurrent")
BATCHES = 4
STEPS = 20
LEAST_KINK_DISTANCE = 5e-7
MOST_DRIFT = 3e-4
OPTIMIZERS = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


def cases():
    found = {}
    for module in MODULES:
        if pathlib.Path(__file__).with_name(f"{module}.py").exists():
            found.update(importlib.import_module(module).CASES)
    return found


def batches(case, name):
    random = np.random.RandomState(len(name))
    arrays = {}
    for key, (kind, shape, *range_) in case.inputs.items():
        shape = (BATCHES + 1, case.rows, *shape)
        if kind == "int":
            arrays[key] = random.randint(*range_, shape).astype(np.int64)
        else:  # few digits: the fixture is smaller
            arrays[key] = (np.round(random.standard_normal(shape) * 2) / 2).astype(np.float32)
    kind, shape, *classes = case.label
    shape = (BATCHES + 1, case.rows, *shape)
    arrays["label"] = (random.randint(0, classes[0], shape).astype(np.int64) if kind == "class"
                       else random.randint(0, 2, shape).astype(np.float32))
    return arrays


def inputs_of(case, arrays, batch, dtype):
    tensors = [torch.from_numpy(arrays[key][batch]) for key in case.inputs]
    return [t.to(dtype) if t.is_floating_point() else t for t in tensors]


def loss_of(case, model, arrays, batch, dtype):
    logits = model(*inputs_of(case, arrays, batch, dtype))
    label = torch.from_numpy(arrays["label"][batch])
    if case.label[0] == "class":
        return torch.nn.functional.cross_entropy(logits, label)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, label.to(dtype))


def gradients(case, initial, arrays, dtype):
    model = copy.deepcopy(initial).to(dtype).train()
    kinks = KinkDistance(model)
    loss = loss_of(case, model, arrays, 0, dtype)
    loss.backward()
    return loss.item(), {name: p.grad.double().numpy() for name, p in model.named_parameters()}, kinks.least


def train(case, initial, arrays, run, dtype):
    model = copy.deepcopy(initial).to(dtype).train()
    optimizer = OPTIMIZERS[run](model.parameters(), **getattr(case, run))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(case, model, arrays, step % BATCHES, dtype)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return np.array(losses), loss_of(case, model, arrays, BATCHES, dtype).item()


def relative_errors(values, exact):
    return np.array([np.linalg.norm(values[name] - exact[name]) / max(np.linalg.norm(exact[name]), 1e-300)
                     for name in sorted(exact)])


def initialise(case, seed):
    torch.manual_seed(seed)
    model = case.build()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def drift_of(case, model, arrays):
    worst = 0
    for run in OPTIMIZERS:
        (exact, exact_eval), (single, single_eval) = (train(case, model, arrays, run, dtype)
                                                      for dtype in (torch.float64, torch.float32))
        worst = max(worst, np.abs(single / exact - 1).max(), abs(single_eval / exact_eval - 1))
    return worst


def robust_model(case, name, arrays):
    for seed in range(200):
        model = initialise(case, seed)
        kinks = gradients(case, model, arrays, torch.float64)[2]
        if kinks <= LEAST_KINK_DISTANCE:
            continue
        drift = drift_of(case, model, arrays)
        print(f"{name}: seed {seed}, kinks {kinks:.1e} away, float32 drifts {drift:.1e}", flush=True)
        if drift <= MOST_DRIFT:
            return model
    raise RuntimeError(f"{name}: every seed comes close to a kink or drifts: choose smaller rates")


# ---- Export

def export(case, model, arrays, path, exporter):
    model = copy.deepcopy(model).train()
    rows = case.rows if exporter in case.fixed_batch else 3
    example = tuple(t[:rows] for t in inputs_of(case, arrays, 0, torch.float32))
    names = list(case.inputs)
    if exporter == "torchscript":
        torch.onnx.export(model, example, path, dynamo=False, opset_version=17, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.TRAINING, input_names=names, output_names=["logits"],
                          dynamic_axes=None if exporter in case.fixed_batch else {n: {0: "N"} for n in names})
    else:
        batch = torch.export.Dim("N", min=2)
        shapes = None if exporter in case.fixed_batch else tuple({0: batch} for _ in names)
        torch.onnx.export(model, example, path, dynamo=True, optimize=False, opset_version=18, input_names=names,
                          output_names=["logits"], dynamic_shapes=shapes, verbose=False)


class Weights:
    """One file for the weights of all exports of a model: its state dict."""

    def __init__(self, model, file):
        self.file = file
        self.bytes = b""
        self.places = {}
        first = {p.data_ptr(): name for name, p in model.named_parameters()}
        # A weight of several names is called by its first one in the fixtures; dynamo takes its last.
        self.aliases = {name: first[p.data_ptr()] for name, p in model.named_parameters(remove_duplicate=False)
                        if first[p.data_ptr()] != name}
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and name not in self.aliases:
                data = tensor.contiguous().numpy().tobytes()
                self.places[name] = (len(self.bytes), len(data), tuple(tensor.shape))
                self.bytes += data

    def take_over(self, tensor):
        """Tracing has moved the running statistics of the export; the file's are those of the model."""
        offset, length, shape = self.places[tensor.name]
        if tuple(tensor.dims) != shape:
            raise RuntimeError(f"{tensor.name} is {tensor.dims} in the file, {shape} in the model")
        for field in ("raw_data", "float_data"):
            tensor.ClearField(field)
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", self.file), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))


def rename(graph, tensor, name):
    for node in graph.node:
        for i, value in enumerate(node.input):
            if value == tensor.name:
                node.input[i] = name
    tensor.name = name


def bare(proto, weights):
    """Without what nobody reads: stack traces, shapes of values; with the weights outside."""
    del proto.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.graph.value_info[:]
    proto.doc_string = ""
    for node in proto.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for holder in [*proto.graph.input, *proto.graph.output, *proto.graph.initializer]:
        del holder.metadata_props[:]
    for function in proto.functions:
        del function.metadata_props[:]
        del function.value_info[:]
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
    outside = 0
    for tensor in proto.graph.initializer:
        if tensor.name in weights.aliases:
            rename(proto.graph, tensor, weights.aliases[tensor.name])
        if tensor.name in weights.places:
            weights.take_over(tensor)
            outside += 1
    return outside


def write_model(case, name, model, arrays):
    weights = Weights(model, f"{name}.weights")
    (FIXTURES / weights.file).write_bytes(weights.bytes)
    for exporter in case.exporters:
        path = FIXTURES / f"{name}.{exporter}.onnx"
        export(case, model, arrays, str(path), exporter)
        proto = onnx.load(str(path))
        outside = bare(proto, weights)
        path.with_name(path.name + ".data").unlink(missing_ok=True)
        path.write_bytes(proto.SerializeToString())
        print(f"{path.name}: {len(proto.graph.node)} nodes, {outside} weights, {path.stat().st_size:,} bytes")


def make(name, case):
    arrays = batches(case, name)
    model = robust_model(case, name, arrays)
    write_model(case, name, model, arrays)
    out = dict(arrays)
    out["loss"], exact, _ = gradients(case, model, arrays, torch.float64)
    _, single, _ = gradients(case, model, arrays, torch.float32)
    out["grad_error"] = relative_errors(single, exact)
    out.update({f"grad/{key}": value.astype(np.float32) for key, value in exact.items()})
    for run in OPTIMIZERS:
        options = getattr(case, run)
        losses, eval_loss = train(case, model, arrays, run, torch.float64)
        beta1, beta2 = options.get("betas", (0.9, 0.999))
        out[f"{run}/options"] = np.array(
            [options["lr"], options.get("weight_decay", 0.01 if run == "adamw" else 0), options.get("momentum", 0),
             options.get("dampening", 0), options.get("nesterov", False), beta1, beta2, 1e-8], np.float64)
        out[f"{run}/loss"] = losses
        out[f"{run}/eval_loss"] = eval_loss
        print(f"{name} {run}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, eval {eval_loss:.3f}")
    np.savez_compressed(FIXTURES / f"{name}.npz", **out)
    print(f"{name}: {sum(v.size for v in exact.values()):,} parameters, float32 gradient error "
          f"{np.median(out['grad_error']):.1e} (median), {out['grad_error'].max():.1e} (most); "
          f"{(FIXTURES / f'{name}.npz').stat().st_size:,} bytes", flush=True)


def main():
    torch.set_num_threads(1)
    found = cases()
    for name in sys.argv[1:] or found:
        make(name, found[name])


if __name__ == "__main__":
    main()
