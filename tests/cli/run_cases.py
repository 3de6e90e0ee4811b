#!/usr/bin/env python3
"""Golden tests of the command.

  run_cases.py BINARY [CASE...]   runs cases (all of them without a name)
  run_cases.py --check-files      every folder is a case, no stray files, messages keep the grammar
  run_cases.py --self-test

A case is a folder of cases/: `cmd` is a bash line that calls `tetrad`, with tests/data in $DATA and an empty current
folder; `stdout`, `stderr` and `exit` hold what must come out. `filters`, if there, names more filters (below), one a
line. TETRAD_BLESS=1 writes the golden files.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
DATA = HERE.parent / "data"
GOLDEN = ("stdout", "stderr", "exit")

# Applied to every case: what differs from checkout to checkout.
ALWAYS = [
    (re.compile(r"\btetrad \d+\.\d+\.\d+"), "tetrad <version>"),
    (re.compile(r'("tetrad": )"\d+\.\d+\.\d+"'), r'\1"<version>"'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<date>"),
]
# Named in a case's `filters`: what differs from machine to machine or run to run.
FILTERS = {
    "times": (re.compile(r"(?<![\w.])\d+(\.\d+)? (ns|us|ms|s)\b"), "<time>"),
    "rates": (re.compile(r"(?<![\w.])\d+(\.\d+)? [kMGT]?(B/s|FLOP/s|OP/s)"), "<rate>"),
    "percents": (re.compile(r"(?<![\w.])\d+(\.\d+)? ?%"), "<percent>"),
    "numbers": (re.compile(r"(?<![\w.])-?\d+(\.\d+)?(e[+-]?\d+)?[mfi]?\b"), "<n>"),
    "blanks": (re.compile(r" {2,}"), "  "),
}


def normalise(text, names, replacements):
    for old, new in replacements:
        text = text.replace(old, new)
    for pattern, new in ALWAYS + [FILTERS[name] for name in names]:
        text = pattern.sub(new, text)
    return text


def run_case(binary, case):
    """{"stdout": ..., "stderr": ..., "exit": ...} after the filters."""
    names = (case / "filters").read_text(encoding="utf-8").split() if (case / "filters").exists() else []
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        home = os.path.join(folder, "home")
        work = os.path.join(folder, "work")
        tools = os.path.join(folder, "bin")
        for path in (home, work, tools):
            os.mkdir(path)
        os.symlink(binary, os.path.join(tools, "tetrad"))
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": home, "LC_ALL": "C", "TERM": "dumb", "DATA": str(DATA)}
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS"):
                environment[name] = value
        result = subprocess.run(["bash", "-c", (case / "cmd").read_text(encoding="utf-8")], cwd=work, env=environment,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        replacements = [(str(DATA), "$DATA"), (work, "$WORK"), (folder, "$TMP")]
    return {
        "stdout": normalise(result.stdout.decode("utf-8", "replace"), names, replacements),
        "stderr": normalise(result.stderr.decode("utf-8", "replace"), names, replacements),
        "exit": f"{result.returncode}\n",
    }


def check_case(binary, case):
    actual = run_case(binary, case)
    bad = []
    for name in GOLDEN:
        path = case / name
        if os.environ.get("TETRAD_BLESS") == "1":
            path.write_text(actual[name], encoding="utf-8")
            continue
        expected = path.read_text(encoding="utf-8") if path.exists() else "(no golden file)"
        if expected != actual[name]:
            bad.append(name)
            diff = subprocess.run(["diff", "-u", "--label", f"{case.name}/{name}", "--label", "actual", str(path), "-"],
                                  input=actual[name], capture_output=True, text=True, check=False)
            print(diff.stdout or f"{case.name}/{name} is missing; actual:\n{actual[name]}")
    return bad


def message_findings(text):
    """Lines of a golden stderr that break the grammar: lower case first, no final full stop, no "please"."""
    for line in text.splitlines():
        match = re.match(r"(?:error\[T[A-Z]\d{4}\]:|warning:|  (?:cause|help) +) ?(.*)", line)
        if line.startswith(("error", "warning")) and not re.match(r"error\[T[A-Z]\d{4}\]: |warning: ", line):
            yield line, "an error has the form error[ID]: what"
        if not match:
            continue
        message = match.group(1)
        # A name (M, NVFP4, "K", --flag, 'x') may start a message; a capitalised plain word may not.
        if re.match(r"[A-Z][a-z]", message):
            yield line, "starts in upper case"
        if message.endswith(".") and not message.endswith("..."):
            yield line, "ends with a full stop"
        if re.search(r"\b(please|sorry|oops|you must|invalid)\b", message, re.I):
            yield line, "says please, sorry or invalid"


def file_findings(cases):
    for case in sorted(cases.iterdir()):
        if not case.is_dir():
            yield f"{case.name}: not a folder"
            continue
        names = {path.name for path in case.iterdir()}
        for name in {"cmd", *GOLDEN} - names:
            yield f"{case.name}: no {name}"
        for name in names - {"cmd", "filters", *GOLDEN}:
            yield f"{case.name}: stray file {name}"
        if "filters" in names:
            for name in set((case / "filters").read_text(encoding="utf-8").split()) - set(FILTERS):
                yield f"{case.name}: no filter {name}"
        if "stderr" in names:
            for line, why in message_findings((case / "stderr").read_text(encoding="utf-8")):
                yield f"{case.name}: {why}: {line}"
        if "stdout" in names and "filters" not in names:
            for line in (case / "stdout").read_text(encoding="utf-8").splitlines():
                # A row of a table has several cells; sentences, sources and JSON are the terminal's to wrap.
                if len(line) > 100 and re.search(r"\S {2,}\S.* {2,}\S", line) and not line.lstrip().startswith(('"', "{")):
                    yield f"{case.name}: table wider than 100 columns: {line}"


def self_test():
    bad = ["error[TE0101]: Unknown thing", "error[TE0101]: a thing.", "error[TE0101]: please do", "error: no id",
           "  help   Try this", "warning: Something"]
    good = ["error[TE0101]: unknown thing", "  help   'x' lists all", "warning: M is large", "  where  A.b."]
    assert all(list(message_findings(line)) for line in bad), bad
    assert not any(list(message_findings(line)) for line in good), good
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        fake = root / "fake"
        fake.write_text("#!/bin/bash\necho tetrad 1.2.3 took 3.5 ms\nexit 4\n", encoding="utf-8")
        fake.chmod(0o755)
        case = root / "cases" / "one"
        case.mkdir(parents=True)
        (case / "cmd").write_text("tetrad\n", encoding="utf-8")
        assert len(list(file_findings(root / "cases"))) == 3
        for name, text in {"stdout": "tetrad <version> took <time>\n", "stderr": "", "exit": "4\n", "filters": "times\n"}.items():
            (case / name).write_text(text, encoding="utf-8")
        assert not list(file_findings(root / "cases"))
        assert run_case(str(fake), case)["stdout"] == "tetrad <version> took <time>\n"
        if os.environ.get("TETRAD_BLESS") != "1":
            assert not check_case(str(fake), case)
            (case / "exit").write_text("0\n", encoding="utf-8")
            assert check_case(str(fake), case) == ["exit"]
        (case / "notes").write_text("", encoding="utf-8")
        assert list(file_findings(root / "cases")) == ["one: stray file notes"]
    return 0


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["--check-files"]:
        found = list(file_findings(CASES))
        print("\n".join(found))
        return 1 if found else 0
    if not words:
        print(__doc__)
        return 2
    binary = os.path.realpath(words[0])
    cases = [CASES / name for name in words[1:]] or sorted(path for path in CASES.iterdir() if path.is_dir())
    bad = [case.name for case in cases if check_case(binary, case)]
    if len(cases) > 1:
        print(f"{len(cases) - len(bad)} passed, {len(bad)} failed {' '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
