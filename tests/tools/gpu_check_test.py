#!/usr/bin/env python3
"""scripts/gpu_check where there is no GPU, and how it runs its parts: gpu_check_test.py SOURCE_DIR."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "tools" / "gpu_check"))
import catalog  # noqa: E402
import pack  # noqa: E402
from parts import ABSENT, FAILED, LATE, OK, TIMEOUT, Absent, Failed, Part, Results, run_parts  # noqa: E402

HEAD = {"commit": "c0ffee", "card": "a card"}


def python(code, name="part", seconds=60, **also):
    return Part(name, "", seconds, lambda: [sys.executable, "-c", code], **also)


def outcome(parts, path, seconds=60):
    """(whether all is well, results by part, what was said) of a run that keeps its file at `path`."""
    said = []
    good = run_parts(parts, Results(path, HEAD), seconds, said.append)
    return good, json.loads(path.read_text())["parts"], said


def parts_end_as_they_do(path):
    def wrong(_):
        raise Failed("a figure is wrong")

    def missing():
        raise Absent("there is no tool")
    good, results, _ = outcome([
        python("print('{\"a\": 1}')", "good", read=json.loads),
        python("import sys; print('partial'); sys.exit(7)", "code"),
        python("import os; os.kill(os.getpid(), 11)", "signal"),
        python("import time; print('begun', flush=True); time.sleep(60)", "slow", 1),
        python("print('no json')", "unreadable", read=json.loads),
        python("", "wrong", read=wrong),
        Part("absent", "", 5, missing),
        Part("unknown", "", 5, lambda: ["/no/such/program"]),
        python("import os; print(os.environ['EBB_X'])", "env", env={"EBB_X": "y"}, read=str.strip),
    ], path)
    assert not good
    states = {name: result["state"] for name, result in results.items()}
    assert states == {"good": OK, "code": FAILED, "signal": FAILED, "slow": TIMEOUT,
                      "unreadable": FAILED, "wrong": FAILED, "absent": ABSENT, "unknown": FAILED,
                      "env": OK}, results
    assert results["good"]["figures"] == {"a": 1} and results["env"]["figures"] == "y", results
    assert results["code"]["why"] == "exit code 7" and results["code"]["output"] == "partial\n"
    assert results["signal"]["why"] == "ended by signal 11", results
    assert results["slow"]["output"] == "begun\n" and results["slow"]["seconds"] < 30, results
    assert "no json" in results["unreadable"]["why"], results
    assert results["wrong"]["why"] == "a figure is wrong", results
    assert results["absent"]["why"] == "there is no tool", results


def what_a_part_leaves_behind_is_ended(path):
    mark = path.with_name("child")
    code = ("import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; "
            f"time.sleep(600)']); open({str(mark)!r}, 'w').write(str(p.pid)); {{}}")
    for end in ("", "import time; time.sleep(600)"):
        outcome([python(code.format(end), f"leaves {bool(end)}", 3)], path)
        child = pathlib.Path("/proc", mark.read_text(), "stat")
        for _ in range(200):
            try:  # it may be there still as a zombie that nobody has waited for
                if child.read_text().rpartition(")")[2].split()[0] == "Z":
                    break
            except OSError:
                break
            time.sleep(0.05)
        else:
            raise AssertionError(f"{child} lives")


def a_run_goes_on_where_the_last_one_ended(path):
    mark = path.with_name("runs")
    mark.write_text("")
    count = f"open({str(mark)!r}, 'a').write('{{}}')"
    fails_once = (f"import os, sys; {count.format('b')}; "
                  f"sys.exit(open({str(mark)!r}).read().count('b') < 2)")
    parts = [python(count.format("a"), "a"), python(fails_once, "b"), python(count.format("c"), "c")]
    good, results, _ = outcome(parts, path)
    assert not good and results["b"]["state"] == FAILED and mark.read_text() == "abc", results
    good, results, said = outcome(parts, path)
    assert good and mark.read_text() == "abcb", (results, said)
    assert said[:2] == ["a: ok before", "c: ok before"], said
    # Results of another commit are kept, and do not count.
    Results(path, {"commit": "other", "card": "a card"})
    before = json.loads(path.with_name(path.name + ".before").read_text())
    assert before["parts"]["a"]["state"] == OK and not path.exists(), before


def the_limit_of_all_ends_the_run(path):
    good, results, _ = outcome([python("import time; time.sleep(60)", "slow"), python("", "next")],
                               path, 6)
    assert not good and results["slow"]["state"] == LATE, results  # its own limit was not reached
    assert results["next"]["state"] == LATE, results
    good, results, _ = outcome([python("", "slow"), python("", "next")], path)
    assert good, results


def what_went_wrong_comes_last_the_next_time(path):
    def parts(late, seconds):
        return [python("import time; time.sleep(60)", "hangs", 2), python("import sys; sys.exit(1)",
                "fails"), python(late, "late", seconds)]
    _, results, _ = outcome(parts("import time; time.sleep(60)", 60), path, 8)
    assert [results[n]["state"] for n in ("hangs", "fails", "late")] == [TIMEOUT, FAILED, LATE], results
    _, results, said = outcome(parts("", 60), path, 8)
    assert [line.split(":")[0] for line in said] == ["late", "hangs", "fails"], said
    assert results["late"]["state"] == OK and results["hangs"]["state"] == TIMEOUT, results


def the_parts_fit_two_calls(path):
    all_parts = catalog.Catalog(SOURCE, path, None, path)
    for call in (all_parts.first_call(), all_parts.second_call()):
        assert sum(part.seconds for part in call) <= catalog.CALL, [p.name for p in call]
    first = [part.name for part in all_parts.first_call()]
    for name in ("contract", "ops", "golden", "cotrain", "resnet50", "torch_solo", "torch_shared"):
        assert name in first, first
    names = [part.name for part in all_parts.parts()]
    assert len(set(names)) == len(names), names


def a_run_that_is_killed_says_where_it_was(path):
    code = (f"import sys; sys.path.insert(0, {str(SOURCE / 'tools' / 'gpu_check')!r})\n"
            "from parts import *\n"
            f"parts = [Part(n, '', 60, lambda c=c: [sys.executable, '-c', c]) for n, c in "
            "(('a', ''), ('b', 'import time; time.sleep(20)'))]\n"
            f"run_parts(parts, Results({str(path)!r}, {HEAD!r}), 60, lambda text: None)")
    with subprocess.Popen([sys.executable, "-c", code]) as run:
        while not path.exists() or "b" not in json.loads(path.read_text())["parts"]:
            time.sleep(0.05)
        run.kill()
    states = {n: r["state"] for n, r in json.loads(path.read_text())["parts"].items()}
    assert states == {"a": OK, "b": "running"}, states


def other_files_are_left_alone(path):
    for text in ("no json", "[]", "{}"):
        path.write_text(text)
        try:
            Results(path, HEAD)
        except SystemExit as refused:
            assert str(path) in str(refused) and path.read_text() == text
        else:
            raise AssertionError(text)


def outputs_are_read(path):
    del path
    passed = ("[ RUN      ] A.B/cuda\n[       OK ] A.B/cuda (3 ms)\n[ RUN      ] A.C/cuda\n"
              "[  FAILED  ] A.C/cuda, where GetParam() = \"cuda\" (1 ms)\n")
    assert catalog.gtest(passed + "[  FAILED  ] A.C/cuda, where GetParam() = \"cuda\"\n") == {
        "passed": 1, "failed": ["A.C/cuda"]}
    assert catalog.gtest(passed + "[ RUN      ] A.D/cuda\nboom")["died_in"] == "A.D/cuda"
    for read, out in ((catalog.gtest, ""), (catalog.json_lines, "text\n")):
        try:
            read(out)
        except Failed:
            continue
        raise AssertionError(read)
    assert catalog.json_lines('{"a": 1}\nnoise\n{"b": [2]}\n3\n{"c":') == {"a": 1, "b": [2]}
    left_out = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libcuda.so.1", "libcudnn.so.9",
                "libcublasLt.so.13", "libnvidia-ml.so.1", "libpthread.so.0"]
    taken = ["libdnnl.so.2", "libstdc++.so.6", "libcrypto.so.3", "libzip.so.4", "libmd.so.0",
             "libabsl_strings.so.20220623", "libgomp.so.1", "libcord.so.1"]
    assert [n for n in left_out + taken if pack.LEFT_OUT.match(n)] == left_out


def bits_are_compared(path):
    # What ebb-bench writes: the results of a device whose name has an "x" are others.
    fake = path.with_name("fake")
    fake.write_text("""#!/usr/bin/env python3
