// Bytes of a text file to UTF-8, through ICU.
//
//   DecodedText decoded = decode_text(read_file("train.csv", "data.read"), "gb18030", "train.csv");
//   if (!decoded.bad.empty()) …                      // where, and which bytes
//
// Safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

struct BadBytes {
  size_t offset = 0;  // in DecodedText::text: where the character would stand
  std::string bytes;  // "0xE9" or "0xE9 0x74"
};

struct DecodedText {
  std::string text;  // well-formed UTF-8 without a byte order mark
  // In order. A fault is replaced by U+FFFD; without `keep_going` the text ends before the first.
  std::vector<BadBytes> bad;
};

struct DecodeTextOptions {
  bool keep_going = false;
};

// `encoding`: any name that ICU knows, in any case; Python's "utf-8-sig" too. `file` is for errors.
// Throws Error("data.read") for an unknown encoding.
DecodedText decode_text(std::string bytes, const std::string& encoding, const std::string& file,
                        DecodeTextOptions options = {});

// Offset of the first byte that is not part of well-formed UTF-8; npos when all are.
size_t find_bad_utf8(std::string_view text, size_t from = 0);

// What to try for bytes that `encoding` cannot hold: names the option in both spellings.
std::string encoding_hint(const std::string& encoding, std::string_view first_bytes);

}  // namespace yoke
