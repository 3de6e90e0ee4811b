#!/usr/bin/env python3
"""Runs ctest in a build folder, quietly; shows what failed; the last line is "N passed, N failed".

  scripts/run_tests.py BUILD_FOLDER [more words for ctest]
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET


def summarise(junit_text):
    """(passed, failed, skipped, [(name, output)]) of a JUnit file as ctest writes it."""
    passed, failed, skipped, failures = 0, 0, 0, []
    for case in ET.fromstring(junit_text).iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif case.find("skipped") is not None and status in ("notrun", "disabled"):
            skipped += 1
        else:
            failed += 1
            output = case.find("system-out")
            failures.append((case.get("name"), output.text if output is not None and output.text else ""))
    return passed, failed, skipped, failures


def main():
    build, more = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        junit = os.path.join(folder, "tests.xml")
        jobs = str(len(os.sched_getaffinity(0)))
        run = subprocess.run(
            ["ctest", "--test-dir", build, "-j", jobs, "--timeout", "600", "--output-junit", junit, *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(junit):
            print(run.stdout)
            print("0 passed, 1 failed")
            return 1
        with open(junit, encoding="utf-8", errors="replace") as file:
            passed, failed, skipped, failures = summarise(file.read())
    for name, output in failures:
        print(f"--- {name}")
        print("\n".join(output.rstrip().splitlines()[-60:]))
    if passed + failed == 0:
        print("no test ran")
        failed = 1
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
