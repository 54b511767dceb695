"""The test vectors of a plan, and the code of docs/serving-experiments.md that must pass them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ulr.experiments.serving import Plan, arrange, assign, load_plan
from ulr.experiments.vectors import NUMBER, make_vectors, with_vectors

PAGE = Path(__file__).parents[2] / "docs" / "serving-experiments.md"
SWAPS = (("1:2", 0.2), ("2:5", 0.1), ("1,2:2,5", 0.1), ("1,2:4,7", 0.1), ("shuffle:4", 0.2))
PLANS = {
    "kinds": Plan("salt", SWAPS, (("1:2", 0.9), ("1,2:2,5", 0.2))),
    "rare": Plan("Jahr-2026-\u2713", (("1:3", 0.002), ("shuffle", 0.001))),
    "all": Plan("s", (("shuffle", 1.0),)),
    "one": Plan("s", (("1:12", 0.3), ("1:2", 0.7))),
    "none": Plan("s", ()),
}
EVERY_PLAN = pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))


def plan_text(plan: Plan) -> str:
    swapped = dict(plan.swapped)
    buckets = [{"bucket": name, "fraction": fraction}
               | ({"swapped": swapped[name]} if name in swapped else {})
               for name, fraction in plan.buckets]  # fmt: skip
    return with_vectors(json.dumps({"salt": plan.salt, "buckets": buckets}))


def code_block(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return block


def test_the_number_of_a_hash_is_the_first_53_bits_of_sha_256():
    text = "4:salt6:bucket7:\u00fcber-1"  # the length of the last part is in bytes
    first = hashlib.sha256(text.encode()).hexdigest()[:16]
    draw = (int(first, 16) // 2**11) / 2**53
    below, above = Plan("salt", (("1:2", draw),)), Plan("salt", (("1:2", draw + 1e-12),))
    assert assign("\u00fcber-1", below, 5).bucket is None
    assert assign("\u00fcber-1", above, 5).bucket == "1:2"


@EVERY_PLAN
def test_a_plan_has_ten_vectors_that_the_server_passes(plan):
    text = plan_text(plan)
    vectors = json.loads(text)["test_vectors"]
    assert len(vectors) == NUMBER
    assert load_plan(text) == plan
    for vector in vectors:
        found = assign(vector["request_id"], plan, vector["documents"])
        assert (found.bucket, found.swapped) == (vector["bucket"], vector["swapped"])
        assert arrange(range(vector["documents"]), found) == vector["order"]


def test_vectors_cover_the_kinds_both_arms_a_short_page_no_bucket_and_unusual_ids():
    vectors = make_vectors(PLANS["kinds"])
    cases = {(v["bucket"] or "").partition(":")[0] + str(v["swapped"]) for v in vectors}
    assert {"shuffleTrue", "1,2True", "1,2False", "None"} <= cases
    short = vectors[0]
    assert short["bucket"] is None
    assert vectors[1]["request_id"] == short["request_id"]
    assert vectors[1]["bucket"] is not None
    assert sum(v["bucket"] is None for v in vectors) >= 3
    assert any(not v["request_id"].isascii() and v["bucket"] for v in vectors)
    assert make_vectors(PLANS["kinds"]) == vectors


def test_vectors_of_an_edited_plan_are_replaced():
    old = plan_text(PLANS["rare"])
    edited = json.loads(old) | {"salt": "another"}
    new = json.loads(with_vectors(json.dumps(edited)))
    assert new["test_vectors"] == make_vectors(PLANS["rare"]._replace(salt="another"))
    assert new["test_vectors"] != json.loads(old)["test_vectors"]


JAVASCRIPT = """
import { readFileSync } from "node:fs";
for (const file of process.argv.slice(2)) {
  const plan = JSON.parse(readFileSync(file, "utf8"));
  console.log(JSON.stringify(plan.test_vectors.map(({ request_id, documents }) => {
    const found = assign(plan, request_id, documents);
    return { request_id, documents, ...found, order: order(plan, request_id, found, documents) };
  })));
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on the path")
def test_the_javascript_of_the_page_passes_the_vectors_of_every_plan(tmp_path):
    (tmp_path / "serve.mjs").write_text(code_block("javascript") + JAVASCRIPT)
    for name, plan in PLANS.items():
        (tmp_path / f"{name}.json").write_text(plan_text(plan))
    files = [f"{name}.json" for name in PLANS]
    done = subprocess.run(["node", "serve.mjs", *files], cwd=tmp_path, capture_output=True,
                          text=True, encoding="utf-8", check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line, plan in zip(done.stdout.splitlines(), PLANS.values(), strict=True):
        assert json.loads(line) == make_vectors(plan)


JAVA = """
class Check {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            String salt = "";
            List<Bucket> buckets = new ArrayList<>();
            for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(file))) {
                String[] f = line.split("\\t");
                if (f[0].equals("salt")) salt = f[1];
                if (f[0].equals("bucket"))
                    buckets.add(new Bucket(f[1], Double.valueOf(f[2]), Double.valueOf(f[3])));
                if (f[0].equals("request")) {
                    int documents = Integer.parseInt(f[2]);
                    Assignment a = SwapExperiment.assign(salt, buckets, f[1], documents);
                    System.out.println(a.bucket() + " " + a.swapped() + " "
                        + SwapExperiment.order(salt, f[1], a, documents));
                }
            }
        }
    }
}
"""


def has_java_compiler() -> bool:
    """Return whether `java File.java` works; it needs the compiler, which a JRE lacks."""
    if shutil.which("java") is None:
        return False
    modules = subprocess.run(
        ["java", "--list-modules"], capture_output=True, text=True, check=False
    )
    return "jdk.compiler" in modules.stdout


@pytest.mark.skipif(not has_java_compiler(), reason="this Java has no compiler")
def test_the_java_of_the_page_passes_the_vectors_of_every_plan(tmp_path):
    imports, _, rest = code_block("java").partition("\nrecord ")
    # Java runs the first class of the file.
    (tmp_path / "Check.java").write_text(imports + JAVA + "\nrecord " + rest, encoding="utf-8")
    expected = []
    for name, plan in PLANS.items():
        lines = [f"salt\t{plan.salt}"]
        lines += [f"bucket\t{b}\t{f!r}\t{plan.swapped_fraction(b)!r}" for b, f in plan.buckets]
        for v in make_vectors(plan):
            lines.append(f"request\t{v['request_id']}\t{v['documents']}")
            arm = {None: "null", True: "true", False: "false"}[v["swapped"]]
            expected.append(f"{v['bucket'] or 'null'} {arm} {v['order']}")
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")
    command = ["java", "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "Check.java"]
    done = subprocess.run([*command, *(f"{name}.tsv" for name in PLANS)], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
