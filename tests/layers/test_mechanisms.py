#!/usr/bin/env python3
"""Plant one fault of each kind in a small table of mechanisms and see check_mechanisms.py find it."""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

TABLE = """# Mechanisms

**A lock is taken.**
- test `unit/lock:is_taken`
- without `runtime/lock.c:take`: `flock(fd)` → `0`
- without `runtime/lock.c`: `#define N 1` → nothing
- fails: `1 != 0`

**The tool says so.**
- test `cli/lock:test_it_is_said`
- without `runtime/lock.c:say`: `x();` → `if (0) {⏎  x();⏎}`
- fails: `AssertionError`
"""

TREE = {
    "runtime/lock.c": "#define N 1\nint take(int fd) {\n  return flock(fd);\n}\n\n"
    "int give(int fd) {\n  return flock(fd) + flock(fd);\n}\n\nvoid say(\n    void) {\n  x();\n}\n",
    "tests/unit/test_lock.c": "static void is_taken(void **state) {\n}\nint main(void) {\n  run(is_taken);\n}\n",
    "tests/cli/test_lock.py": "class Lock(Case):\n    def test_it_is_said(self):\n        pass\n",
}

# file, text, what it becomes, what must be said of that
PLANTED = [
    ("tests/MECHANISMS.md", "unit/lock:", "unit/locks:", "there is no tests/unit/test_locks.c"),
    ("tests/MECHANISMS.md", ":take`", ":took`", "runtime/lock.c has no function took"),
    ("tests/MECHANISMS.md", "`flock(fd)`", "`flock(f)`", "'flock(f)' stands 0 times in runtime/lock.c:take"),
    ("tests/MECHANISMS.md", ":take`: `flock(fd)`", ":give`: `flock(fd)`", "'flock(fd)' stands 2 times"),
    ("tests/MECHANISMS.md", "- fails: `1 != 0`\n", "", "how the test then fails is missing"),
    ("tests/MECHANISMS.md", "- fails: `1", "- fail: `1", "is neither a test nor an edit nor a failure"),
    ("tests/MECHANISMS.md", "runtime/lock.c`:", "runtime/luck.c`:", "there is no runtime/luck.c"),
    ("tests/unit/test_lock.c", "void is_taken", "void was_taken", "test_lock.c has no is_taken"),
    ("tests/unit/test_lock.c", "run(is_taken)", "run(0)", "test_lock.c never runs is_taken"),
    ("tests/cli/test_lock.py", "def test_it_is", "def it_is", "test_lock.py has no test_it_is_said"),
    ("runtime/lock.c", "return flock(fd);", "return lockf(fd);", "'flock(fd)' stands 0 times"),
]


def check(files: dict[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="steergraph-mechanisms-") as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, HERE / "check_mechanisms.py", folder], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def report(ok: bool, name: str, said: str) -> bool:
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)
    return ok


def main() -> int:
    files = TREE | {"tests/MECHANISMS.md": TABLE}
    status, said = check(files)
    good = report(status == 0 and "2 mechanisms" in said, "content with a table that fits", said)
    status, said = check(TREE | {"tests/MECHANISMS.md": "# Mechanisms\n"})
    good &= report(status == 1, "an empty table is no success", said)
    for name, old, new, expected in PLANTED:
        assert files[name].count(old) == 1, old
        status, said = check(files | {name: files[name].replace(old, new)})
        good &= report(status == 1 and expected in said, f"finds '{expected}'", said)
    return 0 if good else 1


raise SystemExit(main())
