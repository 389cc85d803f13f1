#include <algorithm>
#include <cstring>

#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/checkpoint/pickle_vm_impl.h"
#include "yoke/core/error.h"

namespace yoke {

using Id = PickleGraph::Id;
using Kind = PickleGraph::Kind;

// The stack machine of Lib/pickletools.py.
class PickleParser {
 public:
  PickleParser(std::string_view bytes, const std::string& name, const std::string& where)
      : bytes_(bytes), name_(name), where_(where) {
    none_ = add(Kind::none);
    true_ = add_integer(1, Kind::boolean);
    false_ = add_integer(0, Kind::boolean);
    empty_tuple_ = add(Kind::tuple);
  }

  PickleGraph parse(size_t* consumed) {
    while (!stopped_) step();
    if (consumed) *consumed = at_;
    return std::move(graph_);
  }

 private:
  static constexpr size_t most_nodes = size_t{1} << 25;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(where_,
                name_ + ": damaged pickle at byte " + std::to_string(opcode_at_) + ": " + what,
                download_again);
  }

  // --- bytes ---
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) fail("it ends in the middle");
    const auto piece = bytes_.substr(at_, size);
    at_ += size;
    return piece;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("it ends in the middle of a line");
    const auto text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  // --- nodes ---
  PickleGraph::Node& node(Id id) { return graph_.nodes_[id]; }
  Id add(Kind kind) {
    if (graph_.nodes_.size() >= most_nodes) fail("it holds too many objects");
    graph_.nodes_.emplace_back();
    graph_.nodes_.back().kind = kind;
    return Id(graph_.nodes_.size() - 1);
  }
  Id add_integer(int64_t value, Kind kind = Kind::integer) {
    const Id id = add(kind);
    node(id).integer = value;
    return id;
  }
  Id add_real(double value) {
    const Id id = add(Kind::real);
    node(id).real = value;
    return id;
  }
  Id add_text(std::string_view text, Kind kind = Kind::text) {
    const Id id = add(kind);
    node(id).text = {text.data(), text.size()};
    return id;
  }
  Id add_owned(std::string text, Kind kind = Kind::text) {
    graph_.owned_.push_back(std::move(text));
    return add_text(graph_.owned_.back(), kind);
  }
  Id add_call(Id callable, Id arguments) {
    const Id id = add(Kind::call);
    node(id).call = {callable, arguments, none_, PickleGraph::no_sequence};
    return id;
  }
  Id add_sequence(Kind kind, std::vector<Id> items) {
    if (kind == Kind::tuple && items.empty()) return empty_tuple_;
    const Id id = add(kind);
    append(node(id).sequence, items);
    return id;
  }
  void append(uint32_t& sequence, std::span<const Id> items) {
    if (items.empty()) return;
    if (sequence == PickleGraph::no_sequence) {
      sequence = uint32_t(graph_.sequences_.size());
      graph_.sequences_.emplace_back();
    }
    auto& to = graph_.sequences_[sequence];
    to.insert(to.end(), items.begin(), items.end());
  }

  // --- stack ---
  void push(Id id) { stack_.push_back(id); }
  Id pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the stack is empty");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the stack is empty");
    return stack_.back();
  }
  std::vector<Id> pop_mark() {
    if (marks_.empty()) fail("there is no mark");
    const auto begin = stack_.begin() + ptrdiff_t(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  void tuple_of(size_t count) {
    std::vector<Id> items(count);
    while (count > 0) items[--count] = pop();
    push(add_sequence(Kind::tuple, std::move(items)));
  }

  // --- memo ---
  void put(uint64_t key) {
    if (key == memo_.size()) {
      memo_.push_back(top());
    } else if (key < memo_.size()) {
      memo_[key] = top();
    } else {
      sparse_memo_[key] = top();
    }
  }
  uint64_t memo_number(std::string_view digits) const {
    uint64_t key = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || digits.size() > 9) fail("a bad memo number");
      key = key * 10 + uint64_t(c - '0');
    }
    return key;
  }
  void get(uint64_t key) {
    if (key < memo_.size()) return push(memo_[key]);
    const auto found = sparse_memo_.find(key);
    if (found == sparse_memo_.end()) fail("it refers to an object that it did not hold");
    push(found->second);
  }

  // --- what opcodes do ---
  void set_items(std::span<const Id> items) {
    if (items.size() % 2 != 0) fail("a key without a value");
    const Id target = top();
    if (node(target).kind != Kind::dict && node(target).kind != Kind::call)
      fail("items are set in something that is no dictionary");
    append(node(target).sequence, items);
  }
  void append_items(std::span<const Id> items) {
    const Id target = top();
    if (node(target).kind == Kind::call) {
      append(node(target).call.elements, items);
    } else if (node(target).kind == Kind::list || node(target).kind == Kind::set) {
      append(node(target).sequence, items);
    } else {
      fail("items are appended to something that is no list");
    }
  }
  void build() {
    const Id state = pop();
    const Id target = top();
    if (node(target).kind != Kind::call) fail("a state is given to something that has none");
    node(target).call.state = state;
  }
  void persistent(Id what) {
    const Id id = add(Kind::persistent);
    node(id).call = {what, none_, none_, PickleGraph::no_sequence};
    push(id);
  }
  void global(std::string_view module, std::string_view name) {
    push(add_owned(std::string(module) + '\n' + std::string(name), Kind::global));
  }
  void text_number(std::string_view digits, bool may_be_boolean) {
    if (may_be_boolean && digits == "00") return push(false_);
    if (may_be_boolean && digits == "01") return push(true_);
    if (!digits.empty() && digits.back() == 'L') digits.remove_suffix(1);
    try {
      size_t used = 0;
      const std::string text(digits);
      const int64_t value = std::stoll(text, &used);
      if (used != text.size()) fail("a bad number");
      push(add_integer(value));
    } catch (const std::out_of_range&) {
      push(add_text(digits, Kind::big_integer));
    } catch (const std::invalid_argument&) {
      fail("a bad number");
    }
  }
  void text_real(std::string_view digits) {
    try {
      push(add_real(std::stod(std::string(digits))));
    } catch (const std::out_of_range&) {
      push(add_real(0));
    } catch (const std::invalid_argument&) {
      fail("a bad number");
    }
  }
  void long_bytes(std::string_view bytes) {
    if (bytes.size() > 8) return push(add_text(bytes, Kind::big_integer));
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push(add_integer(int64_t(value)));
  }
  void quoted(std::string_view text) {
    if (text.size() < 2 || text.front() != text.back() || (text[0] != '\'' && text[0] != '"'))
      fail("a string without quotes");
    std::string out;
    text = text.substr(1, text.size() - 2);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      static constexpr std::string_view names = "\\'\"nrtabfv", values = "\\'\"\n\r\t\a\b\f\v";
      const char c = text[++i];
      if (const size_t found = names.find(c); found != std::string_view::npos) {
        out += values[found];
      } else if (c == 'x' && i + 2 < text.size()) {
        out += char(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
        i += 2;
      } else {
        out += '\\';
        out += c;
      }
    }
    push(add_owned(std::move(out)));
  }
  void big_endian_real() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | uint8_t(c);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    push(add_real(value));
  }
  static std::span<const Id> one(const Id& id) { return {&id, 1}; }

  void step();
  bool step_text(char opcode);
  bool step_container(char opcode);
  bool step_object(char opcode);

  const std::string_view bytes_;
  const std::string& name_;
  const std::string& where_;
  size_t at_ = 0, opcode_at_ = 0;
  bool stopped_ = false;
  PickleGraph graph_;
  Id none_ = 0, true_ = 0, false_ = 0, empty_tuple_ = 0;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::vector<Id> memo_;
  std::unordered_map<uint64_t, Id> sparse_memo_;
};

