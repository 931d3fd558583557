#!/usr/bin/env python3
"""tools/bench/table.py in small trees: what it renders, what it refuses, that check can fail."""
import json
import pathlib
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench" / "table.py"
BEGIN = "<!-- measured: begin, written by tools/bench/table.py -->"
END = "<!-- measured: end -->"
README = f"# x\n\n{BEGIN}\n{END}\n\nafter\n"
ROW = {
    "suite": "steer", "name": "specs/steer_mixed.json", "kernel": "tier0", "card": "Card 1",
    "driver": 13000, "rows": 2048, "median_us": 13.456, "min_us": 13, "max_us": 14.5,
    "floor_us": 12.0, "ratio": 1.12, "tile_rows": 2, "registers": 64, "local_bytes": 0,
    "compile_ms": 300, "source": "compiled",
}
LINE = "| `steer_mixed` | 2048 | every built-in op | 13.46 | 13.00 to 14.50 | 12.00 | 1.12 | 64 |"



def new_row(suite, name, series, median, floor=None, wall=None, **more) -> dict:
    ratio = median / floor if median and floor else None
    return {
        "suite": suite, "name": name, "series": series, "card": "Card 1", "driver": 13000,
        "cuda": "13.0.88", "median_us": median, "min_us": median, "max_us": median, "wall_us": wall,
        "floor_us": floor, "ratio": ratio, **more,
    }  # fmt: skip


