"""scripts/run_tests.py counts what ctest reports."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from run_tests import summarise  # noqa: E402

JUNIT = """<testsuite>
<testcase name="a" status="run"/><testcase name="b" status="run"/>
<testcase name="c" status="fail"><failure message=""/><system-out>why</system-out></testcase>
<testcase name="d" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
<testcase name="e" status="notrun"/>
</testsuite>"""

assert summarise(JUNIT) == (2, 2, 1, [("c", "why"), ("e", "")]), summarise(JUNIT)
