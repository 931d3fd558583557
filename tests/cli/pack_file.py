"""Packs read by their description in ARCHITECTURE.md and nothing of ours, and the small one of the tests."""
import pathlib
import struct

from cli import ROOT

GOLDEN = ROOT / "tests" / "data" / "packs" / "small.sgp"
HEADER_BYTES, ENTRY_BYTES, PIECE_BYTES = 64, 56, 16


def read_pack(path):
    """{file name: bytes of the entry} of a pack."""
    data = pathlib.Path(path).read_bytes()
    magic, version, flags, size, index, n_entries, n_pieces, zero = struct.unpack("<8sIIQQIIQ", data[:48])
    assert (magic, version, flags, zero, size) == (b"STGPACKS", 1, 0, 0, len(data))
    pieces_at = index + n_entries * ENTRY_BYTES
    assert pieces_at + n_pieces * PIECE_BYTES == size
    pieces = list(struct.iter_unpack("<QQ", data[pieces_at:]))
    entries, names = {}, []
    for key, compiler, first, count, entry_bytes in struct.iter_unpack("<16s24sIIQ", data[index:pieces_at]):
        names.append((key, compiler))
        entry = b"".join(data[at : at + length] for at, length in pieces[first : first + count])
        assert len(entry) == entry_bytes
        entries[f"{key.hex()}-{compiler.rstrip(bytes(1)).decode()}.sgc"] = entry
    assert names == sorted(set(names))
    return entries
