"""The targets of steering, attention, proof search, components, warm-up and the cache beside what a recorded run says of
them.

What may be asked is here, in one list; table.py puts the lines of every run that has the rows into
tools/bench/results/targets.md, where what is missed is explained by hand. Times are those of
`steergraph bench all --peers`, and nothing here decides what a run is: it reads rows that are right.
"""
from result_file import is_number

OURS = "steergraph"
LONG = "32 x 512 to 4096, 32/8 heads of 128"
SHORT = "8 x 148 to 1024, 12 heads of 64"
EVERY_LENGTH = "every length to 1024, 8 x 12 heads of 64, float32"
PUBLISHED_ROPE = "8 x 2048, 32 heads of 128, float32"
GROWING = "torch growing cache"
PROVE_POOLS = (64, 110, 256, 512, 1024, 2048, 4096, 8192, 16384)
PROVE_BASES = ("countries", "family")
TF32 = "steergraph, tf32"
ONE_CALL = "steergraph in one call"
MIXTURES = tuple(f"{count} distinct" for count in (1, 2, 4, 8, 16, 32))
UNIFORM = ("uniform add", "uniform cap", "uniform ablation", "32 caps")
RPC = tuple(f"32 requests, {count} {kind}" for count in (1, 2, 4, 8, 16, 32) for kind in ("known", "new"))
GRAPH = "torch in a graph"
COMPONENTS = tuple(f"128 to {d_out}, {kind}{way}" for way in ("", ", both ways") for kind in ("tf32", "bf16", "float32")
                   for d_out in (128, 341))  # fmt: skip
STEP = "64 x 256"
STEP_OURS = "steergraph, the step as a region"
HEAD = ("", "target", "at most", "measured", "met", "over the early copy", "MB/µs", "copy, MB/µs")
TEXT_COLUMNS = (0, 1, 2, 4)


class Run:
    """The rows of one run, by suite, name and series."""

    def __init__(self, rows: list[dict]):
        self.rows = {(row["suite"], row["name"], row["series"]): row for row in rows if "series" in row}

    def get(self, suite: str, name: str, member: str, series: str = OURS):
        """A number of a row; None where there is none."""
        value = self.rows.get((suite, name, series), {}).get(member)
        return value if is_number(value) and value > 0 else None

    def over(self, suite: str, name: str, above: str, below: str, series: str = OURS):
        """A number of a row over another of it."""
        numbers = self.get(suite, name, above, series), self.get(suite, name, below, series)
        return numbers[0] / numbers[1] if all(numbers) else None

    def all_of(self, suite: str, names, member: str, series: str = OURS):
        """A number of several rows, all of them or None."""
        values = [self.get(suite, name, member, series) for name in names]
        return values if all(values) else None


class Line:
    """A target: `measure(run)` gives numbers, of which the worst is held against `limit`.

    `least`: the limit is a lower one. `where`: the suite and workload whose bytes and early copy are
    told, where it is one. `note(run)`: a text behind the numbers.
    """

    def __init__(self, name: str, text: str, limit: float, unit: str, measure, least: bool = False,
                 where=None, note=None):
        self.name, self.text, self.limit, self.unit = name, text, limit, unit
        self.measure, self.least, self.where, self.note = measure, least, where, note

    def number(self, value: float) -> str:
        if self.unit == "":
            return f"{value:.3f}"
        digits = 0 if value >= 99.95 or value == int(value) else 1 if value >= 9.995 else 2
        return f"{value:.{digits}f}{self.unit}"

    def limit_text(self) -> str:
        return f"{'at least ' if self.least else ''}{self.limit:{'.2f' if self.unit == '' else 'g'}}{self.unit}"

    def cells(self, run: Run) -> list[str] | None:
        values = self.measure(run)
        if values is None or None in values:
            return None
        worst = min(values) if self.least else max(values)
        met = worst >= self.limit if self.least else worst <= self.limit
        shown = self.number(worst)
        if len(values) > 1:
            best = max(values) if self.least else min(values)
            shown += f" (best {self.number(best)})"
        note = self.note(run) if self.note is not None else None
        shown += f"; {note}" if note else ""
        return [self.name, self.text, self.limit_text(), shown, "yes" if met else "**no**", *self.bytes(run)]

    def bytes(self, run: Run) -> list[str]:
        """Over the early copy, and 10^6 bytes a microsecond: ours, the copy behind `ratio`."""
        if self.where is None:
            return ["", "", ""]
        parts = (("median_us", "floor_early_us"), ("moved_mb", "median_us"), ("moved_mb", "floor_us"))
        found = [run.over(*self.where, *part) for part in parts]
        return [f"{value:.2f}" if value else "" for value in found]


def one(suite: str, name: str, member: str, scale: float = 1, series: str = OURS):
    def measure(run: Run):
        value = run.get(suite, name, member, series)
        return None if value is None else [value * scale]

    return measure


