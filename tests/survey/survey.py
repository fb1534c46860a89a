#!/usr/bin/env python3
"""Which models of torchvision, timm and transformers does Ebb train as PyTorch does?

For each: random weights, exported by the TorchScript exporter (opset 17, TRAINING) and by dynamo (optimize=False),
five steps of SGD by PyTorch and by ebb_train_onnx on the same batches in float32, and the loss of a sixth batch by
evaluation semantics. A model passes if every loss is within 1e-3 of PyTorch's. Results are added to a JSON file, one
model after the other; what is there is not run again.

  survey.py --tool build/bin/ebb_train_onnx --results FILE.json [--only SOURCE/NAME ...]

Made with torch 2.9.1, torchvision 0.24.1, timm 1.0.31, transformers 5.24.0, onnx 1.23.2, onnxscript 0.7.2."""
import argparse
import copy
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import traceback
import warnings

import numpy as np
import onnx
import torch

import survey_models

STEPS = 5
EXPORT_ROWS = 3
RATES = (1e-3, 1e-5, 1e-7, 1e-9)  # the next where the one before is chaotic, as batch norm of few rows may be
TOLERANCE = 1e-3
SECONDS = 600  # for one model


def batches(case):
    random = np.random.RandomState(3)
    arrays = {}
    for name, (kind, shape, *range_) in case.inputs.items():
        shape = (STEPS + 1, case.rows, *shape)
        arrays[name] = (random.randint(*range_, shape).astype(np.int64) if kind == "int"
                        else random.standard_normal(shape).astype(np.float32))
    arrays["label"] = random.randint(0, case.classes, (STEPS + 1, case.rows, *case.label_shape)).astype(np.int64)
    return arrays


def tensors(case, arrays, step, dtype):
    values = [torch.from_numpy(arrays[name][step]) for name in case.inputs]
    return [v.to(dtype) if v.is_floating_point() else v for v in values]


def reference(case, initial, arrays, dtype, rate):
    """PyTorch's losses of the steps, and after them the last batch's by evaluation semantics."""
    model = copy.deepcopy(initial).to(dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_of(step):
        logits = model(*tensors(case, arrays, step, dtype))
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(arrays["label"][step]))

    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return losses, loss_of(STEPS).item()


def restore_statistics(path, model):
    """Tracing has run the model, which moved the running statistics that the file has."""
    state = model.state_dict()
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        if ".running_" in tensor.name and tensor.name in state:
            tensor.raw_data = state[tensor.name].numpy().tobytes()
    large = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > 1 << 30
    onnx.save(proto, path, save_as_external_data=large, location=f"{os.path.basename(path)}.data")


def export(case, model, arrays, path, exporter, rows):
    """rows: of the example batch; case.rows makes a file with that batch fixed, any other a dynamic one."""
    original, model = model, copy.deepcopy(model).train()
    example = tuple(t[:rows] for t in tensors(case, arrays, 0, torch.float32))
    names = list(case.inputs)
    dynamic = rows != case.rows
    if exporter == "torchscript":
        torch.onnx.export(model, example, path, dynamo=False, opset_version=17, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.TRAINING, input_names=names, output_names=["logits"],
                          dynamic_axes={n: {0: "N"} for n in names} if dynamic else None)
        restore_statistics(path, original)
    else:
        shapes = None
        if dynamic:
            batch = torch.export.Dim("N", min=2)
            each = tuple({0: batch} for _ in names)
            parameters = list(inspect.signature(model.forward).parameters.values())
            shapes = (each,) if parameters and parameters[0].kind == parameters[0].VAR_POSITIONAL else each
        torch.onnx.export(model, example, path, dynamo=True, optimize=False, opset_version=18, input_names=names,
                          output_names=["logits"], dynamic_shapes=shapes, verbose=False)


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    for line in lines:  # torch.export buries the reason
        if re.match(r"(?:- )?(?:<class '.*'>|torch\.\w+\..*|\w*Error)\b.*: ", line):
            text = line
            break
    return f"{type(error).__name__}: {text}"[:300]


def references(case, model, arrays):
    with torch.no_grad():
        untrained = copy.deepcopy(model).train()(*tensors(case, arrays, STEPS - 1, torch.float32))
    untrained = torch.nn.functional.cross_entropy(untrained, torch.from_numpy(arrays["label"][STEPS - 1])).item()
    for rate in RATES:
        losses, eval_loss = reference(case, model, arrays, torch.float32, rate)
        # How much the steps moved the last loss says what the comparison can see.
        yield {"rate": rate, "losses": losses, "eval_loss": eval_loss, "moved": abs(losses[-1] / untrained - 1)}


def exported(case, model, arrays, exporter, rows, folder):
    """The file, or None, and what there is to say about it."""
    path = pathlib.Path(folder) / f"{exporter}{rows}.onnx"
    outcome = {"batch": "dynamic" if rows != case.rows else "fixed"}
    began = time.time()
    try:
        export(case, model, arrays, str(path), exporter, rows)
    except Exception as error:  # noqa: BLE001: the exporter's failures are of every kind
        return None, {**outcome, "result": "not exported", "reason": first_line(error)}
    return path, {**outcome, "export_s": round(time.time() - began, 1)}


