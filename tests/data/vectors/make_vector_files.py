#!/usr/bin/env python3
"""Make the GGUF fixtures beside this script, with the packages that people use: gguf 0.19.0, numpy.

`python3 make_vector_files.py` in a virtual environment that has them. tests/unit/test_gguf.c knows
what is in the files. With gguf 0.19.0 the bytes are always the same.
"""
import pathlib

import gguf
import numpy

FOLDER = pathlib.Path(__file__).parent


def close(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_control(path: pathlib.Path) -> None:
    """As repeng's export_gguf writes a control vector."""
    writer = gguf.GGUFWriter(path, "controlvector")
    writer.add_string("controlvector.model_hint", "mistral")
    writer.add_uint32("controlvector.layer_count", 3)
    for layer in range(1, 4):
        values = numpy.arange(8, dtype=numpy.float32) * layer - 0.5
        writer.add_tensor(f"direction.{layer}", values)
    close(writer)


def make_types(path: pathlib.Path) -> None:
    """Each type of value and tensor that the package writes, another alignment, a nested array."""
    writer = gguf.GGUFWriter(path, "types")
    writer.add_custom_alignment(64)
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**63))
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", -1e300)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "zwei\nZeilen, \u00e4")
    writer.add_array("t.ints", [1, 2, 3])
    writer.add_array("t.texts", ["a", "", "ccc"])
    writer.add_array("t.nested", [[1, 2], [3]])
    writer.add_tensor("f16", numpy.array([1.5, -2], dtype=numpy.float16))
    writer.add_tensor("f64", numpy.array([0.1, -3, 4], dtype=numpy.float64))
    writer.add_tensor("matrix", numpy.arange(12, dtype=numpy.float32).reshape(3, 4))
    writer.add_tensor("i32", numpy.arange(5, dtype=numpy.int32))
    bf16 = numpy.array([0x3FC0, 0xC000], dtype=numpy.uint16)
    writer.add_tensor("bf16", bf16.view(numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    blocks = numpy.zeros((2, 34), dtype=numpy.uint8)
    writer.add_tensor("q8", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    close(writer)


if __name__ == "__main__":
    make_control(FOLDER / "control.gguf")
    make_types(FOLDER / "types.gguf")
