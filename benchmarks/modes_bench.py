"""What a mode and a second replica cost: seconds of the same steps, `exact` and `2xcpu` beside `cpu`.

    python benchmarks/modes_bench.py [--rounds 3] [--batch 32 256] [--yoke build/bin/yoke]

The contenders take turns (A B C D, A B C D, …), each a run of `yoke train --json` of its own. A step's
time is that between two lines of its events, as the reader receives them, so start, tokenising and
saving are left out; the first steps are too. All of them see the same batches in the same order, so
each step is set against the same step of the same round: the table has the median and the quartiles
of these ratios. A ratio below 1 is faster than `cpu`.

Rows and model: those of hf_trainer.py, cut to 64 tokens.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hf_trainer import RATE, ROOT, SEED, minilm, read_rows

BASE = "cpu"
CONTENDERS = {  # name: options
    BASE: ["--devices", "cpu"],
    "2xcpu": ["--devices", "2xcpu"],
    "cpu, exact": ["--devices", "cpu", "--mode", "exact"],
    "2xcpu, exact": ["--devices", "2xcpu", "--mode", "exact"],
}
LENGTH = 64  # tokens
WARM_UP = 2  # steps
STEPS = {32: 24, 256: 8}  # that are counted, by batch size


def step_seconds(program, options, data, batch, folder):
    """Seconds of every step but the first ones."""
    command = [program, "train", "--model", minilm(), "--train", data, "--epochs", 1,
               "--batch-size", batch, "--learning-rate", RATE, "--max-length", LENGTH, "--seed",
               SEED, "--logging-steps", 1, "--output", folder / "model", "--overwrite", "--quiet",
               "--json", *options]
    times = []
    with open(folder / "errors", "w+", encoding="utf-8") as errors:
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=errors, text=True) as process:
            for line in process.stdout:
                now = time.perf_counter()
                if json.loads(line)["event"] == "step":
                    times.append(now)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"yoke train {' '.join(options)}: exit status {process.returncode}: "
                     f"{errors.read().strip()}")
    return [b - a for a, b in zip(times, times[1:])][WARM_UP - 1:]


def measure(program, chosen, batch, rounds, folder):
    """Prints the table of one batch size."""
    steps = STEPS.get(batch, 12)
    name, rows = read_rows(batch * (WARM_UP + steps))
    if len(rows) < batch * (WARM_UP + steps):  # the last batch is short: leave it out
        rows = rows[:len(rows) // batch * batch]
    data = folder / "train.csv"
    with open(data, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    seconds = {contender: [] for contender in chosen}
    for round_ in range(rounds):
        for contender in chosen:
            taken = step_seconds(program, CONTENDERS[contender], data, batch, folder)
            seconds[contender] += taken
            print(f"  batch {batch}, round {round_ + 1}, {contender}: "
                  f"{statistics.median(taken) * 1000:.0f} ms", flush=True)
    count = len(seconds[BASE])
    print(f"\nBatch {batch}, {name}, {count} steps each, {len(os.sched_getaffinity(0))} cores\n")
    print("| | ms a step, median | times `cpu`, median | quartiles |\n|---|--:|--:|---|")
    for contender, taken in seconds.items():
        if len(taken) != count:
            sys.exit(f"{contender} made {len(taken)} steps, {BASE} {count}")
        low, middle, high = statistics.quantiles(
            [a / b for a, b in zip(taken, seconds[BASE])], n=4, method="inclusive")
        print(f"| `{contender}` | {statistics.median(taken) * 1000:.1f} | {middle:.3f} | "
              f"{low:.3f} to {high:.3f} |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS),
                        help=f"leave out the rest; {BASE} always runs")
    parser.add_argument("--yoke", default=str(ROOT / "build" / "bin" / "yoke"))
    arguments = parser.parse_args()
    chosen = [name for name in CONTENDERS if name == BASE or name in arguments.only]
    with tempfile.TemporaryDirectory(prefix="yoke-bench-") as name:
        for batch in arguments.batch:
            measure(arguments.yoke, chosen, batch, arguments.rounds, Path(name))


if __name__ == "__main__":
    main()
