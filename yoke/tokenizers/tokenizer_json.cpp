#include "yoke/tokenizers/tokenizer_json.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "yoke/core/error.h"

namespace yoke {
namespace {

constexpr size_t max_depth = 256;

// Builds a Json value from parser events, but hands the members of model.vocab to a Vocabulary.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(TokenizerJson& result, const std::string& file) : result_(result), file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return in_vocab_ ? entry(v) : value(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (!in_vocab_) return value(v);
    return entry(v > uint64_t{INT64_MAX} ? INT64_MAX : int64_t(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override { return value(std::move(v)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override {
    if (in_vocab_) wrong_entry("an object");
    if (stack_.size() == 2 && path_ == "model" && key_ == "vocab") {
      if (result_.has_vocabulary)
        throw Error("tokenizer.load", file_ + ": model.vocab stands there twice");
      in_vocab_ = result_.has_vocabulary = true;
      return true;
    }
    return open(Json::object());
  }
  bool key(string_t& v) override {
    if (stack_.size() == 1) path_ = v;
    key_ = std::move(v);
    return true;
  }
  bool end_object() override {
    if (in_vocab_) {
      in_vocab_ = false;
      return true;
    }
    stack_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    if (in_vocab_) wrong_entry("an array");
    return open(Json::array());
  }
  bool end_array() override {
    stack_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error("tokenizer.load", fmt::format("{}: not valid JSON at byte {}", file_, position),
                "a complete copy of the file");
  }

 private:
  bool entry(int64_t id) {
    result_.vocabulary.add(key_, id, file_ + ": model.vocab");
    return true;
  }

  [[noreturn]] void wrong_entry(const std::string& what) const {
    throw Error("tokenizer.load",
                fmt::format("{}: model.vocab: the id of token \"{}\" is {}, expected an integer",
                            file_, key_, what));
  }

  // Puts a value in its place and returns that.
  Json* place(Json v) {
    if (stack_.empty()) {
      result_.json = std::move(v);
      return &result_.json;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    Json& member = parent[key_];
    member = std::move(v);
    return &member;
  }

  bool value(Json v) {
    if (in_vocab_) wrong_entry(v.dump());
    place(std::move(v));
    return true;
  }

  bool open(Json container) {
    if (stack_.size() >= max_depth)
      throw Error("tokenizer.load",
                  fmt::format("{}: JSON is nested deeper than {}", file_, max_depth));
    stack_.push_back(place(std::move(container)));
    return true;
  }

  TokenizerJson& result_;
  const std::string& file_;
  std::vector<Json*> stack_;  // open containers; a parent does not grow while a child is open
  std::string path_, key_;    // the last key at depth 1, the last key
  bool in_vocab_ = false;
};

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view bytes, const std::string& file) {
  TokenizerJson result;
  // An entry takes some 15 bytes of the file.
  result.vocabulary.reserve(bytes.size() / 15, bytes.size() / 2);
  Handler handler(result, file);
  Json::sax_parse(bytes, &handler);
  if (!result.json.is_object())
    throw Error("tokenizer.load", file + ": is " + result.json.type_name() + ", not an object",
                "the tokenizer.json of a Hugging Face model");
  return result;
}

}  // namespace yoke
