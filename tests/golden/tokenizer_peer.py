#!/usr/bin/env python3
"""Encodes texts with Hugging Face tokenizers for tests/tokenizers (peer.h writes and reads).

    python tokenizer_peer.py TOKENIZER_JSON CASES RESULTS MAX_LENGTH ADD_SPECIAL_TOKENS

CASES: for each text a byte (1: a pair), then length (u32) and UTF-8 bytes of one or two texts.
RESULTS: for each text n (u32), n ids, n type ids, n mask values, 2n offsets (all u32), then length
and bytes of what the ids decode to, without and with special tokens. Little endian.
"""

import array
import struct
import sys

from tokenizers import Tokenizer


def read_cases(path):
    data = open(path, "rb").read()
    at, cases = 0, []

    def text():
        nonlocal at
        (size,) = struct.unpack_from("<I", data, at)
        at += 4 + size
        return data[at - size:at].decode()

    while at < len(data):
        pair = data[at]
        at += 1
        cases.append((text(), text()) if pair else text())
    return cases


def main():
    tokenizer_json, cases, results, max_length, special = sys.argv[1:]
    tokenizer = Tokenizer.from_file(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if int(max_length):
        tokenizer.enable_truncation(int(max_length))
    cases = read_cases(cases)
    with open(results, "wb") as out:
        for first in range(0, len(cases), 4096):
            batch = tokenizer.encode_batch(cases[first:first + 4096],
                                           add_special_tokens=bool(int(special)))
            ids = [e.ids for e in batch]
            texts = zip(tokenizer.decode_batch(ids, skip_special_tokens=True),
                        tokenizer.decode_batch(ids, skip_special_tokens=False))
            for e, id_list, decoded in zip(batch, ids, texts):
                numbers = array.array("I", [len(id_list)])
                numbers.extend(id_list)
                numbers.extend(e.type_ids)
                numbers.extend(e.special_tokens_mask)
                for begin, end in e.offsets:
                    numbers.append(begin)
                    numbers.append(end)
                out.write(numbers.tobytes())
                for text in decoded:
                    data = text.encode()
                    out.write(struct.pack("<I", len(data)) + data)


if __name__ == "__main__":
    main()
