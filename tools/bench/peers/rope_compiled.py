"""Split and rotate with torch.compile, of the cases that ask for it: series of rope.py.

Three modes where the case is the published one (float32), else the default and, of decoding rows,
reduce-overhead; other shapes would tell the same for minutes of compiling. In a graph: the default mode,
captured over every buffer.
"""
import peer


def is_published(case) -> bool:
    return case.dtype == "F32"


def compiled(side, **options):
    from attn_side import start_compiler
    from rope import call_of, work_of
    from torch_side import compile_with

    start_compiler()
    function, arguments, take = work_of(side)
    attempt = peer.Attempt(None, compiled=True)
    started = compile_with(function, **options)
    attempt.bind = counted(attempt, call_of(side, started, arguments, take))
    return attempt


def counted(attempt, bind):
    """bind, and what was said of CUDA graphs by the time it is called again."""

    from torch._dynamo.utils import counters

    counters.clear()

    def bind_and_count(buffers):
        skips = counters["inductor"]["cudagraph_skips"]
        if skips > 0:
            attempt.extras["cudagraph_skips"] = skips
        return bind(buffers)

    return bind_and_count


def in_graph(side):
    from rope import LINES, graph_of, work_of
    from torch_side import compile_with

    function, arguments, take = work_of(side)
    return peer.Attempt(graph_of(compile_with(function), arguments, take), line=True, repeats=LINES)


def reduced(side):
    case = side.case
    wanted = is_published(case) or case.rows_each == 1
    return compiled(side, mode="reduce-overhead") if wanted else None


def autotuned(side):
    return compiled(side, mode="max-autotune") if is_published(side.case) else None


def where_asked(make):
    return lambda side: make(side) if side.case.compiled else None


SERIES = [(series, where_asked(make)) for series, make in (
    ("torch.compile rope", compiled),
    ("torch.compile rope in a graph", in_graph),
    ("torch.compile rope (reduce-overhead)", reduced),
    ("torch.compile rope (max-autotune)", autotuned),
)]  # fmt: skip
