"""Run the unittest cases of a module and print TAP, one line per case.

Meson counts the lines, so every case shows in "N passed, N failed, N skipped". STG_TEST_CASE, when set,
is the one case to run.
"""
import os
import sys
import traceback
import unittest


class TapResult(unittest.TestResult):
    """Prints each outcome as it comes. A sub-test that fails makes its case fail."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.sub_failures = []

    def startTest(self, test):
        super().startTest(test)
        self.sub_failures = []

    def say(self, outcome, test, suffix="", details=""):
        self.count += 1
        name = test.id().split(".", 1)[-1].replace("#", "")
        print(f"{outcome} {self.count} - {name}{suffix}", flush=True)
        for line in details.splitlines():
            print(f"# {line}", flush=True)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            text = "".join(traceback.format_exception(*err))
            self.sub_failures.append(f"{dict(subtest.params)}\n{text}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("ok", test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("not ok", test, details="".join(traceback.format_exception(*err)))

    def addError(self, test, err):
        super().addError(test, err)
        self.say("not ok", test, details="".join(traceback.format_exception(*err)))

    def stopTest(self, test):
        # unittest reports no outcome of its own for a case whose sub-tests failed
        if self.sub_failures:
            self.say("not ok", test, details="\n".join(self.sub_failures))
        super().stopTest(test)


def main():
    loader = unittest.TestLoader()
    if os.environ.get("STG_TEST_CASE"):
        loader.testMethodPrefix = os.environ["STG_TEST_CASE"]
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    result = TapResult()
    suite.run(result)
    print(f"1..{result.count}", flush=True)
    sys.exit(0 if result.wasSuccessful() and result.count > 0 else 1)