NEW = [
    new_row("steer", "1 op", "steergraph", 12.5, 10.0, registers=63),
    new_row("steer", "1 op", "copy", 10.0, 10.0),
    new_row("steer", "1 op", "slice loop", 700.0, 10.0),
    new_row("steer", "8 ops", "steergraph", 20.0, 10.0),
    new_row("decode", "32 rows, 1 op", "steergraph", 2.0, 1.25),
    new_row("decode", "32 rows, 1 op, warm", "steergraph", 1.5, 1.0),
    new_row("steer", "host, graph launch", "steergraph", None, cpu_us=2.5),
    new_row("steer", "1 op", "torch eager loop", 1875.0, 10.0, 1900.0, steergraph_x=150.0),
    new_row("decode", "32 rows, 1 op", "torch eager loop", 2850.0, 1.25, 2900.0),
    new_row("steer", "1 op", "torch gather/scatter", 2000.0, 10.0, 2050.0, x="inf"),
    new_row("rpc", "32 requests, 1 new", "steergraph in one call", None, wall=40.0),
    new_row("rpc", "32 requests, 1 new", "SHA-256, adaptive", None, wall=240.0),
    new_row("rpc", "8 KiB new, table of 32", "steergraph", None, wall=1.5),
    new_row("warmup", "later calls", "steergraph", None, wall=21.0),
    new_row("warmup", "calls, alone", "steergraph", None, wall=23.0, calls=10000, p50_us=23.0,
            p99_us=74.2, p100_us=1172.5, calls_2ms_over_p50=0),
    new_row("warmup", "first result", "torch.compile loop (dynamic)", None, wall=18.4e6,
            amortise_calls=21042.0),
    new_row("warmup", "first call", "torch.compile loop (dynamic)", None, wall=2e6,
            amortise_calls="inf"),
    new_row("cache", "memory hit", "steergraph", None, wall=0.0214, target_us=0.2, p99_us=0.03),
    new_row("cache", "memory hit, the table", "steergraph", None, wall=0.1, loaded=10000),
    new_row("cache", "cache ls", "steergraph", None, wall=224612.0, target_us=5e5, entries=10000),
    new_row("cache", "50 kernels, empty folder", "many processes", None, wall=7.8e6, compiles=50),
]  # fmt: skip
NEW_LINES = [
    "**Card 1**, CUDA driver 13.0, NVRTC 13.0.88, commit `c0ffee`, 2026-01-02:",
    "| prefill | steergraph, µs | floor, µs | ratio | eager loop | gather/scatter |",
    "| 1 op | 12.50 | 10.00 | 1.25 | 150 × | 160 × |",
    "| 8 ops | 20.00 | 10.00 | 2.00 |  |  |",
    "| decode | steergraph, µs | floor, µs | ratio | eager loop |",
    "| 32 rows, 1 op | 2.00 | 1.25 | 1.60 | 1425 × |",
    "| RPC: vectors in, rows out | steergraph, µs | SHA-256, adaptive | SHA-256, eager launches |",
    "| 32 requests, 1 new | 40.0 | 6 × |  |",
    "| later calls | steergraph | 21 µs |  |",
    "| calls of a table in use | number | p50 | p99 | longest | 2 ms over p50 |",
    "| calls, alone | 10000 | 23 µs | 74.2 µs | 1.17 ms | 0 |",
    "| first result | torch.compile loop (dynamic) | 18.4 s | 21042 |",
    "| first call | torch.compile loop (dynamic) | 2 s | never |",
    "| cache | by | time | p99 | target |",
    "| memory hit | steergraph | 21.4 ns | 30 ns | 200 ns |",
    "| memory hit, the table, of 10000 | steergraph | 100 ns |  |  |",
    "| cache ls | steergraph | 225 ms |  | 500 ms |",
    "| 50 kernels, empty folder | many processes | 7.8 s |  |  |",
]
# The same run with the epilogue: a table more, with a column of the rows that have the number.
NORM = [
    *NEW,
    new_row("steer", "norm, 32 rows, unsteered", "steergraph", 2.5, 2.0),
    new_row("steer", "norm, 32 rows, unsteered", "torch add + rms_norm in a graph", 5.0, 2.0, 5.5),
    new_row("steer", "norm, 32 rows", "steergraph", 2.75, 2.0, unsteered_x=1.1),
    new_row("steer", "norm, 1 row", "steergraph", 1.0, 1.0, unsteered_x="nan"),
]
NORM_LINES = [
    *NEW_LINES,
    "| add + RMSNorm | steergraph, µs | floor, µs | ratio | over unsteered | in a graph |",
    "| norm, 32 rows, unsteered | 2.50 | 2.00 | 1.25 |  | 2 × |",
    "| norm, 32 rows | 2.75 | 2.00 | 1.38 | 1.100 |  |",
    "| norm, 1 row | 1.00 | 1.00 | 1.00 |  |  |",
]
# The same run with what tables declare: a table more, which NEW has no rows for.
DECLARED = [
    *NEW,
    new_row("steer", "declares nothing more", "steergraph", 10.5, 10.0),
    new_row("steer", "declares nothing more", "copy", 10.0, 10.0),
    new_row("steer", "declares windows", "steergraph", 10.605, 10.0, without_x=1.01),
    new_row("steer", "declares counters", "steergraph", 12.0, 10.0, without_x=12.0 / 10.5),
]
DECLARED_LINES = [
    *NEW_LINES,
    "| 1 op, 2048 rows, in a table that | steergraph, µs | floor, µs | ratio | over without |",
    "| declares nothing more | 10.50 | 10.00 | 1.05 |  |",
    "| declares windows | 10.61 | 10.00 | 1.06 | 1.010 |",
    "| declares counters | 12.00 | 10.00 | 1.20 | 1.143 |",
]
# The same run with attention: a table a suite, one of layers, and the metrics of a cache.
TOKEN = "every length to 64"
ATTENTION = [
    *NEW,
    new_row("rope", "8 x 2048", "steergraph", 275.0, 250.0, 290.0, eager_us=280.0),
    new_row("rope", "8 x 2048", "torch rope", 2750.0, 250.0, 2800.0),
    new_row("rope", "8 x 2048", "torch.compile rope (max-autotune)", 550.0, 250.0, 560.0),
    new_row("attend", "32 x 512", "steergraph", 88.0, 80.0, 100.0, eager_us=95.0),
    new_row("attend", "32 x 512", "read", 80.0, 80.0),
    new_row("attend", "32 x 512", "torch SDPA with mask in a graph", 176.0, 80.0, 180.0),
    new_row("attend", "block, 32", "steergraph", 90.0, 80.0, 104.5, cpu_us=5.5),
    new_row("attend", "block, 32", "steergraph, plain launches", 91.0, 80.0, 109.25, cpu_us=7.25),
    new_row("attend", TOKEN, "steergraph", 10.0, wall=10.0, lengths=64, recompiles=0, cudagraphs=1,
            mae=1.25e-8, peak_bytes=1100),
    new_row("attend", TOKEN, "torch growing cache", 150.0, wall=160.0, lengths=64, recompiles=0,
            cudagraphs=0, mae=2e-8, peak_bytes=1000),
    new_row("attend", TOKEN, "torch.compile growing cache", 320.0, wall=320.0, lengths=40,
            recompiles=8, cudagraphs=0, mae=2e-8, peak_bytes=900),
    new_row("attend", TOKEN, "torch.compile excluded cache", 320.0, wall=320.0, mae="nan"),
]  # fmt: skip
ATTENTION_LINES = [
    *NEW_LINES,
    "| split and rotate | steergraph, µs | floor, µs | ratio | eager | max-autotune |",
    "| 8 x 2048 | 275.00 | 250.00 | 1.10 | 10 × | 2 × |",
    "| split and rotate, one call | between events, µs | by wall, µs | eager | max-autotune |",
    "| 8 x 2048 | 280.0 | 290.0 | 9.82 / 9.66 × | 1.96 / 1.93 × |",
    "| attention, and layers of both | steergraph, µs | floor, µs | ratio | in a graph |",
    "| 32 x 512 | 88.00 | 80.00 | 1.10 | 2 × |",
    "| a layer, µs | one graph | plain launches | host, one graph | host, plain launches |",
    "| block, 32 | 104.5 | 109.2 | 5.5 | 7.2 |",
    "| a cache, every length to 64 | CUDA graphs enabled | recompiles per model | a token, µs | speed-up "
    "| MAE | peak memory overhead |",
    "| steergraph | yes | 0 | 10.0 | 16 × | 1.2e-08 | +10 % |",
    "| torch growing cache | no | 0 | 160.0 | 1 × | 2.0e-08 | +0 % |",
    "| torch.compile growing cache | no | 8 by length 40 | 320.0 | 0.5 × | 2.0e-08 |  |",
    "| torch.compile excluded cache |  |  | 320.0 | 0.5 × |  |  |",
    "MAE is the mean distance from float64. What was stopped by a length",
]
# The same run with what later ones have: the early floor, a table with every op, one call of ours, how
# long it took, and which driver.
LATER = [
    {**new_row("steer", "1 op", "steergraph", 12.5, 10.0, 25.0, floor_early_us=8.0, eager_us=20.0,
               moved_mb=33.5), "driver_release": "580.159.04"},
    new_row("steer", "1 op", "steergraph, every op", 13.0, 10.0, floor_early_us=8.0),
    *NEW[1:4],
    new_row("decode", "32 rows, 1 op", "steergraph", 2.0, 1.25, floor_early_us="nan"),
    *NEW[5:],
    new_row("run", "steer", "steergraph", None, wall=61.4e6),
    new_row("run", "peers", "steergraph", None, wall=200e6),
    new_row("run", "peer rowwise.py failed", "steergraph", None),
    new_row("run", "peer norm.py failed", "steergraph", None),
    new_row("run", "all of it", "steergraph", None, wall=362.2e6),
]
LATER_LINES = [
    "**Card 1**, CUDA driver 13.0 (580.159.04), NVRTC 13.0.88, commit `c0ffee`, 2026-01-02:",
    "| prefill | steergraph, µs | floor, µs | ratio | early floor, µs | ratio to it | ratio, every op |"
    " eager loop | gather/scatter |",
    "| 1 op | 12.50 | 10.00 | 1.25 | 8.00 | 1.56 | 1.30 | 150 × | 160 × |",
    "| 8 ops | 20.00 | 10.00 | 2.00 |  |  |  |  |  |",
    "| prefill, one call | between events, µs | by wall, µs | eager loop | gather/scatter |",
    "| 1 op | 20.0 | 25.0 | 93.8 / 76 × | 100 / 82 × |",
    "| decode | steergraph, µs | floor, µs | ratio | early floor, µs | ratio to it | eager loop |",
    "| 32 rows, 1 op | 2.00 | 1.25 | 1.60 |  |  | 1425 × |",
    "The whole run took 362 s: `steer` 61 s, `peers` 200 s.",
    "Not every series of `rowwise.py`, `norm.py` came to its end; what is blank may be theirs.",
    *NEW_LINES[6:],
]
# What targets.md says of the two: limits that are kept and not, and the worst of several rows.
TARGETS = [
    *LATER[:-5],
    *(new_row("steer", f"{count} distinct", "steergraph", 10.5 + count / 20, 10.0, moved_mb=33.5)
      for count in (1, 2, 4, 8, 16, 32)),
    new_row("steer", "pair", "steergraph", 11.5, 10.0),
    new_row("rpc", "8 KiB known, table of 32", "steergraph", None, wall=0.25),
    new_row("rpc", "8 KiB known, table of 1000", "steergraph", None, wall=2.5),
]  # fmt: skip
TARGET_LINES = [
    "**Card 1**, CUDA driver 13.0 (580.159.04), NVRTC 13.0.88:",
    "|  | target | at most | measured | met | over the early copy | MB/µs | copy, MB/µs |",
    "| S1 | any mixture of 1–32 distinct vectors, one op, over the copy | 1.10 | 1.250 (best 1.055) |"
    " **no** | 1.56 | 2.68 | 3.35 |",
    "| S4 | the same, eight ops | 1.90 | 2.000 | **no** |  |  |  |",
    "| S6 | decode, 32 rows, one op | 2.2 µs | 2 µs | yes |  |  |  |",
    "| S8 | (hidden, residual) pair, over a kernel that reads both and writes one | 1.15 | 1.150 | yes |"
    "  |  |  |",
    "| S11 | the PyTorch loop, over ours | at least 100 × | 150 ×; over one call of ours 93.8 ×,"
    " by wall 76.0 × | yes |  |  |  |",
    "| S15 | interning 8 KiB that are known | 2 µs | 2.50 µs (best 0.25 µs) | **no** |  |  |  |",
]
TARGETS_MARKS = ("<!-- targets: begin, written by tools/bench/table.py -->", "<!-- targets: end -->")
# name, what a result file holds, what must be said
REFUSED = [
    ("no JSON", "[", "tools/bench/results/a.json: Expecting value"),
    ("no rows", "[]", "tools/bench/results/a.json: expected rows of the bench"),
    ("a member that is missing", [{**ROW, "card": None}], "rows[0].card: None is no value"),
    ("a time that is no number", [ROW, {**ROW, "ratio": "inf"}], "rows[1].ratio: 'inf' is no"),
    ("a suite without a table", [{**ROW, "suite": "rope"}], "suite 'rope'"),
    ("a new row with a member that is missing", [{k: v for k, v in NEW[0].items() if k != "wall_us"}],
     "rows[0]: no member 'wall_us'"),
    ("a new row with a text for a time", [{**NEW[0], "median_us": "12"}], "rows[0].median_us: '12'"),
    ("an extra that is no number", [{**NEW[0], "registers": None}], "rows[0].registers: None"),
    ("a ratio that is not that of its times", [{**NEW[0], "ratio": 1.05}], "rows[0].ratio: 1.05"),
    ("the same row twice", [NEW[0], NEW[1], NEW[0]], "two rows of suite 'steer', '1 op'"),
    ("rows of two forms", [NEW[0], ROW], "rows with a kernel and rows with a series"),
    ("a nesting that no parser follows", "[" * 100000, "nested too deeply"),
    ("a file cut short", json.dumps(NEW)[:1000], "tools/bench/results/a.json: "),
    ("bytes that are no UTF-8", b"[\xff]", "tools/bench/results/a.json: 'utf-8' codec"),
    ("an integer that no float holds", [{**NEW[0], "registers": 10**400}],
     "rows[0].registers: 1000"),
    ("a driver that no float holds", [{**NEW[0], "driver": 10**400}], "rows[0].driver: 1000"),
    ("a name that ends the table", [{**NEW[0], "name": END}], "rows[0].name: '<!--"),
    ("a card of two lines", [{**ROW, "card": "a\rb"}], "rows[0].card: 'a\\rb'"),
    ("half a character", [{**NEW[0], "series": "\ud800"}], "rows[0].series: '\\ud800'"),
    ("a commit that is no text", {"rows": NEW, "commit": ["c"]}, "commit: ['c'] is no text"),
    ("a date that ends the table", {"rows": NEW, "date": END}, "date: '<!--"),
    ("a release of the driver that is no text", [{**NEW[0], "driver_release": 580}],
     "rows[0].driver_release: 580"),
    ("two releases of the driver", [{**NEW[0], "driver_release": "1.2"}, {**NEW[1], "driver_release": "1.3"}],
     "rows of two releases of the driver"),
    ("a run that was not finished", [NEW[0], new_row("run", "ended by a failure", "steergraph", None)],
     "the run that printed these rows ended by a failure"),
    ("two cards in one run", [ROW, {**ROW, "card": "Card 2"}], "rows of 2 cards"),
]
good = True


