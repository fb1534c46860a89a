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
    assert abs(model["of_ceiling"] - model["fraction"] / model["ceiling"]) < 1e-4, model
    assert 0 < model["resident_bytes"] < two["pool_bytes"] / 10 and model["levels"], model
    # Its activations dwarf its weights: whoever shares nothing but them comes close to the bound.
    assert model["of_ceiling"] > 0.95, model
    assert 0 < model["concurrent"] < 1 and 0.5 < model["progress"] < 2, model
    assert 0.5 < model["turns"] < 2, model
    _, eight = figures(*args, "--jobs=8")
    (of_eight,) = eight["models"]
    assert of_eight["solo_batch"] == model["solo_batch"], (model, of_eight)
    assert model["co_batch"] * 0.9 < of_eight["co_batch"] <= model["co_batch"], (model, of_eight)


def scheduler():
    table, result = figures("scheduler", "--jobs", "2,10")
    assert result["runs"] == 5 and list(result["us_per_decision"]) == ["2", "10"], result
    assert all(0 < us < 1000 for us in result["us_per_decision"].values()), result
    assert "us a decision" in table, table


def sharing():
    with tempfile.TemporaryDirectory() as folder:
        constants = pathlib.Path(folder, "constants.yaml")
        constants.write_text("launch_us: 4\n")
        args = ["sharing", "--models", "mobilenet_v2,bert_base_128", "--batch", "8",
                "--constants", str(constants)]
        table, result = figures(*args)
    assert table.startswith("Simulated: ") and result["simulated"] is True, table
    assert result["constants_sha256"] in table and "launch_us 4," in table, table
    assert result["constants"]["launch_us"] == 4 and result["assumptions"]["paging_gbs"] == 6, result
    assert len(result["policies"]) >= 9 and len(result["mixes"]) == 1, result
    for name, both in result["policies"].items():
        for overlap in ("slots", "vector"):
            figure = both[overlap]
            assert figure["mixes"] == 1 and figure["infeasible"] == 0, (name, figure)
            assert 0 < figure["min"] <= figure["geomean"] + 1e-6, (name, figure)
            assert figure["geomean"] <= figure["max"] + 1e-6 < 2.1, (name, figure)
            assert figure["least_steps"] > 5 or "oversubscribed" in name, (name, figure)
    policies = result["policies"]
    assert abs(policies["time sharing"]["slots"]["geomean"] - 1) < 0.02, policies
    # Small kernels leave most of the device to others.
    assert policies["ebb"]["slots"]["geomean"] > 1.3, policies
    assert policies["ebb"]["slots"]["gain"] > 1.3, policies
    assert 0 < result["worst_share"] and 0 < result["pool_use"] < 1, result
    for alone in result["alone"]:
        assert alone["batch"] == 8 and alone["solo_batch"] > 8 and 0 < alone["fill"] < 1, alone
        assert 0.8 < alone["engine"] < 1.02, alone
    assert policies["unlimited memory"]["slots"]["geomean"] > 1.3, policies
    (mix,) = result["mixes"]
    assert mix["jobs"] == [{"model": "mobilenet_v2", "batch": 8}, {"model": "bert_base_128", "batch": 8}]
    of_ebb = mix["results"]["ebb"]["slots"]
    assert abs(sum(of_ebb["progress"]) - of_ebb["sum"]) < 1e-5, mix
    # What cannot run is counted, and said.
    table, result = figures("sharing", "--models", "mobilenet_v2,gpt2", "--batch", "20")
    assert result["policies"]["ebb"]["slots"]["infeasible"] == 1, result
    assert "gpt2 alone trains at batch" in table, table


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


def allocator():
    table, result = figures("allocator", "--models", "mobilenet_v2", "--steps", "3", "--runs", "1")
    assert table.startswith("Traces simulated: ") and result["constants_sha256"] in table, table
    (trace,) = result["traces"]
    assert trace["name"] == "2 x mobilenet_v2" and trace["live_peak"] > 0, trace
    assert list(trace["allocators"]) == ["ebb", "best_fit", "bfc", "per_stream", "blocks_2mb",
                                         "blocks_64mb", "blocks_1gb"], trace
    for name, of in trace["allocators"].items():
        assert abs(of["over_live"] - of["peak"] / trace["live_peak"]) < 1e-5, (name, trace)
        assert of["over_live"] >= 1 and of["ns_per_op"] > 0, (name, trace)


def granularity():
    table, result = figures("granularity", "--models", "resnet50", "--groups", "1,16,32",
                            "--steps", "4")
    assert table.startswith("Simulated: ") and result["constants_sha256"] in table, table
    (model,) = result["models"]
    whole, default, fine = model["groups"]
    assert [p["groups"] for p in model["groups"]] == [1, 16, 32], model
    assert whole["sub_models"] < default["sub_models"] < fine["sub_models"], model
    # Two steps that are not cut can hardly share memory.
    assert whole["progress"] < default["progress"], model
    assert whole["concurrent"] < default["concurrent"] < 1, model


