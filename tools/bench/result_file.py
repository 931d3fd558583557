"""Result files of the bench: rows, checked member by member, with the commit and the date of their run.

Must not know what is shown of them. table.py says what forms a file has.
"""
import json
import math

# Rows of `bench steer SPEC...` by older versions.
KERNELS = {"tier0": "every built-in op", "in-use": "the ops in use"}
TEXTS = ("suite", "name", "kernel", "card")
COUNTS = ("driver", "rows", "registers")
TIMES = ("median_us", "min_us", "max_us", "floor_us", "ratio")

# Rows of today.
ROW_TEXTS = ("suite", "name", "series", "card", "cuda")
RELEASE = "driver_release"  # a text that rows have of a driver whose release is known
ROW_NUMBERS = ("median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio")
NO_NUMBERS = ("inf", "-inf", "nan")  # as the bench writes them; only extras may be so
RUN = "run"  # the suite of what a run says of itself
UNFINISHED = "ended by a failure"


class Fault(Exception):
    """One line for the user."""


def is_number(value) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def is_text(value) -> bool:
    """Whether README.md can show it within a cell: one line, and no mark of a table or of HTML."""
    return (isinstance(value, str) and value.strip() != "" and value.isprintable()
            and not set(value) & {"|", "<"})


def is_right(member: str, value) -> bool:
    if member in TEXTS:
        return is_text(value)
    if member in COUNTS:
        return isinstance(value, int) and is_number(value) and value >= 0
    return is_number(value) and value > 0


def check_old_row(place: str, row: dict) -> None:
    for member in TEXTS + COUNTS + TIMES:
        if member not in row:
            raise Fault(f"{place}: no member '{member}'")
        if not is_right(member, row[member]):
            raise Fault(f"{place}.{member}: {row[member]!r} is no value of a measured row")
    if row["suite"] != "steer" or row["kernel"] not in KERNELS:
        raise Fault(f"{place}: suite '{row['suite']}', kernel '{row['kernel']}' has no table")


def check_row(place: str, row) -> None:
    if not isinstance(row, dict):
        raise Fault(f"{place}: expected an object, as `steergraph bench --json` prints it")
    if "kernel" in row:
        check_old_row(place, row)
        return
    for member in (*ROW_TEXTS, "driver", *ROW_NUMBERS):
        if member not in row:
            raise Fault(f"{place}: no member '{member}'")
    for member in ROW_TEXTS:
        if not is_text(row[member]):
            raise Fault(f"{place}.{member}: {row[member]!r} is no value of a measured row")
    if not is_right("driver", row["driver"]):
        raise Fault(f"{place}.driver: {row['driver']!r} is no value of a measured row")
    if RELEASE in row and not is_text(row[RELEASE]):
        raise Fault(f"{place}.{RELEASE}: {row[RELEASE]!r} is no value of a measured row")
    for member in set(row) - {*ROW_TEXTS, RELEASE}:
        value = row[member]
        if member in ROW_NUMBERS:
            right = value is None or (is_number(value) and value > 0)
        else:
            right = is_number(value) or value in NO_NUMBERS
        if not right:
            raise Fault(f"{place}.{member}: {value!r} is no value of a measured row")
    median, floor, ratio = row["median_us"], row["floor_us"], row["ratio"]
    known = None if median is None or floor is None else median / floor
    if (known is None) != (ratio is None) or (known and not math.isclose(known, ratio, rel_tol=1e-5)):
        raise Fault(f"{place}.ratio: {ratio!r} is not median_us over floor_us")


def check_fact(place: str, value) -> None:
    if value is not None and not (is_text(value) and "`" not in value):
        raise Fault(f"{place}: {value!r} is no text of one line")


def read_run(text: bytes, place: str) -> dict:
    """A checked result file: rows, and commit and date or None."""
    try:
        value = json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise Fault(f"{place}: {error}") from None
    except RecursionError:
        raise Fault(f"{place}: nested too deeply for rows of the bench") from None
    run = value if isinstance(value, dict) else {"rows": value}
    rows = run.get("rows")
    unknown = set(run) - {"rows", "commit", "date"}
    if unknown or not isinstance(rows, list) or not rows:
        raise Fault(f"{place}: expected rows of the bench, bare or in \"rows\"")
    for member in ("commit", "date"):
        check_fact(f"{place}: {member}", run.get(member))
    for index, row in enumerate(rows):
        check_row(f"{place}: rows[{index}]", row)
    cards = {(row["card"], row["driver"]) for row in rows}
    if len(cards) > 1:
        raise Fault(f"{place}: rows of {len(cards)} cards or drivers; a file is one run")
    if len({row[RELEASE] for row in rows if RELEASE in row}) > 1:
        raise Fault(f"{place}: rows of two releases of the driver; a file is one run")
    if any(row.get("suite") == RUN and row["name"] == UNFINISHED for row in rows):
        raise Fault(f"{place}: the run that printed these rows {UNFINISHED}: they are no result")
    if len({"kernel" in row for row in rows}) > 1:
        raise Fault(f"{place}: rows with a kernel and rows with a series; a file is one run")
    names = [(row["suite"], row["name"], row["series"]) for row in rows if "kernel" not in row]
    for name in names:
        if names.count(name) > 1:
            raise Fault(f"{place}: two rows of suite '{name[0]}', '{name[1]}', series '{name[2]}'")
    return {"rows": rows, "commit": run.get("commit"), "date": run.get("date")}
