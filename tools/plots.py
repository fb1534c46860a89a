#!/usr/bin/env python3
"""Figures from what ebb-bench measured: tools/plots.py --from DIR --to docs/figures

Every DIR/NAME.json that `ebb-bench capacity|sharing|granularity|allocator|scheduler --json` wrote
becomes NAME.svg (allocator's: NAME.svg and NAME-cost.svg). What the figures are of is told by their
fields, not by the file's name; those of `soak`, `fidelity` and `together` have no figure. Exits with 1 and says
which file and field when something is missing.
"""
import argparse
import json
import math
import pathlib
import sys

from svg_chart import Chart


class Bad(Exception):
    """The JSON is not what ebb-bench writes."""


def take(figures, *path, kind=None):
    """The field at `path`, of type `kind`; a whole number is a float as well."""
    at = figures
    for i, key in enumerate(path):
        try:
            at = at[key]
        except (KeyError, IndexError, TypeError):
            raise Bad(f"field '{dotted(path[:i + 1])}' is missing") from None
    if kind is float and type(at) is int:
        at = float(at)
    if kind is not None and type(at) is not kind:
        raise Bad(f"field '{dotted(path)}' is {at!r}, not of type {kind.__name__}")
    if kind is float and not math.isfinite(at):
        raise Bad(f"field '{dotted(path)}' is not finite")
    return at


def dotted(path):
    return ".".join(map(str, path))


def above_zero(value, field):
    if value <= 0:
        raise Bad(f"field '{field}' is {value}, but must be above 0")
    return value


def rows(figures, key):
    found = take(figures, key, kind=list)
    if not found:
        raise Bad(f"field '{key}' is empty")
    return range(len(found))


def constants(figures, overlap=True):
    """What the figures rest on, in words."""
    if not take(figures, "simulated", kind=bool):
        raise Bad("field 'simulated' is false: these figures need a label of their own")
    words = f"simulated sim:{take(figures, 'profile', kind=str)}"
    if overlap:
        words += f", overlap model {take(figures, 'overlap_model', kind=str)}"
    return f"{words}; constants sha256 {take(figures, 'constants_sha256', kind=str)[:16]}"


def capacity(figures):
    jobs = take(figures, "jobs", kind=int)
    models = [take(figures, "models", m, "name", kind=str) for m in rows(figures, "models")]
    series = {words: [take(figures, "models", m, field, kind=float) for m in range(len(models))]
              for words, field in [("of the batch of a job alone", "fraction"),
                                   ("of what the jobs' state leaves", "of_ceiling")]}
    chart = Chart(f"Largest batch of {jobs} equal jobs at once", constants(figures), "model",
                  "fraction of the batch")
    return {"": chart.bars(models, series, reference=1.0)}


def sharing(figures):
    policies = list(take(figures, "policies", kind=dict))
    if not policies:
        raise Bad("field 'policies' is empty")
    series, whiskers = {}, {}
    for overlap in ("slots", "vector"):
        of = [[take(figures, "policies", p, overlap, f, kind=float)
               for f in ("geomean", "min", "max")] for p in policies]
        series[f"{overlap}: geometric mean, least and most"] = [g for g, _, _ in of]
        whiskers[f"{overlap}: geometric mean, least and most"] = [(a, b) for _, a, b in of]
    words = ""
    if "jobs" in figures:
        words += f" of {take(figures, 'jobs', kind=int)} jobs"
    if "fraction" in figures:
        words += f" at {take(figures, 'fraction', kind=float):g} of the solo batch"
    chart = Chart(f"Summed progress{words}, by policy", constants(figures, overlap=False), "policy",
                  "summed progress (1: taking turns for free)", width=900)
    return {"": chart.bars(policies, series, reference=1.0, whiskers=whiskers)}


def granularity(figures):
    series = {}
    for m in rows(figures, "models"):
        points = take(figures, "models", m, "groups", kind=list)
        name = take(figures, "models", m, "name", kind=str)
        series[name] = [(above_zero(take(figures, "models", m, "groups", g, "groups", kind=int),
                                    "groups"),
                         take(figures, "models", m, "groups", g, "progress", kind=float))
                        for g in range(len(points))]
        if not points:
            raise Bad(f"field 'models.{m}.groups' is empty")
    fraction = take(figures, "fraction", kind=float)
    chart = Chart(f"Summed progress of two equal jobs at {fraction:g} of the solo batch",
                  constants(figures), "forward groups", "summed progress (1: taking turns)",
                  width=900)
    return {"": chart.lines(series, log_x=2, reference=1.0)}


def allocator(figures):
    traces = [take(figures, "traces", t, "name", kind=str) for t in rows(figures, "traces")]
    names = list(take(figures, "traces", 0, "allocators", kind=dict))

    def series(field):
        return {n: [above_zero(take(figures, "traces", t, "allocators", n, field, kind=float),
                               field) for t in range(len(traces))] for n in names}
    if not names:
        raise Bad("field 'traces.0.allocators' is empty")
    words = constants(figures)
    peak = Chart("Memory that an allocator needs for two jobs at once", f"traces: {words}", "trace",
                 "peak / live peak", width=1000)
    cost = Chart("What an operation of an allocator costs",
                 f"measured on one CPU core; traces: {words}", "trace",
                 "nanoseconds an operation", width=1000)
    return {"": peak.bars(traces, series("over_live"), reference=1.0),
            "-cost": cost.bars(traces, series("ns_per_op"), log=10)}


def scheduler(figures):
    of_jobs = take(figures, "us_per_decision", kind=dict)
    try:
        points = sorted((above_zero(int(jobs), "us_per_decision"), take(figures, "us_per_decision", jobs, kind=float))
                        for jobs in of_jobs)
    except ValueError as error:
        raise Bad(f"field 'us_per_decision': {error}") from None
    if not points:
        raise Bad("field 'us_per_decision' is empty")
    chart = Chart("What a scheduling decision costs",
                  f"measured on one CPU core, median of {take(figures, 'runs', kind=int)} runs",
                  "jobs", "microseconds a decision")
    return {"": chart.lines({"microseconds": points}, low=0.0, log_x=10)}


def draw(figures):
    """SVG texts by what is added to the name; nothing for figures without a plot."""
    if not isinstance(figures, dict):
        raise Bad("it is no object")
    for field, plot in [("us_per_decision", scheduler), ("policies", sharing),
                        ("traces", allocator)]:
        if field in figures:
            return plot(figures)
    if "models" in figures:
        one = take(figures, "models", 0, kind=dict)
        return granularity(figures) if "groups" in one else capacity(figures)
    if any(field in figures for field in ["deadlocks", "bytes_exact", "by_split_depth",
                                         "equal_jobs"]):
        return {}
    raise Bad("it has none of the fields us_per_decision, policies, traces, models, deadlocks, "
              "bytes_exact, by_split_depth, equal_jobs; was it written by ebb-bench --json?")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", required=True, type=pathlib.Path)
    parser.add_argument("--to", required=True, type=pathlib.Path)
    args = parser.parse_args()
    files = sorted(args.source.glob("*.json"))
    if not files:
        sys.exit(f"plots: no .json in '{args.source}'; write some by ebb-bench --json")
    args.to.mkdir(parents=True, exist_ok=True)
    for path in files:
        try:
            plots = draw(json.loads(path.read_text()))
        except (Bad, ValueError, OSError) as error:  # it is no JSON, no text or no file
            sys.exit(f"plots: {path}: {error}")
        for suffix, svg in plots.items():
            target = args.to / f"{path.stem}{suffix}.svg"
            target.write_text(svg)
            print(target)


if __name__ == "__main__":
    main()