def ratio(name: str, text: str, limit: float, workload: str, suite: str = "steer") -> Line:
    return Line(name, text, limit, "", one(suite, workload, "ratio"), where=(suite, workload))


def mixtures(run: Run):
    return run.all_of("steer", ("1 op", *MIXTURES), "ratio")


def cliff(run: Run):
    times = run.all_of("steer", MIXTURES + UNIFORM, "median_us")
    return None if times is None else [max(times) / min(times)]


def peer(name: str, text: str, limit: float, series: str, workload=("steer", "1 op")) -> Line:
    """A peer's time over ours, of the standard batch or another; both ways of looking at a call behind it."""

    def measure(run: Run):
        times = run.get(*workload, "median_us", series), run.get(*workload, "median_us")
        return [times[0] / times[1]] if all(times) else None

    def note(run: Run):
        parts = []
        for words, theirs, ours in (("over one call of ours", "median_us", "eager_us"), ("by wall", "wall_us", "wall_us")):
            times = run.get(*workload, theirs, series), run.get(*workload, ours)
            parts += [f"{words} {times[0] / times[1]:.1f} ×"] if all(times) else []
        return ", ".join(parts)

    return Line(name, text, limit, " ×", measure, least=True, note=note)


def rpc(name: str, text: str, series: str) -> Line:
    return Line(name, text, 4, " ×", lambda run: run.all_of("rpc", RPC, "sha256_adaptive_x", series), least=True)


def kernel_ms(run: Run):
    ms = run.over("warmup", "calls, their own thread declaring 50 new tables", "compile_ms", "kernels")
    return None if ms is None else [ms]


def longest(run: Run):
    names = ("calls, a second thread creating 50 new tables", "calls, their own thread declaring 50 new tables")
    values = run.all_of("warmup", names, "p100_over_p50_us")
    return None if values is None else [value * 1e-3 for value in values]


def counts(run: Run, series: str = OURS):
    """(compiles, recompiles, lengths met) of a cache that is stepped through every length."""
    row = run.rows.get(("attend", EVERY_LENGTH, series), {})
    found = [row.get(member) for member in ("compiles", "recompiles", "lengths")]
    return found if all(is_number(value) for value in found) and found[0] > 0 else None


def compiles_of_a_kernel(run: Run):
    found = counts(run)
    return found and [(found[0] + found[1]) / found[0]]


def compiles_note(run: Run) -> str:
    compiles, recompiles, lengths = counts(run)
    note = f"{compiles:.0f} kernels, {recompiles:.0f} recompiles in {lengths:.0f} lengths"
    theirs = counts(run, "torch.compile growing cache")
    return note + (f"; torch.compile's growing cache {theirs[1]:.0f} in {theirs[2]:.0f}" if theirs else "")


def speed_up(run: Run):
    """Of a token, by the host's clock, over the eager cache that grows."""
    times = [run.get("attend", EVERY_LENGTH, "wall_us", series) for series in (GROWING, OURS)]
    return [times[0] / times[1]] if all(times) else None


def memory_overhead(run: Run):
    peaks = [run.get("attend", EVERY_LENGTH, "peak_bytes", series) for series in (OURS, GROWING)]
    return [100 * (peaks[0] / peaks[1] - 1)] if all(peaks) else None


def pools(least: int = 0, bases=("family",)) -> list[str]:
    """Names of pools of `least` candidates and more."""
    return [f"{base}, pool {pool}" for base in bases for pool in PROVE_POOLS if pool >= least]


def a_candidate(run: Run):
    times = run.all_of("prove", pools(1024), "median_us")
    return times and [time / pool for time, pool in zip(times, PROVE_POOLS[-len(times):])]


def prove_note(run: Run) -> str:
    """The same in the other arithmetics, of the largest pool."""
    parts = []
    for words, series in (("three TF32", "steergraph, tf32x3"), ("TF32", TF32)):
        time = run.get("prove", pools()[-1], "median_us", series)
        parts += [f"{words} {time / PROVE_POOLS[-1]:.2f}"] if time else []
    return ", ".join(parts)


def pool_cliff(run: Run):
    """A candidate of larger pools over one of a pool of 512."""
    times, at_512 = a_candidate(run), run.get("prove", "family, pool 512", "median_us")
    return [time / (at_512 / 512) for time in times] if times and at_512 else None


def tf32_over_f32(run: Run):
    times = [run.all_of("prove", pools(1024), "median_us", series) for series in (TF32, OURS)]
    return [mine / exact for mine, exact in zip(*times)] if all(times) else None