def report(ok: bool, name: str, said: str) -> None:
    global good
    good = good and ok
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)


def tree(folder: str, readme: str, results: dict) -> pathlib.Path:
    root = pathlib.Path(folder)
    (root / "README.md").write_text(readme)
    for name, value in results.items():
        path = root / "tools" / "bench" / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, (str, bytes)) else json.dumps(value)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def table(root: pathlib.Path, *words: str, text: str = "") -> tuple[int, str]:
    command = [sys.executable, TABLE, "--root", root, *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


LLAMA = [
    new_row("llama", "8 of 16 layers steered, eager", "torch reference loop", 9e3, wall=1e4,
            tokens_per_s=800.0),
    new_row("llama", "8 of 16 layers steered, eager", "steergraph", 4e3, wall=4e3,
            tokens_per_s=2000.0, off=0.01),
    new_row("llama", "0 of 16 layers steered, eager", "steergraph", 4e3, wall=4e3,
            tokens_per_s=2000.0),
]
LLAMA_LINES = ["| 8 of 16 layers steered, eager | 2000 | 800 | 2.50 × |",
               "| 0 of 16 layers steered, eager | 2000 |  |  |"]  # fmt: skip


def test_no_gpu() -> None:
    """A run of what needs no GPU, on a machine that has none."""
    row = {**new_row("cache", "cache ls", "steergraph", None, wall=2e5), "card": "CPU 1", "driver": 0}
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {"a.json": [row]})
        done = table(root, "write")
        text = (root / "README.md").read_text()
        right = "**CPU 1**, no CUDA driver, NVRTC 13.0.88:" in text and "| 200 ms |" in text
        report(done[0] == 0 and right, "a run without a GPU says so", f"{done}\n{text}")


