"""What the tests of tools/bench/peers share: its folder on the path, reports, bf16, tensor files."""
import json
import math
import pathlib
import struct
import sys

PEERS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench" / "peers"
sys.path.insert(0, str(PEERS))

HIDDEN = 512
good = True


def report(ok: bool, name: str, said="") -> None:
    global good
    good = good and bool(ok)
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)


def refuses(function, error) -> str:
    """What is said; "" when nothing was refused."""
    try:
        function()
    except error as refusal:
        return str(refusal)
    return ""


def bf16_word(x: float) -> int:
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    return (word + 0x7FFF + ((word >> 16) & 1)) >> 16


def bf16(x: float) -> float:
    return struct.unpack("<f", struct.pack("<I", bf16_word(x) << 16))[0]


def bf16_bytes(values) -> bytes:
    return struct.pack(f"<{len(values)}H", *(bf16_word(x) for x in values))


def file_bytes(tensors: dict) -> bytes:
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        ends = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def dot(x, y) -> float:
    return math.fsum(a * b for a, b in zip(x, y))