def fidelity():
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "cpu.yaml")
        table, result = figures("fidelity", "--mixes", "1", "--seconds", "0.05", "--repeats", "1",
                                "--patience", "0", "--profile", str(profile))
        text = profile.read_text()
        assert "like: cpu\n" in text and "memory_gib: 0.0625\n" in text, text
        # What was measured is a device like the others.
        profile.write_text(text.replace("memory_gib: 0.0625", "memory_gib: 1"))
        args = ["capacity", "--device", f"sim:{profile}", "--models", "mobilenet_v2", "--steps", "3"]
        assert run(*args).stdout.startswith("Simulated: ")
    assert result["constants_sha256"] in table and "bytes exact" in table, table
    assert result["bytes_exact"] is True and result["kernels"] > 100, result
    (mix,) = result["mixes"]
    assert len(mix["jobs"]) == 2 and mix["peak_bytes_real"] == mix["peak_bytes_sim"] > 0, mix
    assert mix["bytes_real"] == mix["bytes_sim"], mix
    # How near the times are depends on the machine; that they are what they say does not.
    for real, sim, error in zip(mix["step_ms_real"], mix["step_ms_sim"], mix["errors"]["step"]):
        assert real > 0 and sim > 0 and abs(sim / real - 1 - error) < 1e-3, mix
    worst = max(abs(error) for error in mix["errors"]["step"])
    assert abs(result["max_error_step"] - worst) < 1e-5, result
    assert abs(mix["progress_sim"] / mix["progress_real"] - 1 - mix["errors"]["progress"]) < 1e-4
    # Alone, the simulated device is what it was calibrated on.
    assert len(result["alone"]) == 8 and all(job["step_ms"] > 0 for job in result["alone"]), result


def roofline():
    head = "Latency,Kernels,B,Input_Channel,Output_Channel,Kernel_Szie,Input_Size,Stride,Padding,M,N,K\n"
    with tempfile.TemporaryDirectory() as folder:
        for op in ("linear", "bmm", "conv"):
            pathlib.Path(folder, op).mkdir()
            pathlib.Path(folder, op, "gpu.csv").write_text(
                head + "0.05,a,1,8,8,1,8,1,0,8,8,8\n0.25,b,2,2000,64,3,8,1,1,64,8000,64\n")
        table, result = figures("roofline", "--data", folder, "--gpu", "gpu")
    assert result["constants_sha256"] in table and result["gpu"] == "gpu", table
    assert [one["compared"] for one in result["tables"]] == [1, 1, 1], result
    assert [one["fixed_us"] for one in result["tables"]] == [50, 50, 50], result
    assert result["by_split_depth"][0]["depth"] == 512, result
    ratios = [depth["reached"]["linear"]["ratio"] for depth in result["by_split_depth"]]
    assert ratios == sorted(ratios) and ratios[0] < ratios[-1], ratios  # the less split, the longer
    assert result["by_grid"][0]["kernels"]["conv_product"]["rows"] == 1, result
    assert result["by_grid"][0]["kernels"]["conv_transform"] == {"rows": 0}, result
    # The table says the same.
    (line,) = [line for line in table.splitlines() if line.startswith("512")][:1]
    assert line.split()[1] == f"{ratios[0]:.2f}", line


def together():
    # On a device that computes, all of three jobs end with the bits of one alone.
    table, real = figures("together", "--device", "cpu", "--models", "mlp-512", "--jobs", "3",
                          "--steps", "60", "--memory", "64MB")
    assert (real["kind"], real["jobs"], real["steps"]) == ("cpu", 3, 60), real
    assert "simulated" not in real and real["pool_bytes"] <= 64e6, real
    (row,) = real["equal_jobs"]
    assert (row["name"], row["batch"], row["same_bits"]) == ("mlp-512", 192, True), row
    (bits,) = row["alone"]["sha256"]
    for way in ("turns", "always", "together"):
        assert row[way]["sha256"] == [bits] * 3, row
    for way in ("alone", "turns", "always", "together"):
        assert row[way]["samples_per_s"] > 0 and row[way]["held_bytes"] > 0, row
        assert 0 < row[way]["resident_bytes"] < real["pool_bytes"], row
    assert row["alone"]["concurrent"] == 0 and row["turns"]["concurrent"] < 0.05, row
    assert abs(row["progress"] - row["together"]["samples_per_s"] /
               row["alone"]["samples_per_s"]) < 1e-3, row
    assert "same" in table and "DIFFER" not in table, table
    # On a simulated one there are none; its largest batches are those that capacity finds.
    _, simulated = figures("together", "--device", "sim:v100-16gb", "--models", "mobilenet_v2",
                           "--steps", "8")
    assert simulated["simulated"] is True and simulated["kind"] == "sim", simulated
    (row,) = simulated["equal_jobs"]
    assert row["same_bits"] is None and row["alone"]["sha256"] == [], row
    assert 1 <= row["batch"] == row["co_batch"] <= row["solo_batch"], row
    (found,) = figures("capacity", "--models", "mobilenet_v2", "--steps", "3")[1]["models"]
    assert (row["solo_batch"], row["co_batch"]) == (found["solo_batch"], found["co_batch"]), row
    assert 0.5 < row["progress"] < 2, row