def test_added_rows() -> None:
    """Rows of another program, kept with those of the bench."""
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {})
        more, other = root / "more.json", root / "other.json"
        more.write_text(json.dumps(LLAMA))
        other.write_text(json.dumps([{**LLAMA[0], "card": "Card 2"}]))
        words = ["record", "n", "--commit", "c0ffee", "--date", "2026-01-02", "--add", more]
        status, said = table(root, *words, text=json.dumps(NEW))
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in LLAMA_LINES + NEW_LINES if line not in text]
        report(status == 0 and not missing, "renders tokens per second of added rows", f"{said}{missing}{text}")
        status, said = table(root, *words, "--add", other, text=json.dumps(NEW))
        report(status == 1 and "all rows: rows of 2 cards" in said, "refuses rows of another card", said)
        parts = [[ATTENTION[-12], new_row("run", "rope", "steergraph", None, wall=20e6)],
                 [ATTENTION[-4], new_row("run", "attend", "steergraph", None, wall=30e6)]]
        for part, seconds in zip(parts, (60, 90)):
            part += [new_row("run", "peers", "steergraph", None, wall=seconds * 1e6 / 2),
                     new_row("run", "peer x.py failed", "steergraph", None),
                     new_row("run", "all of it", "steergraph", None, wall=seconds * 1e6)]  # fmt: skip
        more.write_text(json.dumps(parts[1]))
        status, said = table(root, *words, text=json.dumps(parts[0]))
        table(root, "write")
        text = (root / "README.md").read_text()
        wanted = ["The whole run took 150 s: `rope` 20 s, `peers` 75 s, `attend` 30 s.",
                  "Not every series of `x.py` came to its end; what is blank may be theirs.",
                  "| split and rotate |", "| a cache, every length to 64 |"]  # fmt: skip
        missing = [line for line in wanted if line not in text]
        report(status == 0 and not missing, "adds up how long two runs took", f"{said}{missing}{text}")
        more.write_text(json.dumps(LLAMA))
        status, said = table(root, *words, "--add", more, text=json.dumps(NEW))
        report(status == 1 and "all rows: two rows of suite 'llama'" in said, "refuses rows added twice", said)
        status, said = table(root, *words[:-1], root / "none.json", text=json.dumps(NEW))
        report(status == 1 and "none.json" in said and said.count("\n") == 1,
               "says which added file is missing", said)


