// The parts of the engine that add shards and exchange statistics, without LibTorch: right sums in
// any order of arrival, errors instead of waiting for ever. Runs under the thread sanitiser too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "yoke/parallel/coordination.h"
#include "yoke/parallel/moment_exchange.h"
#include "yoke/parallel/sum_tree.h"

namespace yoke {
namespace {

std::string join(std::string left, std::string right) { return "(" + left + right + ")"; }

TEST(SumTree, the_shape_depends_on_the_number_of_leaves_only) {
  // Written out by hand.
  const std::vector<std::pair<int, std::string>> shapes{{1, "0"},
                                                        {2, "(01)"},
                                                        {3, "((01)2)"},
                                                        {5, "(((01)(23))4)"},
                                                        {6, "(((01)(23))(45))"},
                                                        {8, "(((01)(23))((45)(67)))"}};
  std::mt19937 random(3);
  for (const auto& [leaves, shape] : shapes) {
    std::vector<size_t> order;
    for (int leaf = 0; leaf < leaves; ++leaf) order.push_back(size_t(leaf));
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::shuffle(order.begin(), order.end(), random);
      SumTree<std::string> tree(size_t(leaves), join);
      for (size_t leaf : order) tree.put(leaf, std::to_string(leaf));
      EXPECT_EQ(tree.root(), shape);
    }
  }
}

TEST(SumTree, leaves_with_nothing_change_no_other_addition) {
  SumTree<std::string> tree(8, join);
  for (size_t leaf : {7, 1, 0, 4, 2, 6, 5, 3})
    tree.put(leaf, leaf == 1 || leaf >= 6 ? std::nullopt : std::optional(std::to_string(leaf)));
  EXPECT_EQ(tree.root(), "((0(23))(45))");
  SumTree<std::string> none(3, join);
  for (size_t leaf : {0, 1, 2}) none.put(leaf, std::nullopt);
  EXPECT_EQ(none.root(), std::nullopt);
}

TEST(SumTree, many_threads_give_one_rounding) {
  std::mt19937 random(5);
  std::vector<float> values(37);
  for (auto& value : values) value = std::normal_distribution<float>(0, 1e3f)(random);
  std::optional<float> first;
  for (int repeat = 0; repeat < 100; ++repeat) {
    SumTree<float> tree(values.size(), [](float a, float b) { return a + b; });
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (size_t leaf = next++; leaf < values.size(); leaf = next++)
          tree.put(leaf, values[leaf]);
      });
    for (auto& thread : threads) thread.join();
    if (!first) first = tree.root();
    EXPECT_EQ(tree.root(), first);
  }
  float straight = 0;  // and the shape is worth something: a running sum rounds otherwise
  for (float value : values) straight += value;
  EXPECT_NE(straight, *first);
}

std::shared_ptr<void> item(int value) { return std::make_shared<int>(value); }

TEST(MomentExchange, everybody_gets_the_items_of_all_that_take_part) {
  const std::vector<size_t> moments{3, 1, 0, 2};
  MomentExchange exchange(moments);
  EXPECT_EQ(exchange.participants(0), 3);
  EXPECT_EQ(exchange.participants(1), 2);
  EXPECT_EQ(exchange.participants(2), 1);
  std::atomic<int> right{0};
  ThreadTeam team(4);
  team.run([&](int rank) {
    for (size_t moment = 0; moment < moments[size_t(rank)]; ++moment)
      for (const auto pass : {Pass::forward, Pass::backward}) {
        for (size_t call = 0; call < 5; ++call) {
          const auto items = exchange.exchange(rank, {moment, pass, call}, "layer",
                                               item(rank * 100 + int(moment * 10 + call)));
          for (size_t other = 0; other < 4; ++other) {
            const bool there = moments[other] > moment;
            right += bool(items[other]) == there &&
                     (!there || *std::static_pointer_cast<int>(items[other]) ==
                                    int(other * 100 + moment * 10 + call));
          }
        }
        exchange.leave(rank, moment, pass);
      }
  });
  EXPECT_EQ(right, (3 + 1 + 2) * 2 * 5 * 4);
}

// What a rank gets while the other does `otherwise`.
std::string outcome(const std::function<void(MomentExchange&)>& otherwise) {
  MomentExchange exchange({1, 1});
  std::string text = "nothing";
  std::thread waiting([&] {
    try {
      exchange.exchange(0, {0, Pass::forward, 0}, "bn1", item(1));
    } catch (const std::exception& e) {
      text = e.what();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  otherwise(exchange);
  waiting.join();
  return text;
}

TEST(MomentExchange, who_waits_in_vain_is_told_the_layer) {
  const auto left = outcome([](MomentExchange& e) { e.leave(1, 0, Pass::forward); });
  EXPECT_NE(left.find("\"bn1\" was not reached by replica 1"), std::string::npos) << left;
  const auto other = outcome([](MomentExchange& e) {
    EXPECT_THROW(e.exchange(1, {0, Pass::forward, 0}, "bn2", item(2)), std::logic_error);
  });
  EXPECT_NE(other.find("bn1"), std::string::npos) << other;
  const auto aborted = outcome([](MomentExchange& e) { e.abort(); });
  EXPECT_NE(aborted.find("another replica failed"), std::string::npos) << aborted;
}

}  // namespace
}  // namespace yoke
