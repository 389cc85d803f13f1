#include "yoke/checkpoint/torch_file.h"

#include <cstring>
#include <memory>

#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/checkpoint/state_dict_finder_impl.h"
#include "yoke/checkpoint/torch_tensors_impl.h"
#include "yoke/checkpoint/zip_reader_impl.h"
#include "yoke/core/error.h"

namespace yoke {
namespace {

using Id = PickleGraph::Id;
using Kind = PickleGraph::Kind;
using File = std::shared_ptr<const MappedFile>;

// The first object of a legacy file, torch.serialization.MAGIC_NUMBER, as it is pickled.
constexpr std::string_view legacy_magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);

size_t alignment_of(const StorageReference& reference) {
  return reference.dtype ? c10::elementSize(reference.dtype->type) : 16;
}

StateDict read_zip(const File& file, const std::string& name, const TorchFileOptions& options,
                   TorchFileReport& report) {
  report.format = "zip";
  const ZipReader zip(file, name, options.where);
  const std::string pickle = zip.find_in_folder("data.pkl");
  if (pickle.empty())
    throw Error(options.where, name + ": a zip archive, but not one that torch.save wrote",
                "the .pth or .bin file itself");
  const std::string folder = pickle.substr(0, pickle.find('/') + 1);
  if (zip.contains(folder + "constants.pkl"))
    throw Error(options.where, name + ": a TorchScript program, not a state dict",
                "torch.save(torch.jit.load(…).state_dict(), …)");
  if (zip.contains(folder + "byteorder") && zip.read(folder + "byteorder") != "little")
    throw Error(options.where, name + ": written on a big-endian machine");

  const PickleGraph graph = PickleGraph::parse(zip.read(pickle), name, options.where);
  auto storage = [&](const StorageReference& reference) {
    const std::string_view bytes = zip.read(folder + "data/" + reference.key);
    if (bytes.size() != size_t(reference.bytes))
      throw Error(options.where,
                  name + ": storage \"" + reference.key + "\" has " + std::to_string(bytes.size()) +
                      " bytes, the pickle says " + std::to_string(reference.bytes),
                  download_again);
    return mapped_storage(file, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                          alignment_of(reference));
  };
  TensorRebuilder tensors(graph, storage, name, options.where);
  return StateDictFinder(graph, tensors, name, options, report).find();
}

// Note [Legacy format]: five pickles (magic number, protocol version, facts about the machine, the
// object, the keys of its storages), then for each key the number of elements (int64) and the
// elements. How wide an element is stands only in the references inside the object.
StateDict read_legacy(const File& file, const std::string& name, const TorchFileOptions& options,
                      TorchFileReport& report) {
  report.format = "legacy";
  std::string_view rest(reinterpret_cast<const char*>(file->data()), file->size());
  auto next = [&] {
    size_t used = 0;
    PickleGraph graph = PickleGraph::parse(rest, name, options.where, &used);
    rest.remove_prefix(used);
    return graph;
  };
  auto fail = [&](const std::string& what) {
    throw Error(options.where, name + ": " + what, download_again);
  };
  next();
  const PickleGraph protocol = next();
  if (protocol.integer(protocol.root()) != 1001) fail("an unknown version of the legacy format");
  const PickleGraph machine = next();
  if (machine.is_mapping(machine.root())) {
    const auto little = machine.lookup(machine.root(), "little_endian");
    if (little && machine.integer(*little) == 0) fail("written on a big-endian machine");
  }
  const PickleGraph graph = next();
  const PickleGraph keys = next();

  std::unordered_map<std::string, std::string_view> pieces;
  {
    std::unordered_map<std::string, int64_t> widths;
    const TensorRebuilder references(graph, nullptr, name, options.where);
    for (Id id = 0; id < graph.size(); ++id) {
      if (graph.kind(id) != Kind::persistent) continue;
      const auto items = graph.items(graph.persistent_id(id));
      if (!items.empty() && graph.text(items[0]) == "module") continue;  // a class and its source
      const auto reference = references.storage_reference(id);
      widths.emplace(reference.key, alignment_of(reference) == 16 && !reference.dtype
                                        ? 1
                                        : int64_t(alignment_of(reference)));
    }
    for (Id id : keys.items(keys.root())) {
      const auto number = keys.integer(id);
      const std::string key = number ? std::to_string(*number) : std::string(keys.text(id));
      const auto width = widths.find(key);
      if (width == widths.end()) fail("storage \"" + key + "\" belongs to no tensor");
      int64_t numel = 0;
      if (rest.size() < 8) fail("truncated: storage \"" + key + "\" is missing");
      std::memcpy(&numel, rest.data(), 8);
      rest.remove_prefix(8);
      const auto bytes = checked_bytes({numel}, width->second);
      if (!bytes || size_t(*bytes) > rest.size())
        fail("truncated: storage \"" + key + "\" asks for " + std::to_string(numel) +
             " elements, the file has " + std::to_string(rest.size()) + " bytes left");
      pieces[key] = rest.substr(0, size_t(*bytes));
      rest.remove_prefix(size_t(*bytes));
    }
  }
  auto storage = [&](const StorageReference& reference) {
    const auto piece = pieces.find(reference.key);
    if (piece == pieces.end()) fail("truncated: storage \"" + reference.key + "\" is missing");
    if (piece->second.size() != size_t(reference.bytes))
      fail("storage \"" + reference.key + "\" has " + std::to_string(piece->second.size()) +
           " bytes, the pickle says " + std::to_string(reference.bytes));
    return mapped_storage(file, reinterpret_cast<const std::byte*>(piece->second.data()),
                          piece->second.size(), alignment_of(reference));
  };
  TensorRebuilder tensors(graph, storage, name, options.where);
  return StateDictFinder(graph, tensors, name, options, report).find();
}

}  // namespace

StateDict read_torch_file(const std::filesystem::path& path, const TorchFileOptions& options,
                          TorchFileReport* report) {
  const std::string name = path.string();
  const File file = std::make_shared<const MappedFile>(path, options.where);
  TorchFileReport unused;
  TorchFileReport& found = report ? *report : unused;
  found = {};
  if (ZipReader::looks_like_zip(*file)) return read_zip(file, name, options, found);
  const std::string_view head(reinterpret_cast<const char*>(file->data()), file->size());
  // \x80 and the protocol come before.
  if (head.size() > 2 && head[0] == '\x80' && head.substr(2).starts_with(legacy_magic))
    return read_legacy(file, name, options, found);
  if (head.size() > 262 && head.substr(257, 5) == "ustar")
    throw Error(options.where, name + ": the tar format of PyTorch 0.1 (2016)",
                "torch.load and torch.save it once with Python");
  if (head.starts_with("\x80"))
    throw Error(options.where, name + ": a pickle, but not one that torch.save wrote");
  const std::string other = recognise_other_file(*file);
  throw Error(options.where,
              name + ": not a file of torch.save: " +
                  (other.empty() ? "neither a zip archive nor the legacy format" : other),
              download_again);
}

}  // namespace yoke
