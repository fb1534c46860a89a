"""Runs the parts of a check, each in processes of its own with a time limit, and keeps the results of
all in one JSON file, which is written anew as soon as one is known: a run that is cut off loses only
the part that it was in, and the next run of the same file goes on behind it."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from typing import Callable

# States of a part. What is OK and of the same commit is not run again.
OK, FAILED, TIMEOUT, ABSENT, LATE, RUNNING = "ok", "failed", "timeout", "absent", "late", "running"
TAIL = 4000  # characters of a part's output that are kept
LEAST = 5  # seconds below which a part is not begun


class Absent(Exception):
    """What the part needs is not on this machine; its text says what."""


class Failed(Exception):
    """The part ran, but its figures are not what they must be."""


@dataclasses.dataclass
class Part:
    """`make` gives the command, or raises Absent. It is run with the variables `env` beside those of
    the caller. `read` makes figures of its standard output; it may raise Failed or Absent."""
    name: str
    about: str
    seconds: int
    make: Callable[[], list]
    env: dict = dataclasses.field(default_factory=dict)
    read: Callable[[str], object] = None


class Results:
    """The JSON file. `head` is what the results are of: a file of another commit or card is kept
    beside it as FILE.before, and the results begin anew."""

    def __init__(self, path, head):
        self.path = pathlib.Path(path)
        self.all = {**head, "parts": {}}
        if not self.path.exists():
            return
        try:
            old = json.loads(self.path.read_text())
            same = all(old[key] == head[key] for key in ("commit", "card"))
            parts = dict(old["parts"])
        except (ValueError, KeyError, TypeError):
            raise SystemExit(f"gpu_check: {path} is there and no file of gpu_check; name another "
                             "by --out, or remove it") from None
        if same:
            self.all["parts"] = parts
        elif parts:
            os.replace(self.path, self.path.with_name(self.path.name + ".before"))

    def state(self, name):
        return self.all["parts"].get(name, {}).get("state")

    def put(self, name, result):
        self.all["parts"][name] = result
        self.write()

    def write(self):
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(self.all, indent=1) + "\n")
        os.replace(new, self.path)


def kill(process):
    """Ends the part's processes: they are a group of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_command(command, env, seconds):
    """(exit code or None at the limit, standard output, the end of all output)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   env={**os.environ, **env})
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill(process)  # and what it started
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return code, texts[0], (texts[0][-TAIL:] + texts[1][-TAIL:])[-TAIL:]


def run_part(part, seconds):
    """The result of one part as it stands in the file."""
    begin = time.monotonic()
    result = {"state": FAILED}
    try:
        command = part.make()
        result["command"] = " ".join([f"{k}={v}" for k, v in part.env.items()] +
                                     [str(word) for word in command])
        code, out, tail = run_command(command, part.env, seconds)
        if code is None:
            result.update(state=TIMEOUT, why=f"not done after {seconds:.0f} s", output=tail)
        elif code != 0:
            result.update(why=f"ended by signal {-code}" if code < 0 else f"exit code {code}",
                          output=tail)
        if part.read is not None:
            try:
                result["figures"] = part.read(out)
            except (Failed, Absent):
                raise
            except Exception as error:  # of output that is not what it should be
                if code == 0:
                    raise Failed(f"its output cannot be read: {error!r}: {tail}") from error
        if code == 0:
            result["state"] = OK
    except Absent as absent:
        result.update(state=ABSENT, why=str(absent))
    except Failed as failed:
        result.update(state=FAILED, why=str(failed))
    except OSError as error:
        result.update(state=FAILED, why=f"cannot be run: {error}")
    result["seconds"] = round(time.monotonic() - begin, 2)
    return result


def run_parts(parts, results, seconds, say):
    """Runs what is not OK yet, within `seconds` in all: in order, but what went wrong before comes
    last, so that it does not take the time of what has not been run. True: nothing failed or is left.
    """
    end = time.monotonic() + seconds
    good = True
    wrong = (FAILED, TIMEOUT, RUNNING)
    for part in sorted(parts, key=lambda part: results.state(part.name) in wrong):
        if results.state(part.name) == OK:
            say(f"{part.name}: ok before")
            continue
        left = end - time.monotonic()
        if left < LEAST:
            results.put(part.name, {"state": LATE, "why": "no time was left for it; run again"})
        else:
            # Whoever cuts the run off finds here what it was at.
            results.put(part.name, {"state": RUNNING})
            result = run_part(part, min(part.seconds, left))
            if result["state"] == TIMEOUT and left < part.seconds:
                result.update(state=LATE, why=f"only {left:.0f} s were left for it; run again")
            results.put(part.name, result)
        result = results.all["parts"][part.name]
        good = good and result["state"] in (OK, ABSENT)
        why = f": {result['why'].splitlines()[0][:200]}" if result.get("why") else ""
        say(f"{part.name}: {result['state']}{why} ({result.get('seconds', 0)} s)")
    return good
