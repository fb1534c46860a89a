#!/usr/bin/env python3
"""tools/plots.py draws every kind of figures, and says what is wrong: plots_test.py SOURCE_DIR."""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

LABEL = {"simulated": True, "profile": "v100-16gb", "overlap_model": "slots",
         "constants_sha256": "64a81202" * 8}
SAMPLES = {
    "capacity-v100": {**LABEL, "jobs": 2, "models": [
        {"name": "resnet50", "solo_batch": 187, "co_batch": 184, "fraction": 0.984,
         "of_ceiling": 0.997},
        {"name": "vgg16 <&>", "solo_batch": 233, "co_batch": 215, "fraction": 0.923,
         "of_ceiling": 1}]},
    "sharing": {**LABEL, "jobs": 2, "fraction": 0.9, "worst_share": 0.3, "pool_use": 0.94,
                "policies": {
                    "ebb": {"slots": {"geomean": 1.02, "min": 0.99, "max": 1.1},
                            "vector": {"geomean": 1.08, "min": 1.0, "max": 1.2}},
                    "time_sharing": {"slots": {"geomean": 1.0, "min": 1.0, "max": 1.0},
                                     "vector": {"geomean": 1.0, "min": 1.0, "max": 1.0}}}},
    "granularity": {**LABEL, "fraction": 0.9, "models": [
        {"name": "resnet50", "groups": [
            {"groups": n, "sub_models": 2 * n, "progress": 1 + n / 1000, "concurrent": 0.4}
            for n in (1, 2, 4, 64)]}]},
    "allocator": {**LABEL, "traces": [
        {"name": "2 x resnet50", "live_peak": 100, "allocators": {
            "ours": {"peak": 101, "over_live": 1.01, "ns_per_op": 0.5},
            "best_fit": {"peak": 120, "over_live": 1.2, "ns_per_op": 250}}}]},
    "scheduler": {"runs": 5, "us_per_decision": {"2": 0.06, "10": 0.1, "1000": 0.17}},
    "soak": {**LABEL, "mixes": 1, "deadlocks": 0},
}


def plots(samples, code=0):
    """What tools/plots.py makes of files of these texts or figures: (stderr, {name: SVG root})."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "in"), pathlib.Path(folder, "a", "out")
        source.mkdir()
        for name, sample in samples.items():
            text = sample if isinstance(sample, str) else json.dumps(sample)
            (source / f"{name}.json").write_text(text)
        result = subprocess.run(
            [sys.executable, str(pathlib.Path(sys.argv[1], "tools", "plots.py")), "--from",
             str(source), "--to", str(target)], capture_output=True, text=True, check=False)
        assert result.returncode == code, (samples, result)
        made = {path.name: xml.parse(path).getroot() for path in target.glob("*")}
        return result.stderr, made


def words(svg):
    return [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]


def count(svg, tag):
    return sum(1 for _ in svg.iter("{http://www.w3.org/2000/svg}" + tag))


def draws_every_kind():
    _, made = plots(SAMPLES)
    assert sorted(made) == ["allocator-cost.svg", "allocator.svg", "capacity-v100.svg",
                            "granularity.svg", "scheduler.svg", "sharing.svg"], made
    for name, svg in made.items():
        text = " ".join(words(svg))
        assert ("measured" if name == "scheduler.svg" else "simulated") in text, (name, text)
        if name != "scheduler.svg":
            assert "constants sha256 64a8120264a81202" in text, text
        assert svg.get("viewBox"), name
    text = words(made["capacity-v100.svg"])
    assert "resnet50" in text and "vgg16 <&>" in text and "fraction of the batch" in text, text
    assert count(made["capacity-v100.svg"], "rect") == 1 + 2 + 4  # ground, legend, bars
    assert count(made["granularity.svg"], "circle") == 4
    assert count(made["scheduler.svg"], "circle") == 3
    assert "microseconds a decision" in words(made["scheduler.svg"])


def a_taller_bar_is_a_larger_value():
    _, made = plots({"c": SAMPLES["capacity-v100"]})
    bars = [e for e in made["c.svg"].iter("{http://www.w3.org/2000/svg}rect") if len(e)]
    heights = {bar[0].text: float(bar.get("height")) for bar in bars}
    first, second = (next(h for words, h in heights.items() if words.startswith(model) and
                          "job alone" in words) for model in ("resnet50", "vgg16"))
    assert abs(first / second - 0.984 / 0.923) < 1e-3, heights


def says_what_is_wrong():
    def without(kind, *path, value=None):
        figures = copy.deepcopy(SAMPLES[kind])
        at = figures
        for key in path[:-1]:
            at = at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return figures

    for figures, complaint in [
            ("{", "bad.json: "),
            ("[]", "it is no object"),
            ({"x": 1}, "was it written by ebb-bench --json?"),
            (without("capacity-v100", "models", 1, "fraction"),
             "field 'models.1.fraction' is missing"),
            (without("capacity-v100", "models", 1, "fraction", value="x"), "not of type float"),
            (without("capacity-v100", "models", 1, "fraction", value=float("nan")), "not finite"),
            (without("capacity-v100", "constants_sha256"), "'constants_sha256' is missing"),
            (without("capacity-v100", "simulated", value=False), "a label of their own"),
            (without("sharing", "policies", "ebb", "vector"), "'policies.ebb.vector' is missing"),
            (without("granularity", "models", 0, "groups", value=[]), "is empty"),
            (without("allocator", "traces", 0, "allocators", "ours", "ns_per_op", value=0),
             "must be above 0"),
            (without("scheduler", "us_per_decision", value={"x": 1}), "'us_per_decision'")]:
        message, made = plots({"bad": figures}, code=1)
        assert complaint in message and "bad.json" in message, (figures, message)
        assert "Traceback" not in message and not made, message
    message, _ = plots({}, code=1)
    assert "no .json in" in message, message


if __name__ == "__main__":
    draws_every_kind()
    a_taller_bar_is_a_larger_value()
    says_what_is_wrong()
