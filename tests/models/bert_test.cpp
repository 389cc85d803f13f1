// BERT on packed rows beside transformers' BERT on padded ones, with the same weights: logits,
// losses and all gradients (tests/golden/bert_peer.py makes them on the spot).
#include "yoke/models/bert.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "yoke/checkpoint/safetensors.h"
#include "yoke/core/error.h"
#include "yoke/core/json.h"

namespace yoke {
namespace {
namespace fs = std::filesystem;

class BertPeer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() / ("yoke-bert-" + std::to_string(::getpid()) + "-" + GetParam());
    fs::create_directories(folder_);
    const std::string python = std::string(YOKE_PYTHON) + " -c 'import transformers' 2>/dev/null";
    if (std::system(python.c_str()) != 0) GTEST_SKIP() << "no transformers";
    const std::string command = std::string(YOKE_PYTHON) +
                                " " YOKE_SOURCE_DIR "/tests/golden/bert_peer.py " +
                                folder_.string() + " " + GetParam() + " > /dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_P(BertPeer, packed_rows_give_transformers_logits_losses_and_gradients) {
  const bool regression = std::string(GetParam()) == "regression";
  const bool tokens = std::string(GetParam()) == "token_classification";
  const auto config = read_json(folder_ / "config.json", "test");
  auto model = make_model(
      config, tokens ? "token-classification" : "text-classification", regression ? 1 : 3,
      regression ? ProblemType::regression : ProblemType::single_label_classification);
  EXPECT_EQ(config["architectures"], Json({model->architecture()}));
  EXPECT_EQ(task_of(config), tokens ? "token-classification" : "text-classification");
  const auto weights = read_safetensors(folder_ / "model.safetensors");
  {
    c10::NoGradGuard no_grad;
    std::vector<std::string> names;
    for (auto& p : model->named_parameters()) {
      p.value().copy_(weights.at(p.key()));
      names.push_back(p.key());
    }
    EXPECT_EQ(names.size(), weights.size());  // letter for letter, none over
  }
  const auto peer = read_safetensors(folder_ / "peer.safetensors");
  const auto batch =
      pack_padded(peer.at("input_ids"), peer.at("attention_mask"), peer.at("token_type_ids"));
  EXPECT_EQ(batch.tokens(), 63);
  model->train();  // dropout is 0 in the configuration
  const auto logits = model->forward(batch, {});
  // The peer's are padded where they are of tokens: of its places those of the mask count.
  const auto real = [&](const at::Tensor& of_places) {
    return tokens ? of_places.index({peer.at("attention_mask") == 1}) : of_places;
  };
  EXPECT_LE((logits - real(peer.at("logits"))).abs().max().item<double>(), 2e-5);
  const auto losses = model->target_losses(logits, real(peer.at("labels")));
  EXPECT_EQ(losses.numel(), tokens ? 63 : 5);
  if (tokens) {
    EXPECT_EQ((losses != 0).sum().item<int64_t>(), 47);  // the targets, and no other token
  }
  const double truth = peer.at("loss_sum").item<double>();
  EXPECT_NEAR(losses.sum().item<double>(), truth, 1e-5 * std::abs(truth));
  losses.sum().backward();
  double largest = 0;
  for (const auto& [name, tensor] : peer)
    if (name.rfind("grad.", 0) == 0) largest = std::max(largest, tensor.abs().max().item<double>());
  for (const auto& p : model->named_parameters())
    EXPECT_LE((p.value().grad() - peer.at("grad." + p.key())).abs().max().item<double>(),
              1e-5 * largest)
        << p.key();
}

INSTANTIATE_TEST_SUITE_P(Heads, BertPeer,
                         ::testing::Values("single_label_classification", "regression",
                                           "token_classification"));

BertConfig small() {
  BertConfig c;
  c.vocab_size = 50;
  c.hidden_size = 24;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 3;
  c.intermediate_size = 48;
  c.max_position_embeddings = 20;
  return c;
}

std::shared_ptr<Model> small_model() {
  auto model = std::make_shared<BertForSequenceClassification>(
      small(), 2, ProblemType::single_label_classification);
  for (auto& p : model->named_parameters()) initialize(p.value(), p.key(), 0.2, 7);
  return model;
}

TEST(Bert, with_dropout_a_row_depends_on_its_slot_and_step_and_on_no_neighbour) {
  auto model = small_model();
  model->train();
  const std::vector<int32_t> a{1, 5, 9, 2}, b{1, 7, 2}, c{1, 8, 8, 8, 8, 8, 2};
  const RunContext context{.seed = 3, .step = 11};
  const auto all = model->forward(pack({a, b, c}, {}, {0, 1, 2}), context);
  const auto alone = model->forward(pack({b}, {}, {1}), context);
  EXPECT_LE((alone[0] - all[1]).abs().max().item<double>(), 1e-6);
  const auto other_order = model->forward(pack({c, b, a}, {}, {2, 1, 0}), context);
  for (int64_t r = 0; r < 3; ++r)
    EXPECT_LE((other_order[2 - r] - all[r]).abs().max().item<double>(), 1e-6);
  EXPECT_GT((model->forward(pack({b}, {}, {2}), context)[0] - all[1]).abs().max().item<double>(),
            1e-3);
  EXPECT_GT((model->forward(pack({b}, {}, {1}), {.seed = 3, .step = 12})[0] - all[1])
                .abs()
                .max()
                .item<double>(),
            1e-3);
  model->eval();
  EXPECT_TRUE(at::equal(model->forward(pack({b}, {}, {1}), context),
                        model->forward(pack({b}, {}, {5}), {})));
}

TEST(Bert, with_dropout_a_token_depends_on_its_rows_slot_and_on_no_neighbour) {
  auto model = std::make_shared<BertForTokenClassification>(small(), 3);
  for (auto& p : model->named_parameters()) initialize(p.value(), p.key(), 0.2, 7);
  model->train();
  const std::vector<int32_t> a{1, 5, 9, 2}, b{1, 7, 2};
  const RunContext context{.seed = 3, .step = 11};
  const auto both = model->forward(pack({a, b}, {}, {0, 1}), context);
  EXPECT_EQ(both.sizes(), at::IntArrayRef({7, 3}));
  const auto alone = model->forward(pack({b}, {}, {1}), context);
  EXPECT_LE((alone - both.slice(0, 4)).abs().max().item<double>(), 1e-6);
  const auto elsewhere = model->forward(pack({b}, {}, {2}), context);
  EXPECT_GT((alone - elsewhere).abs().max().item<double>(), 1e-3);
  // The classifier's own dropout, with all others off.
  auto config = small();
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
  config.classifier_dropout = 0.5;
  auto last = std::make_shared<BertForTokenClassification>(config, 3);
  for (auto& p : last->named_parameters()) initialize(p.value(), p.key(), 0.2, 7);
  last->train();
  const std::vector<int32_t> same{1, 7, 2};
  const auto twice = last->forward(pack({same, same}, {}, {0, 1}), context);
  for (int64_t t = 0; t < 3; ++t)
    EXPECT_GT((twice[t] - twice[t + 3]).abs().max().item<double>(), 1e-4) << t;
}

TEST(Bert, new_heads_are_drawn_from_the_seed_and_the_name_only) {
  auto draw = [](const std::string& name, uint64_t seed) {
    auto weight = at::empty({40, 50});
    initialize(weight, name, 0.02, seed);
    return weight;
  };
  EXPECT_TRUE(at::equal(draw("classifier.weight", 1), draw("classifier.weight", 1)));
  EXPECT_FALSE(at::equal(draw("classifier.weight", 1), draw("classifier.weight", 2)));
  EXPECT_FALSE(at::equal(draw("classifier.weight", 1), draw("pooler.weight", 1)));
  EXPECT_NEAR(draw("classifier.weight", 1).std().item<double>(), 0.02, 0.002);
  auto bias = at::ones({4});
  initialize(bias, "classifier.bias", 0.02, 1);
  EXPECT_EQ(bias.sum().item<float>(), 0);
}

TEST(Registry, what_is_unknown_or_impossible_is_an_error_that_says_what_is_known) {
  const auto make = [](const char* text) {
    return make_model(parse_json(text, "config.json", "t"), "text-classification", 2,
                      ProblemType::single_label_classification);
  };
  try {
    make(R"({"model_type": "gpt7"})");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("bert"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("gpt7"), std::string::npos);
  }
  EXPECT_THROW(make("{}"), Error);
  EXPECT_EQ(known_model_types(), (std::vector<std::string>{"bert"}));
  EXPECT_EQ(task_of(parse_json(R"({"architectures": ["BertModel"]})", "config.json", "t")), "");
  EXPECT_EQ(task_of(parse_json(R"({"architectures": [3]})", "config.json", "t")), "");
  EXPECT_THROW(make(R"({"model_type": "bert", "hidden_size": 30, "num_attention_heads": 4})"),
               Error);
  EXPECT_THROW(make(R"({"model_type": "bert", "hidden_size": "wide"})"), Error);
  EXPECT_THROW(make(R"({"model_type": "bert", "hidden_act": "mystery"})"), Error);
  EXPECT_THROW(make(R"({"model_type": "bert", "position_embedding_type": "relative_key"})"), Error);
  EXPECT_THROW(make(R"({"model_type": "bert", "hidden_dropout_prob": 1.0})"), Error);
}

}  // namespace
}  // namespace yoke
