#!/usr/bin/env python3
"""`steergraph prove`: queries of a knowledge base proved, ranked, checked, and shown step by step."""
import json
import math
import re

import tap
from cli import FAILED, QUICK, read_safetensors
from prove_case import EXAMPLES, ProveCase, weights

MEMBERS = [
    "spec", "family", "backend", "reason", "device", "signature", "kernel_key", "graph_key", "source", "compile_ms",
    "threads", "knowledge", "queries", "candidates", "sides", "counts",
    "useful", "time_us", "repeats", "per_candidate_us", "memory", "checked", "violations", "overflows", "first", "max_logp_err",
    "checked_close", "ok", "output", "notes",
]  # fmt: skip
SIGNATURE = (
    "prover v1 | atoms=6 children=120 | embed=4 width=8 blocks=2 arithmetic=f32 | cpu | batch<=1 seq<=1 rows<=16384"
)


class Pools(ProveCase):
    def test_both_examples_agree_with_the_oracle(self):
        self.assertEqual([path.stem for path in EXAMPLES], ["prove_countries", "prove_family"])
        for path in EXAMPLES:
            with self.subTest(spec=path.name):
                words = ("--no-timing", "--check", "all")
                report = self.prove(*words, self.example(path, 1 if QUICK else 2, 2 if QUICK else 6))
                self.assertEqual((report["ok"], report["violations"], report["first"]), (True, 0, None))
                self.assertEqual((report["checked"], report["useful"]), (report["candidates"], 1))
                self.assertLess(report["max_logp_err"], 1e-4)

    def test_the_report_has_all_members(self):
        spec = self.spec()
        report = self.prove("--threads", "2", spec)
        self.assertEqual(list(report), MEMBERS)
        self.assertEqual((report["spec"], report["family"], report["backend"]), (str(spec), "prover", "cpu"))
        self.assertEqual(report["knowledge"], {"facts": 5, "rules": 2, "predicates": 3, "constants": 5})
        self.assertEqual((report["queries"], report["threads"], report["notes"]), (3, 2, []))
        self.assertEqual([side["side"] for side in report["sides"]], ["head", "tail", "both"])
        self.assertEqual(report["candidates"], sum(side["queries"] + side["corruptions"] for side in report["sides"][:2]))
        self.assertEqual(report["candidates"], report["checked"])  # fewer than the sample
        self.assertEqual((report["memory"]["states_bytes"], report["memory"]["slots"]), (2 * 120 * 100, 2))
        self.assertEqual(report["memory"]["padded_bytes"], 512 * 120 * 26 * 3 * 8)  # int64, as published
        self.assertGreater(report["memory"]["peak_bytes"], 1000000)
        self.assertGreater(report["memory"]["base_bytes"], 5 * 16)
        floats = (6 + 17) * 4 + 8 * (4 + 3) + 2 * 8 * (8 + 3) + 8 * (8 + 1) + 4 * (8 + 1)
        self.assertEqual((report["memory"]["policy_bytes"], report["memory"]["pool_bytes"]), (4 * floats, 0))
        self.assertEqual(report["signature"], SIGNATURE)
        self.assertEqual((report["source"], report["compile_ms"]), ("cpu", 0))
        explained = self.succeed("explain", "--json", "--arch", "cpu", spec).json()
        self.assertEqual([explained[key] for key in ("signature", "graph_key")], [report["signature"], report["graph_key"]])
        self.assertEqual(explained["kernels"][0]["kernel_key"], report["kernel_key"])
        self.assertEqual(report["repeats"], 3)
        time = report["time_us"]
        self.assertTrue(0 < time["min"] <= time["median"] <= time["max"], time)
        self.assertAlmostEqual(report["per_candidate_us"], time["median"] / report["candidates"])

    def test_no_more_threads_are_at_work_than_there_are_candidates(self):
        spec = self.spec(corruptions={"count": 1, "seed": 1, "sides": ["head"]})
        report = self.prove("--limit", "1", "--threads", "64", spec)
        candidates = report["candidates"]
        self.assertLess(candidates, 3)
        self.assertEqual((report["memory"]["states_bytes"], report["memory"]["slots"]), (candidates * 120 * 100, candidates))
        text = self.succeed("prove", "--limit", "1", "--threads", "64", spec).out
        self.assertIn(f" 11.7 KiB of derived states a query, of {candidates} at once; padded, one has 73.1 KiB\n", text)
        self.assertIn(f" a candidate, on {candidates} thread", text)

    def test_counts_belong_together(self):
        report = self.prove("--no-timing", self.spec())
        counts = report["counts"]
        both = report["sides"][-1]
        self.assertEqual(counts["slot_steps"], counts["query_steps"])
        self.assertAlmostEqual(both["mean_depth"] * report["candidates"], counts["query_steps"])
        proofs = both["proved"] * both["queries"] + both["proved_corruptions"] * both["corruptions"]
        self.assertAlmostEqual(proofs, counts["proofs"])
        self.assertGreater(counts["proofs"], 0)
        self.assertEqual((report["time_us"], report["repeats"], report["per_candidate_us"]), (None, None, None))

    def test_ranks_follow_from_the_file(self):
        report = self.prove("--output", "out.st", self.spec())
        self.assertEqual(report["output"], "out.st")
        tensors, metadata = read_safetensors(self.folder / "out.st")
        self.assertEqual(metadata, {"family": "prover"})
        of = {name: tensor.floats() for name, tensor in tensors.items()}
        n, groups = report["candidates"], 6
        self.assertEqual({name: tensor.shape for name, tensor in tensors.items()},
                         {"logp": [n], "depth": [n], "outcome": [n],
                          "rank": [groups], "first": [groups], "query": [groups], "side": [groups]})  # fmt: skip
        self.assertEqual(of["side"], [0, 0, 0, 1, 1, 1])
        self.assertEqual(of["query"], [0, 1, 2, 0, 1, 2])
        scores = [logp - (0 if outcome == 1 else 100) for logp, outcome in zip(of["logp"], of["outcome"])]
        ends = [int(first) for first in of["first"][1:]] + [n]
        for group, end in enumerate(ends):
            own, *others = scores[int(of["first"][group]) : end]
            rank = 1 + sum(other > own for other in others) + sum(other == own for other in others) / 2
            self.assertEqual(of["rank"][group], rank)
        for side, ranks in (("head", of["rank"][:3]), ("tail", of["rank"][3:]), ("both", of["rank"])):
            said = next(row for row in report["sides"] if row["side"] == side)
            self.assertAlmostEqual(said["mrr"], sum(1 / rank for rank in ranks) / len(ranks))
            for most in (1, 3, 10):
                self.assertAlmostEqual(said[f"hits_at_{most}"], sum(rank <= most for rank in ranks) / len(ranks))

    def test_the_text_says_the_same(self):
        outcome = self.succeed("prove", "--no-timing", "--output", "out.st", "--threads", "1", self.spec(arithmetic="tf32"))
        report = self.prove("--no-timing", "--threads", "1", "w.json")
        lines = outcome.out.splitlines()
        self.assertTrue(lines[0].endswith("w.json: prover, 3 queries; 5 facts, 2 rules, 3 predicates, 5 constants"), lines)
        self.assertIn(f"  signature   {SIGNATURE.replace('f32', 'tf32')}", lines)
        self.assertIn("  kernel      none: the CPU does this work itself", lines)
        self.assertIn("  weights     4 and 8 wide, 2 blocks, made up from seed 1", lines)
        self.assertIn("  limits      6 atoms, 120 children, 20 steps; the largest logit is picked", lines)
        self.assertIn(f"  candidates  {report['candidates']}: 3 queries on 2 sides, and corruptions", lines)
        self.assertIn("  output      out.st", lines)
        both = report["sides"][-1]
        self.assertIn(f"  ties        {both['tied']} of {both['queries']} ranks are with a corruption that is equal", lines)
        self.assertIn("  memory      11.7 KiB of derived states a query, of 1 at once; padded, one has 73.1 KiB", lines)
        self.assertIn("  note        arithmetic: the CPU computes in float32", lines)
        self.assertRegex(outcome.out, rf"(?m)^  check +{report['checked']} candidates, 0 violations, logp within ")
        self.assertNotIn("  time ", outcome.out)
        rows = [line.split() for line in lines if re.match("  (side|head|tail|both) ", line)]
        self.assertEqual(rows[0], ["side", "MRR", "Hits@1", "Hits@3", "Hits@10", "proved", "others", "depth"])
        for row, side in zip(rows[1:], report["sides"]):
            self.assertEqual(row[:3], [side["side"], f"{side['mrr']:.4f}", f"{side['hits_at_1']:.3f}"])
        self.assertEqual((len(rows), lines[-1], outcome.err), (4, "ok", ""))
        self.assertRegex(self.succeed("prove", "w.json").out, r"(?m)^  time +\d.* median \(.*, 3 runs\)$")

    def test_neither_threads_nor_the_rest_of_the_pool_matter(self):
        spec = self.spec(pick={"sample": {"seed": 3}})
        reports = [self.prove("--no-timing", "--check", "all", "--threads", count, spec) for count in (1, 4)]
        for report in reports:
            report["threads"] = report["memory"] = None
        self.assertEqual(reports[0], reports[1])
        spec = self.spec()
        self.prove("--output", "all.st", spec)
        self.assertEqual(self.prove("--limit", "1", "--output", "one.st", spec)["queries"], 1)
        every, one = (read_safetensors(self.folder / name)[0] for name in ("all.st", "one.st"))
        ranks = every["rank"].floats()
        self.assertEqual(one["rank"].floats(), [ranks[0], ranks[3]])

    def test_a_policy_of_a_file(self):
        self.write("p.safetensors", weights(3, 5))
        policy = {"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "p.safetensors"}}
        outcome = self.succeed("prove", "--check", "all", "--no-timing", self.spec(policy=policy))
        self.assertRegex(outcome.out, r"  weights +8 and 16 wide, 2 blocks, from .*p\.safetensors\n")
        self.assertTrue(outcome.out.endswith("\nok\n"))
        self.assertIn("; 0 close picks\n", outcome.out)  # the policy tells states apart

    def test_a_file_that_is_no_policy(self):
        whole = weights(3, 5)
        for name, data, said in (
            ("cut.st", whole[:40], f"cut.st: a header of {int.from_bytes(whole[:8], 'little')} bytes does not fit in a "
                                   "file of 40; it is not safetensors, or cut short"),
            ("text", b"no tensors", "'text' is none of safetensors, GGUF, .npy and JSON directions; save it as safetensors"),
        ):  # fmt: skip
            with self.subTest(name=name):
                (self.folder / name).write_bytes(data)
                self.spec(policy={"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": name}})
                line = self.refuse(FAILED, "prove", "w.json")
                self.assertEqual(line, f"steergraph: w.json: policy.weights.file: {said}")

    def test_weights_whose_products_float32_does_not_have_are_said_to_be_too_large(self):
        for last in ((3e38, 1.0), (1.0, 3e38)):
            with self.subTest(last=last):
                self.write("p.safetensors", weights(3, 5, last=last))
                spec = self.spec(policy={"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "p.safetensors"}})
                outcome = self.run_command("prove", "--json", "--output", "out.st", spec)
                report = outcome.json()
                self.assertEqual((outcome.code, report["ok"], report["output"]), (FAILED, False, None), outcome)
                self.assertEqual(report["first"]["fault"], "overflow")
                self.assertGreater(report["overflows"], 0)
                said = "the policy leaves the range of float32, so that proofs mean nothing; scale its weights down"
                self.assertEqual(outcome.err, f"steergraph: {spec}: {said}\n")
                self.assertFalse((self.folder / "out.st").exists())
                text = self.run_command("prove", spec)
                self.assertIn("FAILED: first the overflow of candidate ", text.out)
                self.assertIn(": the policy leaves the range of float32; scale its weights down\n", text.out)
                self.assertEqual(text.err, outcome.err)
                query = report["first"]["query"]
                self.assertEqual(self.run_command("prove", "--trace", query, spec).err, outcome.err)
        self.assertEqual(self.prove(self.spec("small.json"))["overflows"], 0)

    def test_what_leaves_float32_on_the_way_and_is_right_is_counted(self):
        self.write("p.safetensors", weights(3, 5, first=3e38))  # squares of a norm, which the CPU sums in float64
        spec = self.spec(policy={"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "p.safetensors"}})
        report = self.prove("--no-timing", spec)
        self.assertEqual((report["ok"], report["violations"], report["first"]), (True, 0, None))
        self.assertGreater(report["overflows"], 0)
        text = self.succeed("prove", "--no-timing", spec).out
        self.assertIn(f"\n              {report['overflows']} of them with values beyond float32 on the way\n", text)

    def test_what_the_oracle_does_not_find_right_fails(self):
        self.write("p.safetensors", weights(3, 5, last=(1e-3, 1e3)))  # logits that float32 has too few digits for
        policy = {"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "p.safetensors"}}
        spec = self.spec(policy=policy)
        outcome = self.run_command("prove", "--json", "--check", "all", "--output", "out.st", spec)
        report = outcome.json()
        self.assertEqual((outcome.code, report["ok"], report["output"]), (FAILED, False, None), outcome)
        self.assertGreater(report["violations"], 0)
        self.assertIn(report["first"]["fault"], ("logp", "pick"))
        self.assertEqual(outcome.err, f"steergraph: {spec}: the proofs are not what the oracle allows; see the report\n")
        self.assertFalse((self.folder / "out.st").exists())
        self.run_command("prove", "--check", "all", "--save-traffic", "m.json", spec)
        self.assertFalse((self.folder / "m.json").exists())
        text = self.run_command("prove", "--check", "all", spec).out
        self.assertRegex(text, r"\nFAILED: first the (logp|pick of step \d+) of candidate \d+, [a-z]+\([a-z]+, [a-z]+\)\n$")
        query = report["first"]["query"]
        traced = self.run_command("prove", "--json", "--trace", query, spec)
        self.assertEqual((traced.code, traced.json()["ok"], traced.json()["first"]["query"]), (FAILED, False, query))

    def test_a_manifest_is_warmed_and_built(self):
        spec = self.spec()
        report = self.prove("--save-traffic", "m.json", spec)
        entries = json.loads((self.folder / "m.json").read_text())["manifest"]
        signature = report["signature"].replace(" | cpu", "")
        self.assertEqual([(entry["signature"], entry["count"]) for entry in entries], [(signature, 4)])  # runs
        warmed = self.succeed("warm", "--backend", "cpu", "--json", "m.json").json()
        self.assertEqual((warmed["manifests"][0]["done"], warmed["manifests"][0]["failed"]), (1, 0))
        self.use_stub_compiler()
        if self.has_compiler():
            words = ("build", "--json", "--arch", "sm_90", "--cache", "kernels")
            self.assertEqual(self.succeed(*words, "m.json").json()["compiled"], 1)
            self.assertEqual(self.succeed(*words, spec).json()["already_there"], 1)
        line = self.refuse(FAILED, "prove", "--output", "x", "--save-traffic", "x", spec)
        self.assertEqual(line, f"steergraph: {spec}: --output and --save-traffic are both 'x'; name two files")
        line = self.refuse(FAILED, "prove", "--save-traffic", "facts.txt", spec)
        self.assertIn("--save-traffic 'facts.txt' would replace a file that is read", line)

    def test_how_much_is_checked(self):
        spec = self.spec()
        self.assertEqual(self.prove("--check", "5", spec)["checked"], 5)
        self.assertEqual(self.prove("--check", "0", spec)["checked"], 0)
        self.assertTrue(self.succeed("prove", "--check", "0", spec).out.endswith("\nnot checked\n"))


class Traces(ProveCase):
    def check_steps(self, report):
        """The steps lead from one to the next, and to what is said of the whole."""
        steps = report["steps"]
        self.assertEqual((report["depth"], steps[0]["state"]), (len(steps), [report["query"]]))
        logp = 0
        for step, following in zip(steps, steps[1:] + [None]):
            self.assertAlmostEqual(sum(child["probability"] for child in step["children"]), 1)
            picked = step["children"][step["action"]]
            logp += math.log(picked["probability"])
            if following is not None:
                self.assertEqual(following["state"], picked["state"])
        self.assertAlmostEqual(logp, report["logp"], places=4)
        last = steps[-1]["children"][steps[-1]["action"]]["state"]
        ends = {"proved": ["True"], "failed": ["False"], "gave up": ["Endf"]}
        self.assertEqual(last, ends.get(report["outcome"], last))

    def test_a_way_is_shown_with_names(self):
        report = self.prove("--trace", "grandparent(ann,cid)", self.spec())
        self.check_steps(report)
        self.assertEqual((report["query"], report["candidate"], report["ok"]), ("grandparent(ann, cid)", 0, True))
        first = report["steps"][0]["children"]
        self.assertEqual(first[0]["state"], ["parent(ann, X1)", "parent(X1, cid)"])
        self.assertEqual(first[-1]["state"], ["Endf"])
        logits = [child["logit"] for child in first]
        self.assertEqual(report["steps"][0]["action"], logits.index(max(logits)))

    def test_the_text_marks_what_was_picked(self):
        spec = self.even_spec(2)
        report = self.prove("--trace", "grandparent(ann, cid).", spec)
        self.assertTrue(any(step["action"] > 0 for step in report["steps"]))
        lines = self.succeed("prove", "--trace", "grandparent(ann, cid).", spec).out.splitlines()
        self.assertEqual(lines[0], f"{spec}: grandparent(ann, cid), candidate 0")
        self.assertEqual([line for line in lines if line.startswith("step ")],
                         [f"step {i + 1}: {', '.join(step['state'])}" for i, step in enumerate(report["steps"])])  # fmt: skip
        picked = [re.split(r"\s+", line.strip(), maxsplit=3)[3] for line in lines if line.startswith("  *")]
        self.assertEqual(picked, [", ".join(step["children"][step["action"]]["state"]) for step in report["steps"]])
        self.assertRegex(lines[-2], rf"^{report['outcome']} after {report['depth']} steps?, logp -?\d")
        self.assertEqual(lines[-1], "ok")

    def test_a_candidate_goes_the_way_that_it_goes_in_the_pool(self):
        for seed in (None, *range(1, 7)):
            spec = self.spec() if seed is None else self.even_spec(seed)
            self.prove("--output", "out.st", spec)
            tensors, _ = read_safetensors(self.folder / "out.st")
            report = self.prove("--trace", "grandparent(bob,eve)", spec)
            at = report["candidate"]
            self.assertEqual(at, tensors["first"].floats()[1])
            self.check_steps(report)
            self.assertAlmostEqual(report["logp"], tensors["logp"].floats()[at], places=6)
            self.assertEqual(report["depth"], tensors["depth"].floats()[at])

    def test_a_query_that_is_no_candidate(self):
        spec = self.spec()
        report = self.prove("--trace", "parent(eve, eve)", spec)
        self.check_steps(report)
        self.assertEqual((report["candidate"], report["outcome"]), (None, "failed"))
        text = self.succeed("prove", "--trace", "parent(eve, eve)", spec).out
        self.assertIn(": parent(eve, eve), no candidate of the workload\n", text)

    def test_blanks_comments_and_the_full_stop_do_not_matter(self):
        spec = self.spec()
        plain = self.prove("--trace", "parent(ann,bob)", spec)
        for word in (
            "parent(ann,bob).", "parent(ann,bob). ", " parent ( ann , bob ) .\t", "parent(ann,bob) ", "parent(ann,bob).\n",
            "parent(ann,bob)\r\n\n", "parent(ann,bob). # is known", "parent(ann,bob) % is known", "# one\nparent(ann,bob)\n# two",
            "parent(ann,'bob') ", '"parent"(ann,bob)#',
        ):  # fmt: skip
            with self.subTest(word=word):
                self.assertEqual(self.prove("--trace", word, spec), plain)

    def test_what_is_no_query_is_refused(self):
        spec = self.spec()
        for word, said in (
            ("parent(ann, bop)", "--trace:1:13: no fact and no rule has the constant 'bop'; did you mean 'bob'?"),
            ("uncle(ann, bob)", "--trace:1:1: no fact and no rule has the predicate 'uncle'"),
            ("parent(ann, bob). parent(bob, cid)", "--trace:1:19: expected the end of the line, found 'p'"),
            ("parent(ann, bob).\nparent(bob, cid)", "--trace:2:1: more than one query; give one"),
            ("parent(ann, bob) parent(bob, cid)", "--trace:1:18: expected the end of the line, found 'p'"),
            ("parent(ann, bob)..", "--trace:1:18: expected the end of the line, found '.'"),
            ("# nothing", "--trace:1:10: no query; give one, as 'aunt(ann, bob)'"),
            (" ", "--trace:1:2: no query; give one, as 'aunt(ann, bob)'"),
            ("parent(ann, bob", "--trace:1:16: expected ')' behind two arguments, found its end"),
            ("parent(ann", "--trace:1:11: expected ',' and a second argument, found its end"),
        ):
            with self.subTest(word=word):
                self.assertEqual(self.refuse(FAILED, "prove", "--trace", word, spec), f"steergraph: {said}")


tap.main()
