"""The rows that a peer hands back: the keys of `steergraph bench --json`, then extras.

Needs no torch. A key that was not measured is null.
"""
import json
import math
import os
import pathlib

TEXTS = ("suite", "name", "series", "card", "cuda")
TIMES = ("median_us", "min_us", "max_us", "wall_us")
KEYS = ("suite", "name", "series", "card", "driver", "cuda", "median_us", "min_us", "max_us",
        "wall_us", "floor_us", "ratio")  # fmt: skip


class Times:
    """What is said of repeated measurements, in microseconds."""

    def __init__(self, samples: list):
        ordered = sorted(samples)
        middle = len(ordered) // 2
        self.min, self.max = ordered[0], ordered[-1]
        self.median = ordered[middle]
        if len(ordered) % 2 == 0:
            self.median = (ordered[middle - 1] + ordered[middle]) / 2


def make(case, series: str, machine: dict, device: Times, wall: Times, extras: dict) -> dict:
    row = {"suite": case.suite, "name": case.name, "series": series, **machine}
    row |= {"median_us": device.median, "min_us": device.min, "max_us": device.max}
    row |= {"wall_us": wall.median, "floor_us": None, "ratio": None}
    return {**{key: row[key] for key in KEYS}, **extras}


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def fault(row) -> str:
    """What is wrong with a row; "" for nothing."""
    if not isinstance(row, dict) or tuple(row)[: len(KEYS)] != KEYS:
        return f"a row begins with the keys {', '.join(KEYS)}"
    for key in TEXTS:
        if not isinstance(row[key], str) or row[key] == "":
            return f"{key}: {row[key]!r} is no text"
    for key in TIMES:
        if not is_number(row[key]) or row[key] <= 0:
            return f"{key}: {row[key]!r} is no time"
    for key in tuple(row)[len(KEYS) :]:
        if not is_number(row[key]):
            return f"{key}: {row[key]!r} is no number"
    return ""


def write(path, rows: list) -> None:
    """The file as it was, or the new one: who reads it may have ended us."""
    for index, row in enumerate(rows):
        if fault(row):
            raise ValueError(f"row {index}: {fault(row)}")
    part = pathlib.Path(f"{path}.part")
    part.write_text(json.dumps(rows, indent=1) + "\n")
    os.replace(part, path)
