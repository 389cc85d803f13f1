// One fixed binary tree of additions over numbered leaves that are ready in any order: whoever
// brings the second of two neighbours adds them. Which additions are made depends on the number of
// leaves only, so a sum that rounds is the same whoever computes, and when. Free of LibTorch, for
// the thread sanitiser.
//
//   SumTree<double> tree(8, [](double left, double right) { return left + right; });
//   tree.put(3, 0.25);              // from any thread; tree.put(4, std::nullopt): nothing there
//   … all eight …
//   std::optional<double> sum = tree.root();
//
// Level by level, node i is the sum of the nodes 2i and 2i + 1 below it; a node without a neighbour
// goes up as it is, and so does one whose neighbour has nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace yoke {

template <class T>
class SumTree {
 public:
  // `add` may be called by several threads at once, for different nodes.
  SumTree(size_t leaves, std::function<T(T left, T right)> add) : add_(std::move(add)) {
    for (size_t width = leaves; width > 1; width = (width + 1) / 2)
      waiting_.emplace_back(width / 2);
  }

  // Each leaf once. What `add` throws comes out here; the tree is then of no more use.
  void put(size_t leaf, std::optional<T> value) {
    size_t index = leaf;
    for (auto& level : waiting_) {
      if (index / 2 < level.size()) {  // it has a neighbour
        auto& node = level[index / 2];
        std::optional<T> other;
        {
          std::lock_guard lock(mutex_);
          if (!node.arrived) {
            node = {true, std::move(value)};
            return;
          }
          other = std::move(node.value);
        }
        if (other && value) {
          value = index % 2 ? add_(std::move(*other), std::move(*value))
                            : add_(std::move(*value), std::move(*other));
        } else if (other) {
          value = std::move(other);
        }
      }
      index /= 2;
    }
    std::lock_guard lock(mutex_);
    root_ = std::move(value);
  }

  // Nothing when no leaf had anything.
  const std::optional<T>& root() const { return root_; }

 private:
  struct Node {
    bool arrived = false;
    std::optional<T> value;
  };
  std::function<T(T, T)> add_;
  std::mutex mutex_;
  std::vector<std::vector<Node>> waiting_;  // by level: the first comer of each pair
  std::optional<T> root_;
};

}  // namespace yoke