def test_later_rows() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {})
        words = ["record", "n", "--commit", "c0ffee", "--date", "2026-01-02"]
        status, said = table(root, *words, text=json.dumps(LATER))
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in LATER_LINES if line not in text]
        report(status == 0 and not missing, "renders both floors, calls and durations", f"{said}{missing} in {text}")
        report("decode, one call" not in text, "has no table of calls that nobody measured", text)


def test_targets() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {"a.json": TARGETS})
        path = root / "tools/bench/results/targets.md"
        path.write_text("# x\n\n{}\n{}\n\nby hand\n".format(*TARGETS_MARKS))
        done = table(root, "write"), table(root, "check")
        text = path.read_text()
        missing = [line for line in TARGET_LINES if line not in text]
        report(done[1][0] == 0 and not missing, "renders targets", f"{done}{missing} in {text}")
        report(text.endswith("\n\nby hand\n"), "and leaves what is by hand", text)
        left = text[text.index("Of these no recorded run says anything:"):]
        report(text.count("| S2 |") == 1 and "| S2 | the same, two ops | 1.20 | not measured yet |" in left and
               "| S1 |" not in left and "| S4 |" not in left, "those that rows say nothing of come last", text)
        path.write_text(text.replace("1.250", "1.050"))
        status, said = table(root, "check")
        report(status == 1 and "targets.md: its table is not that of" in said, "check fails on a target changed by hand", said)
        path.write_text("# no markers\n")
        status, said = table(root, "write")
        report(status == 1 and "targets.md: needs one line" in said, "refuses targets without a place for them", said)