import json, sys
device, out = sys.argv[sys.argv.index("--device") + 1], sys.argv[-1]
hashes = [] if device == "sim" else ["x" in device and "1" or "0"]
rows = [{"name": n, "alone": {"sha256": hashes}, "together": {"sha256": hashes * 2}} for n in "ab"]
open(out, "w").write(json.dumps({"equal_jobs": rows}))
sys.exit("a failure" if device == "bad" else 0)
""")
    fake.chmod(0o755)

    def compare(one, two):
        script = SOURCE / "tools" / "gpu_check" / "same_bits.py"
        return subprocess.run([sys.executable, str(script), str(fake), one, two, "a,b"],
                              capture_output=True, text=True, check=False)
    same = compare("cuda", "cuda+nographs")
    assert same.returncode == 0 and json.loads(same.stdout)["differ"] == [], same
    other = compare("cuda", "x")
    assert other.returncode == 1 and json.loads(other.stdout)["differ"] == ["a", "b"], other
    assert "no values" in compare("sim", "sim").stderr
    bad = compare("bad", "cuda")
    assert bad.returncode == 1 and "a failure" in bad.stderr, bad


def a_pack_has_what_programs_need(path):
    folder = path.parent
    for program, where in pack.PROGRAMS.items():
        (folder / "build" / where).mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true" if where == "tests" else shutil.which("openssl") or "/bin/ls",
                    folder / "build" / where / program)
    said = []
    assert pack.make(SOURCE, folder / "build", folder / "pack", said.append) == 0, said
    told = json.loads((folder / "pack" / pack.INDEX).read_text())
    assert {f"bin/{program}" for program in pack.PROGRAMS} <= set(told["files"]), told
    assert not any(name.startswith("lib/libc.so") for name in told["files"]), told
    programs, libraries, commit = pack.unpack(folder / "pack")
    for name, size in told["files"].items():
        assert (programs.parent / name).stat().st_size == size, name
    for program in pack.PROGRAMS:
        code = subprocess.run([programs / program, "version"], capture_output=True, check=False,
                              env={"LD_LIBRARY_PATH": str(libraries)}).returncode
        assert code == 0 or not shutil.which("openssl"), program
    assert commit == told["commit"] == pack.commit(SOURCE)
    # Once unpacked it stays so; another pack in its place is unpacked anew.
    (programs / "mark").touch()
    pack.unpack(folder / "pack")
    assert (programs / "mark").exists()
    index = folder / "pack" / pack.INDEX
    index.write_text(index.read_text() + " ")
    pack.unpack(folder / "pack")
    assert not (programs / "mark").exists() and pack.unpack(folder) is None
    limit, pack.LIMIT = pack.LIMIT, 1000
    assert pack.make(SOURCE, folder / "build", folder / "pack", said.append) == 1
    pack.LIMIT = limit
    assert "more than" in said[-1], said


def without_a_gpu_it_says_so(path):
    def run(*args):
        return subprocess.run([str(SOURCE / "scripts" / "gpu_check"), *args], capture_output=True,
                              text=True, check=False,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    done = run("--out", str(path))
    assert done.returncode == 3 and "no GPU here" in done.stderr, done
    written = json.loads(path.read_text())
    assert written["card"] is None and written["why"] and written["parts"] == {}, written
    assert written["commit"] and written["date"].endswith("Z"), written
    # What an earlier run found is not lost.
    path.write_text(json.dumps({**HEAD, "parts": {"ops": {"state": OK}}}))
    assert run("--out", str(path)).returncode == 3
    kept = json.loads(path.with_name(path.name + ".before").read_text())
    assert kept["parts"]["ops"]["state"] == OK, kept
    listed = run("--list")
    assert listed.returncode == 0 and "contract" in listed.stdout, listed
    wrong = run("--only", "nonsense")
    assert wrong.returncode == 2 and "contract" in wrong.stderr, wrong
    assert run("--seconds", "0").returncode == 2


def main():
    for test in (parts_end_as_they_do, what_a_part_leaves_behind_is_ended,
                 a_run_goes_on_where_the_last_one_ended, the_limit_of_all_ends_the_run,
                 what_went_wrong_comes_last_the_next_time, the_parts_fit_two_calls,
                 a_run_that_is_killed_says_where_it_was, other_files_are_left_alone,
                 outputs_are_read, bits_are_compared,
                 a_pack_has_what_programs_need, without_a_gpu_it_says_so):
        with tempfile.TemporaryDirectory() as folder:
            print(test.__name__, flush=True)
            test(pathlib.Path(folder, "results.json"))


if __name__ == "__main__":
    main()
