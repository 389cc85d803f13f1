"""SIGKILL at random moments of a run that saves at every step, and --resume each time, on other
devices: it always resumes, and the end is the straight run to the bit.

    YOKE=build/bin/yoke .venv/bin/python tests/cli/kill_test.py

YOKE_SOAK=1: 200 kills. Skips without torch and transformers, which make the model.
"""
import random
import resource
import signal
import subprocess
import time
import unittest

from end_to_end_test import ROOT, SOAK, YOKE, events_of, kind, rows, table, tiny_bert

KILLS = 200 if SOAK else 12
DEVICES = ("cpu", "2xcpu", "3xcpu", "1xsim", "2xsim", "4xsim", "8xsim", "sim:0+cpu")
STEPS = 12


def command(out, devices, *more):
    return [YOKE, "train", "--model", ROOT / "model", "--train", ROOT / "rows.csv", "--epochs", "1.5", "--batch-size", "16",
            "--seed", "3", "--mode", "exact", "--micro-batch-rows", "1", "--save-steps", "1", "--save-total-limit", "3",
            "--logging-steps", "1", "--devices", devices, "--output", out, "--json", *more]


class Kill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tiny_bert("model", hidden_size=192, intermediate_size=384)
        table("rows.csv", rows(128, 1))

    def test_a_run_that_is_killed_again_and_again_ends_as_the_straight_one(self):
        straight = ROOT / "straight"
        start = time.monotonic()
        done = subprocess.run(command(straight, "cpu"), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        length = time.monotonic() - start
        truth = (straight / "model.safetensors").read_bytes()
        lines = {e["step"]: e for e in kind(events_of(done.stdout), "step")}
        self.assertEqual(len(lines), STEPS)

        pick = random.Random(11)
        kills = finished = rounds = 0
        resumed_at = set()
        out = None
        while kills < KILLS or out is not None:
            if out is None:
                rounds += 1
                out = ROOT / f"run-{rounds}"
            devices = pick.choice(DEVICES)
            process = subprocess.Popen(command(out, devices, "--resume"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if kills < KILLS:
                try:
                    process.wait(timeout=pick.uniform(0.2, 1) * length)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
            printed, errors = process.communicate(timeout=300)
            whole = [line for line in printed.splitlines(keepends=True) if line.endswith("\n")]
            events = events_of("".join(whole))
            for event in kind(events, "step"):
                self.assertEqual(event, lines[event["step"]], f"on {devices}")
            for event in kind(events, "start"):
                resumed_at.add(event.get("resumed_step", 0))
            if process.returncode == -signal.SIGKILL:
                continue
            self.assertEqual(process.returncode, 0, errors)
            self.assertEqual((out / "model.safetensors").read_bytes(), truth, f"run {rounds}, on {devices}")
            leftovers = [p.name for p in (*out.iterdir(), *ROOT.iterdir()) if ".tmp-" in p.name or ".old-" in p.name]
            self.assertEqual(leftovers, [])
            finished += 1
            out = None
        # The moments were spread, not all of them before the first checkpoint.
        self.assertGreaterEqual(len(resumed_at), 4 if not SOAK else STEPS - 2, resumed_at)
        print(f"\nsoak: {kills} kills")
        print(f"soak: {finished} runs that ended after kills")

    def test_a_full_disk_leaves_the_former_checkpoint_whole(self):
        out = ROOT / "full"
        start = subprocess.Popen(command(out, "2xcpu"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in start.stdout:
            if '"saved"' in line:
                break
        start.send_signal(signal.SIGKILL)
        start.communicate()
        steps = sorted(int(p.name.split("-")[1]) for p in out.glob("checkpoint-*"))
        self.assertTrue(steps)
        largest = max(p.stat().st_size for p in out.glob("checkpoint-*/*"))

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing past the limit then fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, largest // 2))

        failed = subprocess.run(command(out, "cpu", "--resume"), capture_output=True, text=True, timeout=300, preexec_fn=small_files)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(f"checkpoint-{steps[-1] + 1}", failed.stderr)
        self.assertIn("File too large", failed.stderr)
        self.assertEqual(sorted(int(p.name.split("-")[1]) for p in out.glob("checkpoint-*")), steps)
        again = subprocess.run(command(out, "2xsim", "--resume"), capture_output=True, text=True, timeout=300)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(kind(events_of(again.stdout), "start")[0]["resumed_step"], steps[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