def components(name: str, text: str, limit: float, workload: str) -> Line:
    """PyTorch's two products and a mask in a graph, over ours."""

    def measure(run: Run):
        times = [run.get("components", workload, "median_us", series) for series in (GRAPH, OURS)]
        return [times[0] / times[1]] if all(times) else None

    return Line(name, text, limit, " ×", measure, least=True)


def beside_library(run: Run):
    times = [run.all_of("components", COMPONENTS, "median_us", series) for series in (GRAPH, OURS)]
    return [theirs / ours for theirs, ours in zip(*times)] if all(times) else None


def of_step(member: str, scale: float = 1, turned: bool = False):
    """A number of our step over that of the eager one, or the other way round."""

    def measure(run: Run):
        values = [run.get("step", STEP, member, series) for series in (STEP_OURS, "torch")]
        return [scale * (values[1] / values[0] if turned else values[0] / values[1])] if all(values) else None

    return measure


LINES = [
    Line("S1", "any mixture of 1–32 distinct vectors, one op, over the copy", 1.10, "", mixtures,
         where=("steer", "1 op")),
    ratio("S2", "the same, two ops", 1.20, "2 ops"),
    ratio("S3", "the same, four ops", 1.45, "4 ops"),
    ratio("S4", "the same, eight ops", 1.9, "8 ops"),
    Line("S5", "worst over best from uniform to all distinct", 1.15, "", cliff),
    Line("S6", "decode, 32 rows, one op", 2.2, " µs", one("decode", "32 rows, 1 op", "median_us"),
         where=("decode", "32 rows, 1 op")),
    Line("S7", "decode, 32 rows, eight ops", 3.5, " µs", one("decode", "32 rows, 8 ops", "median_us"),
         where=("decode", "32 rows, 8 ops")),
    ratio("S8", "(hidden, residual) pair, over a kernel that reads both and writes one", 1.15, "pair"),
    Line("S9", "CPU time of an apply, through a graph, over a bare launch", 1.3, " ×",
         one("steer", "host, graph launch", "cpu_x")),
    Line("S10", "the same, a plain launch", 1.3, " ×", one("steer", "host, plain launch", "cpu_x")),
    peer("S11", "the PyTorch loop, over ours", 100, "torch eager loop"),
    peer("S12", "torch.compile of the loop (dynamic)", 60, "torch.compile loop (dynamic)"),
    peer("S13", "the same, reduce-overhead", 20, "torch.compile loop (reduce-overhead)"),
    peer("S14", "the loop in a CUDA graph", 20, "torch loop in a CUDA graph"),
    Line("S15", "interning 8 KiB that are known", 2, " µs", lambda run: run.all_of(
        "rpc", ("8 KiB known, table of 32", "8 KiB known, table of 1000"), "wall_us")),
    rpc("S16", "RPC, bytes in, steered rows out, in one call, over SHA-256 and the adaptive rule", ONE_CALL),
    rpc("S17", "the same, by slots", OURS),
    ratio("S18", "ragged batch, lengths 1–64, over the copy", 1.25, "ragged 1-64"),
    ratio("S19", "step of 31 decode rows and a chunk of 512", 1.25, "step 31 + 512"),
    Line("S20", "`add_rmsnorm`, 2 048 rows, steered over unsteered", 1.04, "",
         one("steer", "norm, 2048 rows", "unsteered_x"), where=("steer", "norm, 2048 rows")),
    Line("S21", "the same, 256 rows", 1.07, "", one("steer", "norm, 256 rows", "unsteered_x"),
         where=("steer", "norm, 256 rows")),
    Line("S22", "the same, 32 rows", 1.15, "", one("steer", "norm, 32 rows", "unsteered_x"),
         where=("steer", "norm, 32 rows")),
    ratio("S23", "unsteered, 2 048 rows, over its byte floor", 1.07, "norm, 2048 rows, unsteered"),
    Line("S24", "512 × 4096, cap (57 published)", 57, " µs", one("steer", "512 x 4096, cap", "median_us"),
         where=("steer", "512 x 4096, cap")),
    Line("S25", "512 × 4096, ablation (40 published)", 40, " µs",
         one("steer", "512 x 4096, ablation", "median_us"), where=("steer", "512 x 4096, ablation")),
    ratio("A1", "split, rotate, append, 4 × 2048, 32/8 heads of 64, over its byte floor", 1.2,
          "4 x 2048, 32/8 heads of 64, append", "rope"),
    Line("A2", "the same of 32 decoding rows, 32/8 heads of 128", 3, " µs",
         one("rope", "32 decoding, 32/8 heads of 128, append", "median_us"),
         where=("rope", "32 decoding, 32/8 heads of 128, append")),
    peer("A3", "the published rotation, 8 × 2048, 32 heads of 128, float32: PyTorch's eager one, over ours", 2.79,
         "torch rope", ("rope", PUBLISHED_ROPE)),
    ratio("A4", "decode attention, 32 × 512 to 4096, 32/8 heads of 128, over a read of the valid K and V", 1.25,
          LONG, "attend"),
    Line("A5", "the same, 8 × 148 to 1024, 12 heads of 64", 9, " µs", one("attend", SHORT, "median_us"),
         where=("attend", SHORT)),
    Line("A6", "compiles of a kernel over every length to 1024", 1, "", compiles_of_a_kernel, note=compiles_note),
    Line("A7", "a token by wall: the eager growing cache, over ours", 1.5, " ×", speed_up, least=True),
    Line("A8", "mean distance from a growing cache in float64, float32", 1000, " · 10⁻⁹",
         one("attend", EVERY_LENGTH, "mae", 1e9)),
    Line("A9", "peak memory over that of the eager growing cache", 30, " %", memory_overhead),
    Line("P1", "a candidate of the family in float32, pools of 1 024 and more", 10, " µs", a_candidate, note=prove_note),
    Line("P2", "the same over a candidate of a pool of 512", 1.05, "", pool_cliff),
    Line("P3", "steps that a query needed, of those that were executed, any pool", 1, "",
         lambda run: run.all_of("prove", pools(bases=PROVE_BASES), "useful"), least=True),
    Line("P4", "kernels over all sizes of pools, both bases", 1, "",
         lambda run: run.all_of("prove", pools(bases=PROVE_BASES), "kernels")),
    Line("P5", "a candidate in TF32 over one in float32, pools of 1 024 and more", 1, "", tf32_over_f32),
    components("L1", "components, y of 16 384 rows, C 1200, TF32, 128 → 128: PyTorch in a graph, over ours", 2.5,
               "128 to 128, tf32"),
    components("L2", "the same, 128 → 341", 3, "128 to 341, tf32"),
    components("L3", "the same in bf16, 128 → 128", 2.2, "128 to 128, bf16"),
    components("L4", "the same in bf16, 128 → 341", 4, "128 to 341, bf16"),
    components("L5", "y and all gradients, TF32, 128 → 128", 1.8, "128 to 128, tf32, both ways"),
    components("L6", "the same, 128 → 341", 2.5, "128 to 341, tf32, both ways"),
    components("L7", "the same in bf16, 128 → 128", 1.6, "128 to 128, bf16, both ways"),
    components("L8", "the same in bf16, 128 → 341", 2.5, "128 to 341, bf16, both ways"),
    Line("L9", "all of these and float32: PyTorch in a graph, over ours", 1, " ×", beside_library, least=True),
    Line("L10", "a training step of 28 modules, 64 × 256: PyTorch eager, over ours as a region", 2, " ×",
         of_step("median_us", turned=True), least=True),
    Line("L11", "its peak memory, of that of the eager step", 100, " %", of_step("peak_mb", 100)),
    Line("L12", "its gradients off float64's, of their length", 50, " · 10⁻³",
         one("step", STEP, "gradients_off", 1e3, STEP_OURS)),
    Line("W1", "cold process, no cache, in the background: first result", 700, " ms",
         one("warmup", "first result, empty cache, in the background", "first_ms")),
    Line("W2", "the same, blocking", 700, " ms", one("warmup", "first result, empty cache", "first_ms")),
    Line("W3", "the same, with the installed pack", 300, " ms", one("warmup", "first result, pack", "first_ms")),
    Line("W4", "compile of a declared kernel, beside others", 300, " ms", kernel_ms),
    Line("W5", "warm disk cache, first result after the context", 3, " ms",
         one("warmup", "first result, disk cache", "after_context_ms")),
    Line("W6", "longest of 10 000 calls with 50 new signatures, over the median", 2, " ms", longest),
    Line("W7", "amortised with the pack, over eager launches", 100, " calls",
         one("warmup", "first result, pack", "amortise_calls")),
    Line("C1", "cache: a hit on disk", 150, " µs", one("cache", "disk hit", "wall_us")),
    Line("C2", "`cache ls` of 10 000 entries", 500, " ms", one("cache", "cache ls", "wall_us", 1e-3)),
    Line("C3", "a hit in memory", 200, " ns", lambda run: None if (values := run.all_of(
        "cache", ("memory hit", "memory hit, the table of kernels alone"), "wall_us")) is None
        else [value * 1e3 for value in values]),
]  # fmt: skip


def unmeasured(runs: list[list[dict]]) -> list[list[str]]:
    """The cells of the targets that no run says anything of."""
    found = [Run(rows) for rows in runs]
    return [[line.name, line.text, line.limit_text(), "not measured yet"] for line in LINES
            if not any(line.cells(run) for run in found)]


def lines_of(rows: list[dict]) -> list[list[str]]:
    """The cells of every target that the rows say something of."""
    run = Run(rows)
    return [cells for line in LINES if (cells := line.cells(run)) is not None]
