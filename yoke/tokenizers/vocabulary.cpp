#include "yoke/tokenizers/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "yoke/core/error.h"

namespace yoke {

void FlatIndex::reserve(size_t keys) {
  const size_t slots = std::bit_ceil(std::max<size_t>(keys * 2, 64));
  if (used_ == 0 && slots > slots_.size()) resize(slots);
}

std::vector<FlatIndex::Slot> FlatIndex::resize(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  return old;
}

void FlatIndex::place(uint64_t mixed, int32_t id) {
  size_t at = size_t(mixed) & mask_;
  while (slots_[at].id >= 0) at = (at + 1) & mask_;
  slots_[at] = {tag_of(mixed), id};
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  by_id_.reserve(tokens);
  index_.reserve(tokens);
}

void Vocabulary::add(std::string_view token, int64_t id, const std::string& file) {
  const auto fail = [&](const std::string& what) {
    throw Error("tokenizer.load", fmt::format("{}: token \"{}\" {}", file, token, what),
                "a complete copy of the file");
  };
  if (id < 0 || id > max_id) fail(fmt::format("has the id {}, expected 0 to {}", id, max_id));
  const uint64_t hash = Fnv::of(token);
  if (const int32_t earlier = find_hashed(token, hash); earlier >= 0)
    fail(fmt::format("is listed twice, with the ids {} and {}", earlier, id));
  if (const auto owner = text(id))
    fail(fmt::format("has the id {}, which \"{}\" has too", id, *owner));
  if (size_t(id) >= by_id_.size()) by_id_.resize(size_t(id) + 1);
  by_id_[size_t(id)] = {uint32_t(arena_.size()), int32_t(token.size())};
  arena_.append(token);
  index_.insert(hash, int32_t(id), [this](int32_t i) { return view(by_id_[size_t(i)]); });
  ++size_;
  max_bytes_ = std::max(max_bytes_, token.size());
}

std::optional<std::string_view> Vocabulary::text(int64_t id) const {
  if (id < 0 || id >= ids_end() || by_id_[size_t(id)].size < 0) return std::nullopt;
  return view(by_id_[size_t(id)]);
}

}  // namespace yoke