void PickleParser::step() {
  opcode_at_ = at_;
  const char opcode = take(1)[0];
  if (step_text(opcode) || step_container(opcode) || step_object(opcode)) return;
  switch (opcode) {
    case '\x80':  // PROTO
      if (uint8_t(take(1)[0]) > 5) fail("an unknown protocol");
      return;
    case '\x95':  // FRAME
      take(8);
      return;
    case '.':
      graph_.root_ = pop();
      stopped_ = true;
      return;
    case '(':
      return marks_.push_back(stack_.size());
    case '0':  // POP takes a mark too
      if (!marks_.empty() && marks_.back() == stack_.size()) return marks_.pop_back();
      pop();
      return;
    case '1':
      pop_mark();
      return;
    case '2':
      return push(top());
    case 'N':
      return push(none_);
    case '\x88':
      return push(true_);
    case '\x89':
      return push(false_);
    case 'J':
      return push(add_integer(number<int32_t>()));
    case 'K':
      return push(add_integer(number<uint8_t>()));
    case 'M':
      return push(add_integer(number<uint16_t>()));
    case 'I':
      return text_number(line(), true);
    case 'L':
      return text_number(line(), false);
    case '\x8a':
      return long_bytes(take(number<uint8_t>()));
    case '\x8b':
      return long_bytes(take(number<uint32_t>()));
    case 'F':
      return text_real(line());
    case 'G':
      return big_endian_real();
    case 'p':
      return put(memo_number(line()));
    case 'g':
      return get(memo_number(line()));
    case 'q':
      return put(number<uint8_t>());
    case 'r':
      return put(number<uint32_t>());
    case 'h':
      return get(number<uint8_t>());
    case 'j':
      return get(number<uint32_t>());
    case '\x94':
      return put(memo_.size());
    default:
      break;
  }
  static constexpr char hex[] = "0123456789abcdef";
  fail(std::string("an unknown opcode 0x") + hex[uint8_t(opcode) >> 4] + hex[uint8_t(opcode) & 15]);
}

