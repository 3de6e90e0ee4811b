#!/usr/bin/env python3
"""Public user reports as tests.   run_cases.py BINARY [FILE...]   |   run_cases.py --check-files

Each JSON file here is a list of questions. A question has the report's `id`, its `source`, a `command` (words after
`tetrad`; $DATA is tests/data), optional `stdin`, the `exit` code, and `facts`: pairs of a path into the command's JSON
document and the value the report's right answer demands. A path's part is a key, an index, or [key=value], the first
element of a list with that value; a value {"has": TEXT} asks for a part of a text, {"lacks": TEXT} that it is absent from
a text or list, {"length": N} for a size.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"


def look_up(document, path):
    for part in re.findall(r"\[[^\]]*\]|[^./\[]+", path.replace("/", ".")):
        if part.startswith("["):
            key, _, value = part[1:-1].partition("=")
            document = next(item for item in document if str(item.get(key)) == value)
        elif isinstance(document, list):
            document = document[int(part)]
        else:
            document = document[part]
    return document


def holds(actual, wanted):
    if isinstance(wanted, dict) and set(wanted) == {"has"}:
        return wanted["has"] in actual
    if isinstance(wanted, dict) and set(wanted) == {"lacks"}:
        return wanted["lacks"] not in actual
    if isinstance(wanted, dict) and set(wanted) == {"length"}:
        return len(actual) == wanted["length"]
    return type(actual) is type(wanted) and actual == wanted


def ask(binary, question):
    """What is wrong with the answer, one line each."""
    words = [word.replace("$DATA", str(DATA)) for word in question["command"]]
    run = subprocess.run([binary, "--json", *words], input=question.get("stdin", ""), capture_output=True, text=True,
                         timeout=300, check=False)
    if run.returncode != question["exit"]:
        yield f"exit {run.returncode}, not {question['exit']}: {run.stderr.strip()[:300]}"
    try:
        document = json.loads(run.stdout)
    except json.JSONDecodeError as error:
        yield f"no JSON document: {error}"
        return
    for path, wanted in question["facts"]:
        try:
            actual = look_up(document, path)
        except (KeyError, IndexError, StopIteration, TypeError, ValueError):
            yield f"{path} is not there"
            continue
        if not holds(actual, wanted):
            yield f"{path} is {json.dumps(actual)[:200]}, not {json.dumps(wanted)}"


def file_findings():
    for path in sorted(HERE.glob("*.json")):
        for number, question in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            name = f"{path.name} {number} {question.get('id')}"
            missing = {"id", "source", "command", "exit", "facts"} - set(question)
            extra = set(question) - {"id", "source", "command", "exit", "facts", "stdin", "why"}
            if missing or extra:
                yield f"{name}: missing {sorted(missing)}, unknown {sorted(extra)}"
            elif not question["facts"]:
                yield f"{name}: no facts"


def self_test():
    document = {"a": [{"k": "x", "v": 1}, {"k": "y", "v": "text"}]}
    assert look_up(document, "a[k=y]/v") == "text" and look_up(document, "a/0/v") == 1
    assert holds("text", {"has": "ex"}) and not holds("text", {"has": "z"}) and not holds(1, True)
    assert holds("text", {"lacks": "z"}) and not holds([1], {"length": 2})


def main():
    if sys.argv[1:] == ["--check-files"]:
        self_test()
        found = list(file_findings())
        print("\n".join(found))
        return 1 if found else 0
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    binary = os.path.realpath(sys.argv[1])
    files = [HERE / name for name in sys.argv[2:]] or sorted(HERE.glob("*.json"))
    asked, bad = 0, 0
    for path in files:
        for question in json.loads(path.read_text(encoding="utf-8")):
            asked += 1
            wrong = list(ask(binary, question))
            bad += bool(wrong)
            for line in wrong:
                print(f"{question['id']} ({' '.join(question['command'])}): {line}")
    print(f"{asked - bad} of {asked} answers as the reports demand")
    return 1 if bad or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
