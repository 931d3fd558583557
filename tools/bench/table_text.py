"""How tables of Markdown are written, and numbers in them. Must not know what is measured."""


def lines_of(head: list[str], rows: list[list[str]], text_columns) -> list[str]:
    marks = ["---" if column in text_columns else "---:" for column in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in [head, marks, *rows]]


def time_text(us: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    if us < 1:
        return f"{us * 1e3:.3g} ns"
    return f"{us:.3g} µs" if us < 100 else f"{us:.0f} µs"


def times_text(factor: float) -> str:
    return f"{factor:.0f} ×" if factor >= 99.5 else f"{factor:.3g} ×"
