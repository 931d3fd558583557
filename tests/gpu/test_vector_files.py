#!/usr/bin/env python3
"""Workloads of every format of vector files on a device: they agree with the oracle, and with the CPU on what is
steered and what is said.
"""
import tap
from cli import SPECS, Case, read_safetensors

FORMATS = ("gguf", "npy", "raw", "directions", "patterns", "files")


class Formats(Case):
    def setUp(self):
        super().setUp()
        self.skip_without("gpu", "compiler")

    def run_on(self, backend, spec):
        """The report, and the tensors that it wrote."""
        out = self.folder / f"{backend}.st"
        report = self.succeed("run", "--backend", backend, "--no-timing", "--json", "--output", out, spec).json()
        self.assertEqual(report["backend"], backend)
        self.assertIs(report["ok"], True, report)
        self.assertEqual(report["violations"], 0, report)
        return report, read_safetensors(out)[0]

    def check(self, name):
        spec = SPECS / f"steer_{name}.json"
        device, device_tensors = self.run_on("cuda", spec)
        host, host_tensors = self.run_on("cpu", spec)
        self.assertGreater(device["rows_steered"], 0)
        for key in ("rows", "rows_steered", "rows_untouched", "notes"):
            self.assertEqual(device[key], host[key], key)
        shapes = [{name: (t.dtype, t.shape) for name, t in each.items()} for each in (device_tensors, host_tensors)]
        self.assertEqual(*shapes)


def add_case(name):
    setattr(Formats, f"test_{name}", lambda self: self.check(name))


for each in FORMATS:
    add_case(each)

if __name__ == "__main__":
    tap.main()
