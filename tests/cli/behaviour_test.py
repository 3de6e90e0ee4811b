#!/usr/bin/env python3
"""What golden files cannot show: closed pipes, colour, one JSON document per call, every id and verb explained."""

import json
import os
import pty
import re
import subprocess
import sys

BINARY = os.path.realpath(sys.argv[1])
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", "TERM": "xterm"}
ENVIRONMENT |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def run(*words, **variables):
    return subprocess.run([BINARY, *words], env=ENVIRONMENT | variables, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


def on_terminal(*words, **variables):
    """Output of a run whose stdout and stderr are one terminal."""
    main, sub = pty.openpty()
    child = subprocess.Popen([BINARY, *words], env=ENVIRONMENT | variables, stdin=subprocess.DEVNULL, stdout=sub, stderr=sub)
    os.close(sub)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(main)
    child.wait()
    return text.decode()


def check(condition, what):
    if not condition:
        print("failed:", what)
        check.failed = True


check.failed = False

# A reader that went away: quiet, exit 0.
read_end, write_end = os.pipe()
os.close(read_end)
gone = subprocess.run([BINARY, "help", "errors"], env=ENVIRONMENT, stdout=write_end, stderr=subprocess.PIPE, check=False)
os.close(write_end)
check((gone.returncode, gone.stderr) == (0, b""), f"closed pipe: {gone}")

# Standard output that cannot be written is an error, not silence.
with open("/dev/full", "w", encoding="utf-8") as full:
    result = subprocess.run([BINARY, "--help"], env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
check(result.returncode == 3 and "error[TE0907]" in result.stderr, f"full disk: {result}")

# --color > TETRAD_COLOR > NO_COLOR > terminal and TERM.
ESCAPE = "\x1b["
for expected, words, variables in [
    (True, [], {}), (False, [], {"TERM": "dumb"}), (False, [], {"NO_COLOR": "1"}), (True, [], {"NO_COLOR": ""}),
    (True, [], {"NO_COLOR": "1", "TETRAD_COLOR": "always"}), (False, [], {"TETRAD_COLOR": "never"}),
    (False, ["--color", "never"], {"TETRAD_COLOR": "always"}), (True, ["--color=always"], {"NO_COLOR": "1", "TERM": "dumb"}),
]:
    text = on_terminal("nonsense", *words, **variables)
    check((ESCAPE in text) == expected, f"colour of {words} {variables}: {text!r}")
check(ESCAPE not in run("nonsense").stderr, "no colour in a pipe")
check(ESCAPE in run("nonsense", "--color", "always").stderr, "colour in a pipe when asked")

# First screen: 45 lines of 80 columns.
screen = run("--help").stdout.splitlines()
check(len(screen) <= 45 and max(map(len, screen)) <= 80, f"first screen: {len(screen)} lines")
check(run().stdout.splitlines() == screen, "no words: the first screen")

# Each verb on it has a help of at most 80 columns (words that cannot be broken apart), and JSON errors.
verbs = re.findall(r"^(?:[A-Z][a-z ]{16}| {17})([a-z]+) {2,}\S", "\n".join(screen), re.M)
check({"help", "explain"} <= set(verbs), f"verbs: {verbs}")
for verb in verbs:
    text = run(verb, "--help")
    check(text.returncode == 0 and f"tetrad {verb}" in text.stdout, f"help of {verb}")
    check(run("help", verb).stdout == text.stdout, f"help {verb} is {verb} --help")
    check(max(map(len, text.stdout.splitlines())) <= 100, f"help of {verb} is too wide")
    for words in ([verb, "--no-such-flag", "--json"], ["--json", verb, "--no-such-flag"]):
        failed = run(*words)
        check(failed.returncode == 2, f"{words}: exit {failed.returncode}")
        document = json.loads(failed.stdout)
        check(document["error"]["id"] == "TE0902" and document["argv"] == words, f"{words}: {document}")

# Every id that has a section is explained.
ids = re.findall(r"^### (T[EP]\d{4})", run("help", "errors").stdout, re.M)
check(len(ids) > 5, "ids of help errors")
for name in ids:
    explained = run("explain", name.lower())
    check(explained.returncode == 0 and name in explained.stdout and len(explained.stdout.splitlines()) > 2, f"explain {name}")

sys.exit(1 if check.failed else 0)
