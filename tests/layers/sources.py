"""The C files of a source tree, and their text without comments and strings."""
import pathlib
import re

FOLDERS = ("codegen", "engine", "runtime", "specs", "tests", "tools")
SUFFIXES = {".c", ".h", ".def", ".cuh", ".in"}
QUIET = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def files(root: pathlib.Path, folders: tuple[str, ...] = FOLDERS) -> list[pathlib.Path]:
    """Paths relative to `root`, sorted."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                found.append(path.relative_to(root))
    return sorted(found)


def code(text: str) -> str:
    """Comments and literals blanked, line numbers kept."""
    return QUIET.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
