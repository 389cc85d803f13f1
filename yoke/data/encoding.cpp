#include "yoke/data/encoding.h"

#include <unicode/ucnv.h>
#include <unicode/ucnv_err.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "yoke/core/error.h"

namespace yoke {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::string_view replacement = "\xEF\xBF\xBD";

// "UTF_8" -> "utf8".
std::string plain_name(std::string_view encoding) {
  std::string name;
  for (char c : encoding)
    if (c != '-' && c != '_' && c != ' ') name += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return name;
}

bool is_utf8(std::string_view encoding) {
  const std::string name = plain_name(encoding);
  return name == "utf8" || name == "utf8sig" || name.empty();
}

std::string hex(std::string_view bytes) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string text;
  for (unsigned char byte : bytes) {
    if (!text.empty()) text += ' ';
    text += {'0', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

// How many bytes from `from` are one fault: a lead byte with the trail bytes that fit it.
size_t fault_length(std::string_view text, size_t from) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t i = from;
  UChar32 c;
  U8_NEXT(bytes, i, text.size(), c);
  return i - from;
}

DecodedText decode_utf8(std::string bytes, bool keep_going) {
  DecodedText result;
  if (bytes.starts_with(byte_order_mark)) bytes.erase(0, byte_order_mark.size());
  size_t bad = find_bad_utf8(bytes);
  if (bad == std::string::npos) {
    result.text = std::move(bytes);
    return result;
  }
  size_t copied = 0;
  while (bad != std::string::npos) {
    const size_t length = fault_length(bytes, bad);
    result.text.append(bytes, copied, bad - copied);
    result.bad.push_back({result.text.size(), hex(std::string_view(bytes).substr(bad, length))});
    if (!keep_going) return result;
    result.text += replacement;
    copied = bad + length;
    bad = find_bad_utf8(bytes, copied);
  }
  result.text.append(bytes, copied);
  return result;
}

struct CloseConverter {
  void operator()(UConverter* converter) const { ucnv_close(converter); }
};

// Appends UTF-16 as UTF-8; a lead surrogate at the very end waits in `lead` for the next call.
void append_utf16(std::string& out, const UChar* from, const UChar* end, UChar& lead) {
  while (from < end) {
    UChar32 c = *from++;
    if (lead) {
      c = U16_GET_SUPPLEMENTARY(lead, c);
      lead = 0;
    } else if (U16_IS_LEAD(c)) {
      if (from == end) {
        lead = UChar(c);
        return;
      }
      c = U16_GET_SUPPLEMENTARY(c, *from);
      ++from;
    }
    std::array<uint8_t, U8_MAX_LENGTH> bytes;
    int32_t length = 0;
    U8_APPEND_UNSAFE(bytes.data(), length, c);
    out.append(reinterpret_cast<const char*>(bytes.data()), size_t(length));
  }
}

}  // namespace

size_t find_bad_utf8(std::string_view text, size_t from) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  size_t i = from;
  while (i < size) {
    uint64_t eight;
    while (i + 8 <= size && (std::memcpy(&eight, bytes + i, 8), !(eight & 0x8080808080808080)))
      i += 8;
    const size_t stop = std::min(size, i + 8);
    while (i < stop) {
      const size_t begin = i;
      UChar32 c;
      U8_NEXT(bytes, i, size, c);
      if (c < 0) return begin;
    }
  }
  return std::string::npos;
}

DecodedText decode_text(std::string bytes, const std::string& encoding, const std::string& file,
                        DecodeTextOptions options) {
  if (is_utf8(encoding)) return decode_utf8(std::move(bytes), options.keep_going);
  UErrorCode code = U_ZERO_ERROR;
  const std::unique_ptr<UConverter, CloseConverter> converter(ucnv_open(encoding.c_str(), &code));
  if (U_FAILURE(code))
    throw Error("data.read", file + ": unknown encoding \"" + encoding + "\"",
                "utf-8, utf-16, gb18030, gbk, big5, shift_jis, euc-kr, iso-8859-1, windows-1252 or "
                "another name that ICU knows");
  ucnv_setToUCallBack(converter.get(), UCNV_TO_U_CALLBACK_STOP, nullptr, nullptr, nullptr, &code);

  DecodedText result;
  result.text.reserve(bytes.size() + bytes.size() / 2);
  std::vector<UChar> units(size_t{1} << 15);
  const char* from = bytes.data();
  const char* const end = from + bytes.size();
  UChar lead = 0;
  for (;;) {
    code = U_ZERO_ERROR;
    UChar* to = units.data();
    ucnv_toUnicode(converter.get(), &to, units.data() + units.size(), &from, end, nullptr, true,
                   &code);
    append_utf16(result.text, units.data(), to, lead);
    if (code == U_BUFFER_OVERFLOW_ERROR) continue;
    if (U_SUCCESS(code)) break;
    std::array<char, 32> fault;
    int8_t length = int8_t(fault.size());
    UErrorCode ignored = U_ZERO_ERROR;
    ucnv_getInvalidChars(converter.get(), fault.data(), &length, &ignored);
    if (U_FAILURE(ignored)) length = 0;
    result.bad.push_back({result.text.size(), hex({fault.data(), size_t(length)})});
    if (!options.keep_going) break;
    result.text += replacement;
    if (from == end) break;
  }
  if (result.text.starts_with(byte_order_mark)) {
    result.text.erase(0, byte_order_mark.size());
    for (auto& bad : result.bad) bad.offset -= std::min(bad.offset, byte_order_mark.size());
  }
  return result;
}

std::string encoding_hint(const std::string& encoding, std::string_view first_bytes) {
  auto option = [](const std::string& name) {
    return ".data.encoding = \"" + name + "\" (--encoding " + name + ")";
  };
  if (first_bytes.starts_with("\xFF\xFE") || first_bytes.starts_with("\xFE\xFF"))
    return option("utf-16") + ", which its first bytes announce";
  if (first_bytes.starts_with(byte_order_mark) && !is_utf8(encoding))
    return option("utf-8") + ", which its first bytes announce";
  return option(is_utf8(encoding) ? "gb18030" : "utf-8") +
         ", or whichever encoding it has: " + (is_utf8(encoding) ? "" : "gb18030, ") +
         "iso-8859-1, windows-1252, big5, shift_jis, utf-16, …";
}

}  // namespace yoke
