// The coordination core over hundreds of random schedules; built a second time under the thread
// sanitiser, therefore without LibTorch.
#include "yoke/parallel/coordination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>

namespace yoke {
namespace {

int schedules() { return std::getenv("YOKE_SOAK") ? 5000 : 300; }
void report_count() { std::cout << "soak: " << schedules() << " schedules\n"; }

void jitter(std::mt19937& random) {
  const int kind = int(random() % 4);
  if (kind == 0) std::this_thread::yield();
  if (kind == 1) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
}

TEST(ThreadTeam, every_rank_runs_on_its_own_lasting_thread) {
  ThreadTeam team(4);
  std::vector<std::thread::id> first(4), second(4);
  team.run([&](int rank) { first[size_t(rank)] = std::this_thread::get_id(); });
  team.run([&](int rank) { second[size_t(rank)] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 4u);
}

TEST(ThreadTeam, the_first_failure_reaches_the_caller_and_the_team_stays_usable) {
  ThreadTeam team(3);
  for (int round = 0; round < 20; ++round) {
    try {
      team.run([&](int rank) {
        if (rank == round % 3) throw std::runtime_error("rank " + std::to_string(rank));
        throw Aborted();  // what the peers see must not hide the cause
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()), "rank " + std::to_string(round % 3));
    }
    std::atomic<int> ran{0};
    team.run([&](int) { ++ran; });
    EXPECT_EQ(ran, 3);
  }
}

// Many rounds, random speeds: each round's items are complete and in rank order, whoever came last,
// and no rank waits at arrive().
TEST(Rendezvous, sums_every_round_in_rank_order_under_random_schedules) {
  report_count();
  for (int seed = 0; seed < schedules(); ++seed) {
    const int world = 1 + seed % 5;
    const int rounds = 7;
    ThreadTeam team(world);
    Rendezvous meeting(world);
    std::vector<std::vector<int>> results(rounds);
    team.run([&](int rank) {
      std::mt19937 random(unsigned(seed * 31 + rank));
      std::vector<std::shared_ptr<Rendezvous::Round>> mine;
      for (int r = 0; r < rounds; ++r) {
        auto item = std::make_shared<int>(rank * 100 + r);
        jitter(random);
        mine.push_back(meeting.arrive(rank, item, "sum", [&results, r](Rendezvous::Items& all) {
          for (const auto& one : all) results[size_t(r)].push_back(*static_cast<int*>(one.get()));
        }));
      }
      for (auto& round : mine) {
        meeting.wait(*round);
        EXPECT_TRUE(round->done());
      }
    });
    for (int r = 0; r < rounds; ++r) {
      ASSERT_EQ(results[size_t(r)].size(), size_t(world));
      for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(results[size_t(r)][size_t(rank)], rank * 100 + r);
    }
  }
}

// One rank fails at a random round, before or inside the round's work: all others end, the caller
// gets that one error, and after reset() the meeting works again.
TEST(Rendezvous, a_failing_rank_ends_all_and_nothing_hangs) {
  report_count();
  for (int seed = 0; seed < schedules(); ++seed) {
    const int world = 2 + seed % 4;
    std::mt19937 plan{unsigned(seed)};
    const int bad_rank = int(plan() % unsigned(world));
    const int bad_round = int(plan() % 5);
    const bool inside_work = plan() % 2;
    ThreadTeam team(world);
    Rendezvous meeting(world);
    team.on_failure([&] { meeting.abort(); });
    auto task = [&](bool fail) {
      return [&, fail](int rank) {
        std::mt19937 random(unsigned(seed * 77 + rank));
        auto item = std::make_shared<int>(rank);
        for (int r = 0; r < 5; ++r) {
          jitter(random);
          if (fail && !inside_work && rank == bad_rank && r == bad_round)
            throw std::runtime_error("the cause");
          auto round = meeting.arrive(rank, item, "op", [&](Rendezvous::Items&) {
            if (fail && inside_work && r == bad_round) throw std::runtime_error("the cause");
          });
          meeting.wait(*round);
        }
      };
    };
    try {
      team.run(task(true));
      FAIL() << "seed " << seed;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "the cause");
    }
    EXPECT_TRUE(meeting.aborted());
    meeting.reset();
    EXPECT_NO_THROW(team.run(task(false)));
  }
}

TEST(Rendezvous, different_operations_in_one_round_are_an_error_that_names_both) {
  ThreadTeam team(2);
  Rendezvous meeting(2);
  team.on_failure([&] { meeting.abort(); });
  try {
    team.run([&](int rank) {
      auto round = meeting.arrive(rank, nullptr, rank ? "barrier" : "allreduce", nullptr);
      meeting.wait(*round);
    });
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("barrier"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("allreduce"), std::string::npos);
  }
}

TEST(OrderedLaunch, launches_in_index_order_whatever_becomes_ready_first) {
  report_count();
  for (int seed = 0; seed < schedules(); ++seed) {
    std::mt19937 random{unsigned(seed)};
    const size_t count = 1 + random() % 9;
    std::vector<size_t> launched;
    OrderedLaunch order(count, [&](size_t i) { launched.push_back(i); });
    std::vector<size_t> arrivals(count);
    for (size_t i = 0; i < count; ++i) arrivals[i] = i;
    std::shuffle(arrivals.begin(), arrivals.end(), random);
    arrivals.resize(random() % (count + 1));  // the rest is never marked: unused parameters
    std::vector<char> marked(count, 0);
    for (size_t i : arrivals) {
      order.ready(i);
      marked[i] = 1;
      size_t ready = 0;
      while (ready < count && marked[ready]) ++ready;
      EXPECT_EQ(order.launched(), ready);  // no earlier, no later
    }
    order.finish();
    ASSERT_EQ(launched.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(launched[i], i);
  }
}

}  // namespace
}  // namespace yoke
