#!/usr/bin/env python3
"""ebb-bench as a user meets it: bench_test.py EBB_BENCH PART, a function below."""
import json
import pathlib
import subprocess
import sys
import tempfile


def run(*args, code=0):
    result = subprocess.run([sys.argv[1], *args], capture_output=True, text=True, check=False)
    assert result.returncode == code, (args, result.returncode, result.stdout, result.stderr)
    return result


def figures(*args):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "figures.json")
        out = run(*args, "--json", str(path)).stdout
        # What it writes is what the plots are made of.
        tools = pathlib.Path(__file__).resolve().parents[2] / "tools"
        subprocess.run([sys.executable, str(tools / "plots.py"), "--from", folder, "--to", folder],
                       capture_output=True, check=True)
        return out, json.loads(path.read_text())


def capacity():
    args = ["capacity", "--models", "mobilenet_v2", "--steps", "3"]
    table, two = figures(*args)
    assert table.startswith("Simulated: ") and two["simulated"] is True, table
    assert len(two["constants_sha256"]) == 64 and two["constants_sha256"] in table, table
    assert (two["profile"], two["overlap_model"], two["jobs"], two["steps"]) == (
        "v100-16gb", "slots", 2, 3), two
    (model,) = two["models"]
    assert model["name"] == "mobilenet_v2"
    assert 1 <= model["co_batch"] <= model["solo_batch"], model
    assert abs(model["fraction"] - model["co_batch"] / model["solo_batch"]) < 1e-5, model
    assert 0 < model["fraction"] <= 1 and 0 < model["of_ceiling"], model
    assert two["min"] == two["mean"] == model["fraction"], two
    pool, resident = two["pool_bytes"], model["resident_bytes"]
    ceiling = (pool - 2 * resident) / (pool - resident)
    assert abs(model["of_ceiling"] - model["fraction"] / ceiling) < 1e-4, model
    # Its activations dwarf its weights: whoever shares nothing but them comes close to the bound.
    assert model["of_ceiling"] > 0.95, model
    assert 0 < model["concurrent"] < 1 and 0.5 < model["progress"] < 2, model
    _, eight = figures(*args, "--jobs=8")
    (of_eight,) = eight["models"]
    assert of_eight["solo_batch"] == model["solo_batch"], (model, of_eight)
    assert of_eight["co_batch"] < model["co_batch"], (model, of_eight)


def scheduler():
    table, result = figures("scheduler", "--jobs", "2,10")
    assert result["runs"] == 5 and list(result["us_per_decision"]) == ["2", "10"], result
    assert all(0 < us < 1000 for us in result["us_per_decision"].values()), result
    assert "us a decision" in table, table


def soak():
    table, result = figures("soak", "--mixes", "2", "--seed", "5")
    assert table.startswith("Simulated: ") and result["constants_sha256"] in table, table
    assert (result["mixes"], result["seed"]) == (2, 5), result
    for fault in ["deadlocks", "aborts", "starved", "ledger_errors", "races"]:
        assert result[fault] == 0, (fault, table)
    assert result["counts"]["jobs"] >= 4 and result["counts"]["looks"] > 0, result
    alone, one = figures("soak", "--seed", "5", "--only", "1")
    assert alone.startswith("mix 1 of seed 5") and "submit job 0" in alone, alone
    assert one["mixes"] == 1 and one["counts"]["jobs"] < result["counts"]["jobs"], one


def mistakes():
    for args, code, words in [
            ([], 2, "give a command"),
            (["speed"], 2, "there is no command 'speed'"),
            (["capacity", "--jobs"], 2, "--jobs needs a value"),
            (["capacity", "--jobs", "1"], 2, "is no number from 2"),
            (["capacity", "--job", "2"], 2, "--job: no flag"),
            (["capacity", "--device", "cpu"], 2, "'cpu' is not simulated"),
            (["capacity", "--device", "sim:v99"], 1, "v100-16gb"),
            (["capacity", "--models", "resnet51"], 1, "there is no model 'resnet51'"),
            (["capacity", "--models", "vgg16", "--jobs", "64"], 1, "do not fit"),
            (["soak", "--mixes", "0"], 2, "is no number from 1"),
            (["soak", "--device", "cpu"], 2, "'cpu' is not simulated"),
            (["scheduler", "--jobs", "2,x"], 2, "'x' is no number"),
            (["scheduler", "--jobs", "2", "--runs", "1", "--json", "/nowhere/x"], 1, "cannot write")]:
        message = run(*args, code=code).stderr
        assert words in message, (args, message)
    assert "capacity" in run("--help").stdout


if __name__ == "__main__":
    {"capacity": capacity, "scheduler": scheduler, "soak": soak,
     "mistakes": mistakes}[sys.argv[2]]()
