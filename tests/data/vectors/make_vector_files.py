#!/usr/bin/env python3
"""Make the vector files beside this script, with the packages that people use: gguf 0.19.0,
safetensors 0.8.0, numpy 2.4.6.

`python3 make_vector_files.py [FOLDER]` in a virtual environment that has them. tests/unit/test_gguf.c
and tests/python/test_vector_files.py know what is in the files. With those versions the bytes are always
the same; test_vector_files.py takes other versions too.
"""
import pathlib
import sys

import gguf
import numpy
import safetensors
import safetensors.numpy

FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent


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


ROWS = numpy.arange(12, dtype=numpy.float64).reshape(3, 4) / 8 - 0.5


def make_safetensors(folder: pathlib.Path) -> None:
    """Types in an order that the package changes, and layers with metadata."""
    tensors = {
        "half": ROWS.astype(numpy.float16),
        "number": numpy.arange(3),
        "scalar": numpy.array(7, dtype=numpy.float32),
        "single": ROWS.astype(numpy.float32),
        "double": ROWS,
        "empty": numpy.zeros((0, 4), dtype=numpy.float32),
    }
    safetensors.numpy.save_file(tensors, folder / "types.safetensors")
    layers = {f"model.layers.{n}.axis": ROWS[n].astype(numpy.float32) for n in range(3)}
    safetensors.numpy.save_file(layers, folder / "layers.safetensors", metadata={"made": "by \u00e4 \"test\""})


def make_npy(folder: pathlib.Path) -> None:
    """Every version of the format, each with another type."""
    for version, dtype in ((1, numpy.float64), (2, numpy.float32), (3, numpy.float16)):
        with open(folder / f"version_{version}.npy", "wb") as file:
            numpy.lib.format.write_array(file, ROWS.astype(dtype), version=(version, 0))
    numpy.save(folder / "vector.npy", ROWS[1].astype(numpy.float32))
    ROWS.astype(numpy.float32).tofile(folder / "rows.f32")


if __name__ == "__main__":
    make_control(FOLDER / "control.gguf")
    make_types(FOLDER / "types.gguf")
    make_safetensors(FOLDER)
    make_npy(FOLDER)
