"""The whole program around a Trainer that plays (fake_trainer.cpp): streams, exit statuses, signals, terminals.

    YOKE=build/bin/yoke_with_fake_trainer python3 tests/cli/process_test.py
"""
import csv
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

YOKE = os.environ["YOKE"]
TRAIN = ("train", "--train", "t.csv", "--model")
PREDICT = ("predict", "--data", "d.csv", "--model")


def run(*args, **options):
    return subprocess.run([YOKE, *map(str, args)], capture_output=True, text=True, timeout=60, **options)


def start(*args, **options):
    return subprocess.Popen([YOKE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def on_terminal(*args, columns=100, stdout=None, send=None):
    """Runs with standard error (and output, unless given) on a terminal; returns (status, what it showed)."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([YOKE, *args], stdin=child, stdout=stdout or child, stderr=child,
                               env={**os.environ, "TERM": "xterm"})
    os.close(child)
    shown = b""
    while True:
        ready, _, _ = select.select([parent], [], [], 30)
        try:
            piece = os.read(parent, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            break
        shown += piece
        if send and send in shown:
            process.send_signal(signal.SIGINT)
            send = None
    os.close(parent)
    return process.wait(timeout=30), shown.decode()


class Streams(unittest.TestCase):
    def test_json_is_one_object_a_line_and_nothing_else_on_standard_output(self):
        done = run(*TRAIN, "plays", "--eval", "e.csv", "--output", "o", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([e["event"] for e in events], ["start", "step", "step", "step", "evaluate", "saved"])
        self.assertEqual(list(events[0]), ["event", "devices", "model", "parameters", "trainable", "rows", "steps", "mode",
                                           "new_tensors"])
        self.assertEqual(list(events[1]), ["event", "step", "epoch", "loss", "learning_rate", "grad_norm", "rows",
                                           "tokens"])
        self.assertEqual(events[1]["loss"], 0.1 + 0.2)
        self.assertIsNone(events[2]["grad_norm"])
        self.assertEqual(events[5]["path"], "o")
        self.assertIn("1 device: cpu\n", done.stderr)
        self.assertIn("yoke: warning: a row was shortened\n", done.stderr)
        self.assertNotIn("step 1", done.stderr)  # the events say it

    def test_events_are_there_at_once(self):
        process = start(*TRAIN, "waits", "--json")
        begin = time.monotonic()
        self.assertEqual(json.loads(process.stdout.readline())["event"], "start")
        self.assertEqual(json.loads(process.stdout.readline())["step"], 1)
        self.assertLess(time.monotonic() - begin, 5)
        process.kill()
        process.communicate()

    def test_people_read_log_lines_on_standard_error_and_results_on_standard_output(self):
        done = run(*TRAIN, "plays", "--eval", "e.csv")
        self.assertEqual(done.stdout, "step 0: accuracy 0.8750  loss 0.2500  rows 872\n"
                                      "saved to trainer_output\ntrained 3 steps in 1:05, loss 0.3000\n")
        self.assertIn("step 3/3  loss 0.3000  learning rate 5.00e-05", done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_quiet_leaves_standard_error_empty_but_for_errors(self):
        self.assertEqual(run(*TRAIN, "plays", "--quiet").stderr, "")
        self.assertTrue(run(*TRAIN, "fails", "--quiet").stderr.startswith("yoke: error: "))

    def test_evaluate_prints_a_table(self):
        done = run("evaluate", "--data", "d", "--model", "plays")
        self.assertEqual(done.stdout, "accuracy  0.875000\nloss      0.250000\nrows      872\n")
        done = run("evaluate", "--data", "d", "--model", "regression")
        self.assertEqual(done.stdout, "loss  0.250000\nmse   0.875000\nrows  872\n")
        done = run("evaluate", "--data", "d", "--model", "plays", "--json")
        self.assertEqual(json.loads(done.stdout),
                         {"event": "evaluate", "step": 0, "loss": 0.25, "accuracy": 0.875, "rows": 872})

    def test_predict_prints_a_line_a_row(self):
        self.assertEqual(run("predict", "--model", "plays", "--text", "a").stdout, "good\t0.300000\n")
        self.assertEqual(run("predict", "--model", "regression", "--text", "a").stdout, "0.100000\n")
        done = subprocess.run([YOKE, *PREDICT, "plays"], capture_output=True, timeout=60)
        lines = done.stdout.split(b"\n")
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[0], b"0\tgood\t0.300000")
        self.assertEqual(lines[1], b'1\tbad, "very" bad \xff\t0.300000')  # no separator of the label is left

    def test_words_have_a_line_each(self):
        self.assertEqual(run("predict", "--model", "tokens", "--text", "a").stdout,
                         'a b\tB-X\t0.300000\n"c",\tO\t0.500000\nd\t\t\n')
        lines = run(*PREDICT, "tokens").stdout.splitlines()
        self.assertEqual(len(lines), 15)
        self.assertEqual(lines[3:6], ["1\ta b\tB-X\t0.300000", '1\t"c",\tO\t0.500000', "1\td\t\t"])
        done = run("evaluate", "--data", "d", "--model", "tokens", "--json")
        self.assertEqual(json.loads(done.stdout), {
            "event": "evaluate", "step": 0, "loss": 0.25, "accuracy": 0.875, "precision": 0.5, "recall": 0.25,
            "f1": 1 / 3, "rows": 872})
        self.assertIn("f1 0.3333  accuracy 0.8750  loss 0.2500",
                      run("train", "--model", "tokens", "--train", "t", "--eval", "e", "--output", "o").stdout)

    def test_a_label_that_is_not_utf_8_does_not_end_a_run(self):
        done = run(*PREDICT, "plays", "--json")
        self.assertEqual([json.loads(line)["row"] for line in done.stdout.splitlines()], [0, 1, 2, 3, 4])
        self.assertIn("\ufffd", json.loads(done.stdout.splitlines()[1])["label"])


class PredictionFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_csv_reads_back(self):
        out = self.path / "p.csv"
        done = run(*PREDICT, "plays", "--output", out)
        self.assertEqual(done.stdout, f"5 predictions in {out}\n")
        with open(out, newline="", encoding="utf-8", errors="surrogateescape") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0], ["row", "label", "score"])
        self.assertEqual(rows[2], ["1", 'bad, "very"\tbad\n\udcff', "0.30000000000000004"])
        self.assertEqual(len(rows), 6)
        self.assertEqual(os.listdir(self.path), ["p.csv"])

    def test_words_stand_in_files_too(self):
        run(*PREDICT, "tokens", "--output", self.path / "p.csv")
        with open(self.path / "p.csv", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[:5], [["row", "token", "label", "score"], ["0", "a\tb", "B-X", "0.30000000000000004"],
                                    ["0", '"c",', "O", "0.5"], ["0", "d", "", ""],
                                    ["1", "a\tb", "B-X", "0.30000000000000004"]])
        run(*PREDICT, "tokens", "--output", self.path / "p.jsonl")
        self.assertEqual(json.loads((self.path / "p.jsonl").read_text().splitlines()[4]), {
            "row": 4, "tokens": ["a\tb", '"c",', "d"], "labels": ["B-X", "O", None],
            "scores": [0.30000000000000004, 0.5, None]})

    def test_tsv_and_json_lines_have_a_line_a_row(self):
        run(*PREDICT, "regression", "--output", self.path / "p.tsv")
        self.assertEqual((self.path / "p.tsv").read_text().splitlines()[:2], ["row\tvalue", "0\t0.10000000149011612"])
        done = run(*PREDICT, "plays", "--output", self.path / "p.jsonl", "--json")
        rows = [json.loads(line) for line in (self.path / "p.jsonl").read_text().splitlines()]
        self.assertEqual(list(rows[0]), ["row", "label", "score", "logits"])
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([e["event"] for e in events], ["predict"] * 5 + ["saved"])

    def test_a_failed_run_leaves_the_former_file(self):
        out = self.path / "p.csv"
        out.write_text("former")
        self.assertEqual(run(*PREDICT, "fails", "--output", out).returncode, 1)
        self.assertEqual(out.read_text(), "former")
        self.assertEqual(os.listdir(self.path), ["p.csv"])

    def test_a_bad_target_is_refused_before_the_work(self):
        data = self.path / "d.csv"
        data.write_text("text\nx\n")
        for target in (self.path, self.path / "none" / "p.csv", data):
            done = run("predict", "--data", data, "--model", "fails", "--output", target)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--output", done.stderr)
        self.assertEqual(data.read_text(), "text\nx\n")


class Endings(unittest.TestCase):
    def assert_one_line(self, done, status, *parts):
        self.assertEqual(done.returncode, status, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual([line for line in lines if "error" in line], lines[-1:], done.stderr)
        self.assertTrue(lines[-1].startswith("yoke: error: "), done.stderr)
        for part in parts:
            self.assertIn(part, lines[-1])
        for bad in ("frame #", "terminate called", "Exception raised", "\x1b"):
            self.assertNotIn(bad, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_failures_are_one_line(self):
        self.assert_one_line(run("evaluate", "--data", "d", "--model", "fails"), 1,
                             '[checkpoint.load] net: tensor "fc.weight" is (2, 3)\\x1b[31m, not (4, 3). Try: .new_head')
        self.assert_one_line(run("evaluate", "--data", "d", "--model", "c10"), 1, "(1x2 and 3x4)")
        self.assert_one_line(run("evaluate", "--data", "d", "--model", "memory"), 1, "out of memory")
        self.assert_one_line(run("evaluate", "--data", "d", "--model", "thread"), 1, "internal error", "lost")

    def test_wrong_usage_is_one_line_and_2(self):
        self.assert_one_line(run("evaluate", "--model", "m", "--data", "d", "--devcies", "cpu"), 2, "--devices?")
        self.assert_one_line(run(), 2, "no command")
        self.assert_one_line(run("train", "--model", "m"), 2, "--train is required")

    def test_help_and_version_go_to_standard_output(self):
        for args in (("--help",), ("train", "--help"), ("evaluate", "-h"), ("--version",)):
            done = run(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.endswith("\n") and not done.stdout.endswith("\n\n"))

    def test_a_reader_that_leaves_ends_predict_quietly(self):
        process = start(*PREDICT, "plays", "--batch-size", "1", "--json")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=30), 0)
        self.assertEqual(process.stderr.read(), "1 device: cpu\n")
        process.stderr.close()

    def test_a_reader_that_leaves_does_not_end_training(self):
        process = start(*TRAIN, "plays", "--max-train-rows", "20000", "--json")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=30), 0)
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual(error.count("standard output cannot be written to"), 1, error)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_under_standard_output_is_a_failure(self):
        for args in ((*PREDICT, "plays"), ("evaluate", "--data", "d", "--model", "plays"), (*TRAIN, "plays", "--json")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([YOKE, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("yoke: error: [output] standard output: cannot write (No space left", done.stderr)


class Signals(unittest.TestCase):
    def interrupted(self, model, number, *more):
        process = start(*TRAIN, model, "--json", *more)
        process.stdout.readline()  # start: the handlers are there
        process.send_signal(number)
        out, error = process.communicate(timeout=30)
        return process.returncode, [json.loads(line) for line in out.splitlines()], error

    def test_the_first_signal_saves_and_says_so_in_the_status(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            code, events, error = self.interrupted("waits", number)
            self.assertEqual(code, status)
            self.assertEqual(events[-1], {"event": "saved", "path": "trainer_output"})
            self.assertIn("stopping after the step under way", error)

    def test_a_signal_while_the_trainer_still_loads_is_not_lost(self):
        self.assertEqual(self.interrupted("late", signal.SIGINT)[0], 130)

    def test_the_second_signal_ends_at_once(self):
        for second in (signal.SIGINT, signal.SIGTERM):
            process = start(*TRAIN, "deaf", "--quiet", "--json")
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            self.assertIsNone(process.poll())
            process.send_signal(second)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, -second)

    def test_an_ignored_signal_stays_ignored(self):
        process = start(*TRAIN, "waits", "--json", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143)


class Terminal(unittest.TestCase):
    def test_a_terminal_gets_a_bar_that_leaves_no_trace(self):
        status, shown = on_terminal(*TRAIN, "waits", send=b"loss 0.3")
        self.assertEqual(status, 130)
        self.assertRegex(shown, r"\r\x1b\[Ktrain \d+/1000000 \[>? *\]  loss 0\.3000  \d+ rows/s  [\d:]+ left")
        last = shown.replace("\r\n", "\n").split("\n")
        self.assertEqual(last[-1], "")
        self.assertRegex(last[-2], r"^(.*\x1b\[K)?stopped after \d+ steps")

    def test_the_bar_is_cut_to_the_terminal(self):
        _, shown = on_terminal(*TRAIN, "plays", columns=20)
        bars = [piece for piece in shown.split("\r\x1b[K") if piece.startswith("train ")]
        self.assertTrue(bars)
        for bar in bars:
            self.assertLess(len(bar.split("\r")[0]), 20, repr(bar))

    def test_json_on_a_terminal_has_no_bar(self):
        _, shown = on_terminal(*TRAIN, "plays", "--json")
        self.assertNotIn("\x1b", shown)

    def test_quiet_has_no_bar(self):
        _, shown = on_terminal(*TRAIN, "plays", "--quiet")
        self.assertNotIn("\x1b", shown)


if __name__ == "__main__":
    unittest.main()
