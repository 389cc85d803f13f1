// Python pickles (protocols 0 to 5) read as data. Nothing is imported, called or built: a global
// stays a name, a call stays a node that says what would have been called with what, and whoever
// reads the graph decides what it means.
//
//   const PickleGraph graph = PickleGraph::parse(bytes, "net.pth", "checkpoint.load");
//   for (auto [key, value] : graph.pairs(graph.root())) …
//
// Nodes are numbers into one array, so that cycles and nesting of any depth cost nothing, and the
// whole is bounded by a small multiple of the bytes. `bytes` must outlive the graph: its texts are
// views.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace yoke {

class PickleGraph {
 public:
  using Id = uint32_t;

  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    big_integer,  // beyond 64 bits: text holds its little-endian bytes
    real,
    text,  // str, and Python 2's str
    bytes,
    global,      // text: "module\nname"
    tuple,       // items
    list,        // items
    set,         // items
    dict,        // items: key, value, key, value …
    call,        // callable(*args), then state by BUILD, items by SETITEM, elements by APPEND
    persistent,  // what persistent_load would get
  };

  // Parses one pickle at the front of `bytes`; `consumed` receives its length.
  static PickleGraph parse(std::string_view bytes, const std::string& name,
                           const std::string& where, size_t* consumed = nullptr);

  Id root() const { return root_; }
  size_t size() const { return nodes_.size(); }

  Kind kind(Id id) const { return nodes_[id].kind; }
  std::optional<int64_t> integer(Id id) const;  // of integers and booleans
  std::string_view text(Id id) const;           // of text, bytes, big_integer and global, else ""
  std::span<const Id> items(Id id) const;
  std::span<const Id> elements(Id id) const;  // what was appended to a call
  Id callable(Id call) const { return nodes_[call].call.callable; }
  Id arguments(Id call) const { return nodes_[call].call.arguments; }
  // The state that BUILD gave, none_id without one.
  Id state(Id call) const { return nodes_[call].call.state; }
  Id persistent_id(Id persistent) const { return nodes_[persistent].call.callable; }

  bool is_text(Id id) const { return kind(id) == Kind::text; }
  bool is_global(Id id, std::string_view module, std::string_view name) const;
  std::string global_name(Id id) const;  // "module.name"
  // A dict, or a call of an OrderedDict, defaultdict or Counter: items are its pairs.
  bool is_mapping(Id id) const;
  // The value of a text key in a mapping; the last one wins.
  std::optional<Id> lookup(Id mapping, std::string_view key) const;

  static constexpr Id none_id = 0;

 private:
  friend class PickleParser;

  static constexpr uint32_t no_sequence = UINT32_MAX;

  // Small: a byte of a pickle can make one.
  struct Node {
    Kind kind = Kind::none;
    uint32_t sequence = no_sequence;
    union {
      int64_t integer = 0;
      double real;
      struct {
        const char* data;
        uint64_t size;
      } text;
      struct {
        Id callable, arguments, state;
        uint32_t elements;
      } call;
    };
  };

  std::span<const Id> sequence(uint32_t index) const;

  std::vector<Node> nodes_;
  std::vector<std::vector<Id>> sequences_;
  std::deque<std::string> owned_;  // texts that are not in the file as they are
  Id root_ = none_id;
};

}  // namespace yoke
