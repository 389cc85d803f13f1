"""Files for the table tests, and what Python's own readers make of them.

    table_peer.py csv SEED ROWS OUT.csv OUT.json       random cells, random quoting styles
    table_peer.py read FILE ENCODING OUT.json          Python's csv module on a CSV
    table_peer.py lines FILE ENCODING OUT.json         a TSV as plain lines
    table_peer.py parquet SEED ROWS OUT.parquet OUT.json
    table_peer.py tokens OUT.parquet                   words and labels in lists of several types
"""
import csv
import json
import random
import sys

PIECES = ["a", "film", " ", "  ", ",", ";", "\t", '"', '""', "'", "\n", "\r\n", "\n\n", "é", "中文", "🎬", "\u2028", "\u0085", "\\", "|", "x" * 50, "0", "-1.5", "NULL", "nan", "\ufeff"]


def cell(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.choice([0, 1, 1, 2, 3, 8])))


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)


def random_csv(seed, count, out, expected):
    rng = random.Random(seed)
    columns = rng.choice([1, 2, 2, 3, 5])
    rows = [[f"c{i}" for i in range(columns)]] + [[cell(rng) for _ in range(columns)] for _ in range(count)]
    if rng.random() < 0.1:
        rows[-1][0] = "long " * 400_000  # larger than a block of Arrow's
    with open(out, "w", encoding=rng.choice(["utf-8", "utf-8-sig"]), newline="") as file:
        writer = csv.writer(file, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]), lineterminator=rng.choice(["\n", "\r\n"]))
        for i, row in enumerate(rows):
            writer.writerow(row)
            if i and rng.random() < 0.05:
                file.write("\n")  # a blank line
    if rng.random() < 0.3:  # the last line without its newline
        with open(out, "rb+") as file:
            data = file.read().rstrip(b"\r\n")
            # A newline that belongs to a quoted cell is not there: quotes close behind it.
            file.seek(0)
            file.truncate()
            file.write(data)
    # The reader of the same library says what the file holds, the lines on which its rows begin too.
    with open(out, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        csv.field_size_limit(1 << 30)
        got, lines, before = [], [], 0
        for row in reader:
            if row:
                got.append(row)
                lines.append(before + 1)
            before = reader.line_num
    if got != rows:
        raise SystemExit("the csv module does not read what it wrote")
    write(expected, {"rows": got, "lines": lines})


def tokens(out):
    import pyarrow as pa
    import pyarrow.parquet as pq
    pq.write_table(pa.table({
        "tokens": pa.array([["John", "said", '"中\\n"'], [], ["x"]], pa.list_(pa.string())),
        "ner_tags": pa.array([[3, 0, -100], [], [None]], pa.large_list(pa.int8())),
        "tags": pa.array([["B-PER", "O", None], [], [None]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        "deep": pa.array([[[1]], [], []], pa.list_(pa.list_(pa.int32()))),
    }), out, row_group_size=2)


def main():
    mode, *args = sys.argv[1:]
    if mode == "csv":
        random_csv(int(args[0]), int(args[1]), args[2], args[3])
    elif mode == "read":
        with open(args[0], encoding=args[1], newline="") as file:
            write(args[2], [row for row in csv.reader(file) if row])
    elif mode == "lines":
        with open(args[0], encoding=args[1], newline="\n") as file:
            write(args[2], [line.rstrip("\r\n").split("\t") for line in file])
    elif mode == "tokens":
        tokens(args[0])
    elif mode == "parquet":
        import pyarrow
        import pyarrow.parquet

        rng = random.Random(int(args[0]))
        count = int(args[1])
        maybe = lambda value: None if rng.random() < 0.1 else value  # noqa: E731
        texts = [maybe(cell(rng)) for _ in range(count)]
        values = {
            "text": pyarrow.array(texts, pyarrow.string()),
            "large": pyarrow.array(texts, pyarrow.large_string()),
            "label": pyarrow.array([maybe(rng.randint(-3, 3)) for _ in range(count)], pyarrow.int64()),
            "small": pyarrow.array([rng.randint(0, 255) for _ in range(count)], pyarrow.uint8()),
            "score": pyarrow.array([maybe(rng.choice([1.0, 0.1, -2.5, 1e300])) for _ in range(count)], pyarrow.float64()),
            "flag": pyarrow.array([maybe(rng.random() < 0.5) for _ in range(count)], pyarrow.bool_()),
            "kind": pyarrow.array([maybe(rng.choice(["pos", "neg"])) for _ in range(count)]).dictionary_encode(),
            "embedding": pyarrow.array([[1.0, 2.0]] * count),
        }
        table = pyarrow.table(values)
        pyarrow.parquet.write_table(table, args[2], row_group_size=max(1, count // 3))
        write(args[3], table.drop_columns(["embedding"]).to_pydict())
    else:
        raise SystemExit(__doc__)


main()