def run(path, npz, tool, rate, outcome):
    began = time.time()
    done = subprocess.run([tool, str(path), npz, str(rate)], capture_output=True, text=True, check=False)
    outcome["ebb_s"] = round(time.time() - began, 1)
    try:
        ran = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {**outcome, "result": "crashed", "reason": f"exit {done.returncode}: {done.stderr[-300:]}"}
    if "error" in ran:
        return {**outcome, "result": "refused", "stage": ran["stage"], "reason": ran["error"]}
    return {**outcome, "result": "ran", **ran}


def deviation(ours, theirs):
    return max(abs(a - b) / max(abs(b), 1e-12) if a is not None and np.isfinite(a) else float("inf") for a, b in zip(ours, theirs))


def judge(outcome, expected):
    if outcome["result"] != "ran":
        return outcome
    outcome["rate"], outcome["moved"] = expected["rate"], expected["moved"]
    outcome["deviation"] = deviation(outcome.pop("losses"), expected["losses"])
    outcome["eval_deviation"] = deviation([outcome.pop("eval_loss")], [expected["eval_loss"]])
    outcome["result"] = "passed" if max(outcome["deviation"], outcome["eval_deviation"]) <= TOLERANCE else "differs"
    return outcome


def survey(case, tool, folder, result, exporters):
    """Adds to `result` what it lacks."""
    torch.manual_seed(0)
    model = case.build().train()
    with torch.no_grad():  # away from 0 and 1, so that a wrong scale or bias shows
        for parameter in model.parameters():
            if parameter.dim() <= 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    arrays = batches(case)
    npz = os.path.join(folder, "batches.npz")
    np.savez(npz, **arrays)
    result["parameters"] = sum(p.numel() for p in model.parameters())
    more = references(case, model, arrays)
    expected = [next(more)]

    def judged(exporter, rows):
        path, outcome = exported(case, model, arrays, exporter, rows, folder)
        for rate in range(len(RATES)):
            if path is None:
                break
            if rate == len(expected):
                expected.append(next(more))
            outcome = judge(run(path, npz, tool, expected[rate]["rate"], dict(outcome)), expected[rate])
            if outcome["result"] != "differs":
                break
        if path is not None:
            for file in pathlib.Path(folder).glob(path.name + "*"):
                file.unlink()
        return outcome

    for exporter in exporters:
        outcome = judged(exporter, EXPORT_ROWS)
        if outcome["result"] not in ("passed", "differs"):
            fixed = judged(exporter, case.rows)
            fixed["dynamic_reason"] = outcome.get("reason")
            if fixed["result"] != "not exported" or outcome["result"] == "not exported":
                outcome = fixed
        result[exporter] = outcome
        if outcome["result"] == "differs":  # does the comparison mean anything?
            last = expected[-1]
            exact, exact_eval = reference(case, model, arrays, torch.float64, last["rate"])
            outcome["own_deviation"] = deviation(last["losses"], exact)
            outcome["own_eval_deviation"] = deviation([last["eval_loss"]], [exact_eval])
    return result


def in_child(case, tool, out, result, exporters):
    """Every model has a process of its own: its memory goes with it, and a crash takes nothing along."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # exporters print whole graphs
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            with tempfile.TemporaryDirectory(prefix="ebb-survey-") as folder:
                result = survey(case, tool, folder, result, exporters)
        except BaseException as error:  # noqa: BLE001
            traceback.print_exc()
            result = {"error": first_line(error)}
        pathlib.Path(out).write_text(json.dumps(result))
        os._exit(0)
    deadline = time.time() + SECONDS
    while time.time() < deadline:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.2)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return {"error": f"not done within {SECONDS} s"}
    try:
        return json.loads(pathlib.Path(out).read_text())
    except (OSError, json.JSONDecodeError) as error:
        return {"error": f"the process died: {error}"}


def in_short(result, exporters):
    if "error" in result:
        return result["error"]
    words = []
    for exporter in exporters:
        outcome = result[exporter]
        seen = (f"{outcome['deviation']:.0e}, eval {outcome['eval_deviation']:.0e}" if "deviation" in outcome
                else outcome["reason"][:250])
        words.append(f"{exporter} {outcome['result']}, {outcome['batch']} ({seen})")
    return "; ".join(words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--only", nargs="*", help="SOURCE or SOURCE/NAME")
    parser.add_argument("--exporters", nargs="+", default=["torchscript", "dynamo"])
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    path = pathlib.Path(arguments.results)
    results = json.loads(path.read_text()) if path.exists() else {}
    for case in survey_models.cases():
        key = f"{case.source}/{case.name}"
        exporters = [e for e in arguments.exporters if e not in results.get(key, {})]
        if not exporters or (arguments.only and not {key, case.source} & set(arguments.only)):
            continue
        began = time.time()
        out = f"{path}.one"
        pathlib.Path(out).unlink(missing_ok=True)
        result = in_child(case, arguments.tool, out, results.get(key, {}), exporters)
        result["note"] = case.note
        results[key] = result
        temporary = pathlib.Path(f"{path}.new")
        temporary.write_text(json.dumps(results, indent=1))
        temporary.replace(path)
        print(f"{time.time() - began:6.1f}s {key}: {in_short(result, exporters)}", flush=True)


if __name__ == "__main__":
    main()