def mistakes():
    with tempfile.TemporaryDirectory() as folder:
        # A device with less memory than one sample of the model takes.
        profile = pathlib.Path(__file__).resolve().parents[2] / "sim" / "v100-16gb.yaml"
        small = pathlib.Path(folder, "small.yaml")
        small.write_text(profile.read_text().replace("memory_gib: 15.0", "memory_gib: 1.0"))
        # Tables that are none: a folder of that name, a file without a header.
        pathlib.Path(folder, "linear", "folder.csv").mkdir(parents=True)
        pathlib.Path(folder, "folder.yaml").mkdir()
        pathlib.Path(folder, "linear", "no.csv").write_text("\n")
        refuses(folder, str(small))


def refuses(folder, small):
    for args, code, words in [
            ([], 2, "give a command"),
            (["speed"], 2, "there is no command 'speed'"),
            (["capacity", "--jobs"], 2, "--jobs needs a value"),
            (["capacity", "--jobs", "1"], 2, "is no number from 2"),
            (["capacity", "--job", "2"], 2, "--job: no flag"),
            (["capacity", "--device", "cpu"], 2, "'cpu' is not simulated"),
            (["capacity", "--device", "sim:v99"], 2, "v100-16gb"),
            (["capacity", "--models", "resnet51"], 2, "there is no model 'resnet51'"),
            (["capacity", "--device", "sim:/nowhere.yaml"], 2, "cannot read"),
            (["capacity", "--models", "gpt2", "--device", "sim:" + small], 1, "do not fit"),
            (["roofline", "--data", folder, "--gpu", "folder"], 2, "cannot be read"),
            (["roofline", "--data", folder, "--gpu", "no"], 2, "the table has no rows"),
            (["sharing", "--constants", folder], 2, "--constants: cannot read"),
            (["capacity", "--device", f"sim:{folder}/folder.yaml"], 2, "cannot read the device profile"),
            (["fidelity", "--profile", "/nowhere/x"], 2, "--profile: cannot write"),
            (["soak", "--only", "-1"], 2, "is no number from 0"),
            (["sharing", "--device", "sim:v100-16gb+vector"], 2, "both overlap models"),
            (["roofline"], 2, "--data is needed"),
            (["roofline", "--data", "/nonexistent"], 2, "/nonexistent/linear/Tesla"),
            (["roofline", "--data", "/nonexistent", "--device", "cpu"], 2, "is not sim:PROFILE"),
            (["sharing", "--device", "cpu"], 2, "'cpu' is not simulated"),
            (["sharing", "--fraction", "1.5"], 2, "is no number from"),
            (["sharing", "--fraction", "nan"], 2, "is no number from"),
            (["sharing", "--fraction", "0.5", "--batch", "8"], 2, "not both"),
            (["sharing", "--of", "random"], 2, "give distinct"),
            (["sharing", "--models", "vgg16"], 2, "fewer than 2 models"),
            (["sharing", "--models", "vgg17,vgg16"], 2, "there is no model 'vgg17'"),
            (["sharing", "--constants", "/nowhere.yaml"], 2, "cannot read '/nowhere.yaml'"),
            (["allocator", "--fraction", "2"], 2, "is no number from"),
            (["allocator", "--models", "resnet51"], 2, "there is no model 'resnet51'"),
            (["granularity", "--groups", "65"], 2, "is no number from 1 to 64"),
            (["soak", "--mixes", "0"], 2, "is no number from 1"),
            (["soak", "--device", "cpu"], 2, "'cpu' is not simulated"),
            (["together"], 2, "--models: give"),
            (["together", "--models", "mlp-512", "--memory", "much"], 2, "'much' is no size"),
            (["together", "--models", "resnet51"], 2, "there is no model 'resnet51'"),
            (["together", "--models", "mlp-512", "--device", "gpu"], 2, "there is no device"),
            (["together", "--models", "mlp-512", "--memory", "1KB"], 2, "less than one granule"),
            (["scheduler", "--jobs", "2,x"], 2, "'x' is no number"),
            (["scheduler", "--jobs", "2", "--runs", "1", "--json", "/nowhere/x"], 2, "cannot write")]:
        message = run(*args, code=code).stderr
        assert words in message, (args, message)
    # Figures that are measured and then lost are the run's failure, not the flag's.
    full = run("scheduler", "--jobs", "2", "--runs", "1", "--json", "/dev/full", code=1)
    assert "us a decision" in full.stdout and "cannot write '/dev/full'" in full.stderr, full
    help_text = run("--help").stdout
    assert "capacity" in help_text and "Exit codes: 0" in help_text, help_text


if __name__ == "__main__":
    {"allocator": allocator, "capacity": capacity, "fidelity": fidelity, "granularity": granularity,
     "mistakes": mistakes, "roofline": roofline, "scheduler": scheduler, "sharing": sharing, "soak": soak,
     "together": together}[sys.argv[2]]()
