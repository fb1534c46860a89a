#!/usr/bin/env python3
"""Writes docs/models.md from results of survey.py: models_page.py RESULTS.json ... > docs/models.md"""
import json
import pathlib
import sys

HEAD = """# Models that were tried

`tests/survey/survey.py` builds each model with random weights, exports it by PyTorch's TorchScript exporter (opset 17, training mode) and by its dynamo exporter
(`optimize=False`, opset 18), and trains both files for five steps of SGD on random batches, without dropout. A model **passes** where each loss is within 1e-3
of PyTorch's in float32, and so is the loss of another batch by evaluation semantics after them (running statistics). Made with torch {torch}.

- *deviation*: the largest of the five losses and of the evaluation's loss, relative. *rate*: of SGD. Batch norm over few values is chaotic at 64x64 with {rows} images: where losses
  drift apart at rate 1e-3, the rate is 1e-5, 1e-7 or 1e-9. *moved*: by how much the steps changed the loss of the last batch, which says what the comparison can see.
- *batch fixed*: the exporter or the file could not have a dynamic batch. A dash: not tried.
- Weights of one dimension get noise, so that scales are not 1 and biases not 0. Models of transformers are small configurations of two layers.

"""
EXPORTERS = ("torchscript", "dynamo")


def best(result):
    return next((e for e in EXPORTERS if result.get(e, {}).get("result") == "passed"), None)


def cell(text):
    return " ".join(str(text).replace("|", "\\|").split())


def outcome_of(result, exporter):
    outcome = result.get(exporter)
    if outcome is None:
        return "-"
    fixed = ", batch fixed" if outcome["batch"] == "fixed" and outcome["result"] == "passed" else ""
    return f"{outcome['result']}{fixed}"


def why(result):
    if "error" in result:
        return result["error"]
    reasons = []
    for exporter in EXPORTERS:
        outcome = result.get(exporter, {})
        if outcome.get("result") == "differs":
            reasons.append(f"{exporter}: deviation {max(outcome['deviation'], outcome['eval_deviation']):.0e}; PyTorch's own "
                           f"float32 deviates {max(outcome['own_deviation'], outcome['own_eval_deviation']):.0e} from float64")
        elif outcome.get("result") not in (None, "passed"):
            reasons.append(f"{exporter}: {outcome['reason'][:220]}")
    return "; ".join(reasons)


def rows(results):
    for name, result in sorted(results.items()):
        exporter = best(result)
        figures = ["", "", ""]
        if exporter:
            outcome = result[exporter]
            figures = [f"{max(outcome['deviation'], outcome['eval_deviation']):.0e}", f"{outcome['rate']:.0e}",
                       f"{outcome['moved']:.0e}"]
        note = result.get("note", "")
        reason = why(result)
        yield [f"`{name}`", *(outcome_of(result, e) for e in EXPORTERS), *figures,
               cell(". ".join(part for part in (note, reason) if part))]


def main():
    results = {}
    for path in sys.argv[1:]:
        results.update(json.loads(pathlib.Path(path).read_text()))
    sources = {}
    for key, result in results.items():
        source, name = key.split("/")
        sources.setdefault(source, {})[name] = result
    print(HEAD.format(torch="2.9.1, torchvision 0.24.1, timm 1.0.31, transformers 5.24.0", rows=4), end="")
    print("| from | tried | exported by PyTorch | passed |\n|---|---|---|---|")
    for source, found in sources.items():
        exported = [r for r in found.values() if any(r.get(e, {}).get("result", "not exported") != "not exported"
                                                     for e in EXPORTERS)]
        print(f"| {source} | {len(found)} | {len(exported)} | {sum(best(r) is not None for r in found.values())} |")
    for source, found in sources.items():
        print(f"\n## {source}\n| model | TorchScript | dynamo | deviation | rate | moved | configuration; reason |")
        print("|---|---|---|---|---|---|---|")
        for row in rows(found):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
