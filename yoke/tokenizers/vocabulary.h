// Tokens and their ids: one arena of bytes and one flat hash table, no allocation per token.
//
//   Vocabulary vocabulary;
//   vocabulary.add("[PAD]", 0, "vocab.txt");
//   vocabulary.find("[PAD]") == 0;
//
// Const methods are safe from many threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// FNV-1a, which can be continued byte by byte: the hashes of all prefixes of a word come in one
// walk.
struct Fnv {
  static constexpr uint64_t start = 0xCBF29CE484222325ull;
  static constexpr uint64_t next(uint64_t hash, char byte) {
    return (hash ^ uint8_t(byte)) * 0x100000001B3ull;
  }
  static uint64_t of(std::string_view text) {
    uint64_t hash = start;
    for (const char byte : text) hash = next(hash, byte);
    return hash;
  }
};

// Ids by the hash of their key; the keys stay with the owner, who hands in `key_of(id)`. Open
// addressing, at most half full, eight bytes a slot.
class FlatIndex {
 public:
  void reserve(size_t keys);

  // The id of `key`, or -1. `hash` is Fnv::of(key).
  template <class KeyOf>
  int32_t find(std::string_view key, uint64_t hash, const KeyOf& key_of) const {
    if (slots_.empty()) return -1;
    const uint64_t mixed = mix(hash);
    for (size_t at = size_t(mixed) & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return -1;
      if (slot.tag == tag_of(mixed) && key_of(slot.id) == key) return slot.id;
    }
  }

  // The key must not be in the index yet.
  template <class KeyOf>
  void insert(uint64_t hash, int32_t id, const KeyOf& key_of) {
    if ((used_ + 1) * 2 > slots_.size()) {
      std::vector<Slot> old = resize(slots_.empty() ? 64 : slots_.size() * 2);
      for (const Slot& slot : old)
        if (slot.id >= 0) place(mix(Fnv::of(key_of(slot.id))), slot.id);
    }
    place(mix(hash), id);
    ++used_;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;  // -1: free
  };
  // FNV's low bits are good, its high bits mix slowly.
  static uint64_t mix(uint64_t hash) {
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9ull;
    return hash ^ hash >> 32;
  }
  static uint32_t tag_of(uint64_t mixed) { return uint32_t(mixed >> 32); }
  void place(uint64_t mixed, int32_t id);
  std::vector<Slot> resize(size_t slots);  // to free slots; returns the old ones

  std::vector<Slot> slots_;
  size_t mask_ = 0, used_ = 0;
};

class Vocabulary {
 public:
  // The largest id that is taken at all: a file with a larger one is broken, and tables by id are
  // flat.
  static constexpr int64_t max_id = (int64_t{1} << 24) - 1;

  void reserve(size_t tokens, size_t bytes);
  // Throws Error("tokenizer.load") that names `file` when the token is there, the id is taken or
  // out of range.
  void add(std::string_view token, int64_t id, const std::string& file);

  std::optional<int32_t> find(std::string_view token) const {
    const int32_t id = find_hashed(token, Fnv::of(token));
    return id < 0 ? std::nullopt : std::optional<int32_t>(id);
  }
  // The same with the hash at hand; -1 when there is none.
  int32_t find_hashed(std::string_view token, uint64_t hash) const {
    return index_.find(token, hash, [this](int32_t id) { return view(by_id_[size_t(id)]); });
  }
  // The token of an id; nothing for a hole or an id beyond the end.
  std::optional<std::string_view> text(int64_t id) const;

  size_t size() const { return size_; }
  // 1 + the largest id.
  int64_t ids_end() const { return int64_t(by_id_.size()); }
  size_t max_bytes() const { return max_bytes_; }  // of a token

 private:
  struct Span {
    uint32_t begin = 0;
    int32_t size = -1;  // -1: a hole
  };
  std::string_view view(Span span) const {
    return std::string_view(arena_).substr(span.begin, size_t(span.size));
  }

  std::string arena_;
  std::vector<Span> by_id_;
  FlatIndex index_;
  size_t size_ = 0, max_bytes_ = 0;
};

}  // namespace yoke