bool PickleParser::step_text(char opcode) {
  switch (opcode) {
    case 'S':
      quoted(line());
      return true;
    case 'U':
      push(add_text(take(number<uint8_t>())));
      return true;
    case 'T':
      push(add_text(take(number<uint32_t>())));
      return true;
    case 'V':
      push(add_text(line()));
      return true;
    case 'X':
      push(add_text(take(number<uint32_t>())));
      return true;
    case '\x8c':
      push(add_text(take(number<uint8_t>())));
      return true;
    case '\x8d':
      push(add_text(take(number<uint64_t>())));
      return true;
    case 'B':
      push(add_text(take(number<uint32_t>()), Kind::bytes));
      return true;
    case 'C':
      push(add_text(take(number<uint8_t>()), Kind::bytes));
      return true;
    case '\x8e':
    case '\x96':
      push(add_text(take(number<uint64_t>()), Kind::bytes));
      return true;
    default:
      return false;
  }
}

bool PickleParser::step_container(char opcode) {
  switch (opcode) {
    case ']':
      push(add(Kind::list));
      return true;
    case 'l':
      push(add_sequence(Kind::list, pop_mark()));
      return true;
    case '}':
      push(add(Kind::dict));
      return true;
    case '\x8f':
      push(add(Kind::set));
      return true;
    case 'd': {
      auto items = pop_mark();
      push(add(Kind::dict));
      set_items(items);
      return true;
    }
    case ')':
      push(empty_tuple_);
      return true;
    case 't':
      push(add_sequence(Kind::tuple, pop_mark()));
      return true;
    case '\x85':
      tuple_of(1);
      return true;
    case '\x86':
      tuple_of(2);
      return true;
    case '\x87':
      tuple_of(3);
      return true;
    case '\x91':
      push(add_sequence(Kind::set, pop_mark()));
      return true;  // FROZENSET
    case 'a': {
      const Id item = pop();
      append_items(one(item));
      return true;
    }
    case 'e':
    case '\x90':
      append_items(pop_mark());
      return true;
    case 's': {
      const Id value = pop(), key = pop();
      const Id pair[] = {key, value};
      set_items(pair);
      return true;
    }
    case 'u':
      set_items(pop_mark());
      return true;
    default:
      return false;
  }
}

bool PickleParser::step_object(char opcode) {
  switch (opcode) {
    case 'c': {
      const auto module = line();
      const auto name = line();
      global(module, name);
      return true;
    }
    case '\x93': {  // STACK_GLOBAL
      const Id name = pop(), module = pop();
      if (node(name).kind != Kind::text || node(module).kind != Kind::text)
        fail("a global without a name");
      // add_owned may move the nodes, not the texts.
      global(graph_.text(module), graph_.text(name));
      return true;
    }
    case 'R':
    case '\x81': {  // REDUCE, NEWOBJ
      const Id arguments = pop(), callable = pop();
      push(add_call(callable, arguments));
      return true;
    }
    case '\x92': {  // NEWOBJ_EX; keyword arguments are of no use to a reader of tensors
      pop();
      const Id arguments = pop(), callable = pop();
      push(add_call(callable, arguments));
      return true;
    }
    case 'i': {  // INST
      const auto module = line();
      const auto name = line();
      const Id arguments = add_sequence(Kind::tuple, pop_mark());
      global(module, name);
      push(add_call(pop(), arguments));
      return true;
    }
    case 'o': {  // OBJ
      auto items = pop_mark();
      if (items.empty()) fail("an object without a class");
      const Id callable = items.front();
      items.erase(items.begin());
      push(add_call(callable, add_sequence(Kind::tuple, std::move(items))));
      return true;
    }
    case 'b':
      build();
      return true;
    case 'Q':
      persistent(pop());
      return true;
    case 'P':
      persistent(add_text(line()));
      return true;
    default:
      return false;
  }
}

PickleGraph PickleGraph::parse(std::string_view bytes, const std::string& name,
                               const std::string& where, size_t* consumed) {
  return PickleParser(bytes, name, where).parse(consumed);
}

}  // namespace yoke