def main() -> int:
    test_added_rows()
    test_later_rows()
    test_targets()
    test_no_gpu()
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {})
        status, said = table(root, "check")
        report(status == 1 and "table.py write" in said, "check fails on a table not written", said)
        table(root, "write")
        text = (root / "README.md").read_text()
        report("No results yet" in text and text.endswith(f"{END}\n\nafter\n"),
               "no results are said to be none, and the rest of the file stays", text)
        report(table(root, "check")[0] == 0, "check passes after write", text)
        words = ["record", "b", "--commit", "c0ffee", "--date", "2026-01-02"]
        status, said = table(root, *words, text=json.dumps([ROW]))
        report(status == 0, "record takes what the bench prints", said)
        report(table(root, "check")[0] == 1, "check fails when a result was added", said)
        table(root, "write")
        text = (root / "README.md").read_text()
        head = "**Card 1**, CUDA driver 13.0, commit `c0ffee`, 2026-01-02:"
        report(LINE in text and head in text and "No results" not in text, "renders a run", text)
        (root / "README.md").write_text(text.replace("1.12", "1.02"))
        report(table(root, "check")[0] == 1, "check fails on a number changed by hand", text)
    with tempfile.TemporaryDirectory() as folder:
        root = tree(folder, README, {})
        words = ["record", "n", "--commit", "c0ffee", "--date", "2026-01-02"]
        status, said = table(root, *words, text=json.dumps(NEW))
        report(status == 0, "record takes rows with series", said)
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in NEW_LINES if line not in text]
        report(not missing, "renders workloads, peers and warm-up", f"{missing} in {text}")
        hidden = [word for word in ("copy |", "slice loop", "warm |", "host,") if word in text]
        report(not hidden, "leaves what is not shown in the file", text)
        report(table(root, "check")[0] == 0, "check passes on them", text)
        status, said = table(root, *words, text=json.dumps(NORM))
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in NORM_LINES if line not in text]
        report(status == 0 and not missing, "renders what is over unsteered", f"{missing} in {text}")
        status, said = table(root, *words, text=json.dumps(DECLARED))
        report("a table that" not in text, "has no table of what nobody measured", text)
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in DECLARED_LINES if line not in text]
        report(status == 0 and not missing, "renders what tables declare", f"{missing} in {text}")
        report("CUDA graphs enabled" not in text, "has no metrics of a cache that nobody measured", text)
        status, said = table(root, *words, text=json.dumps(ATTENTION))
        table(root, "write")
        text = (root / "README.md").read_text()
        missing = [line for line in ATTENTION_LINES if line not in text]
        report(status == 0 and not missing, "renders attention and the metrics of a cache", f"{missing} in {text}")
        report("of both, one call" not in text, "has no table of calls for peers that are timed in lines", text)
        report(table(root, "check")[0] == 0, "check passes on them too", text)
        (root / "tools/bench/results/n.svg").write_text("<svg/>")
        report(table(root, "check")[0] == 1, "check fails when a plot was added", text)
        table(root, "write")
        text = (root / "README.md").read_text()
        shown = "![The times of this run as bars](tools/bench/results/n.svg)\n\n" + END
        report(shown in text, "shows the plot under the tables", text)
        for name in ("../n", "/tmp/n", "a/b", "", "..", "a\nb"):
            status, said = table(root, "record", name, *words[2:], text=json.dumps(NEW))
            report(status == 1 and "is no name of a result file" in said and said.count("\n") == 1,
                   f"refuses to record as {name!r}", said)
        files = sorted(path.name for path in root.rglob("*") if path.is_file())
        report(files == ["README.md", "n.json", "n.svg"], "leaves nothing else behind", f"{files}")
    for name, value, expected in REFUSED:
        with tempfile.TemporaryDirectory() as folder:
            status, said = table(tree(folder, README, {"a.json": value}), "check")
            ok = status == 1 and expected in said and said.count("\n") == 1
            report(ok, f"refuses {name}", said)
    with tempfile.TemporaryDirectory() as folder:
        status, said = table(tree(folder, "# no markers\n", {"a.json": [ROW]}), "write")
        ok = status == 1 and "README.md: needs one line" in said
        report(ok, "refuses a README without a place for it", said)
    return 0 if good else 1


raise SystemExit(main())
