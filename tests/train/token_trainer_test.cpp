// Token classification end to end: a loss over tokens, the same on any devices.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/support.h"
#include "tests/train/tiny_model.h"
#include "yoke/checkpoint/model_folder.h"
#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/train/trainer.h"

namespace yoke {
namespace {

using testing::has;
using testing::message_of;
using testing::TinyModel;
using testing::words;

const std::vector<std::string> all_devices{"cpu",   "2xcpu", "3xcpu", "4xcpu", "8xcpu",    "1xsim",
                                           "2xsim", "3xsim", "4xsim", "8xsim", "sim:0+cpu"};

struct Log {
  std::vector<StepEvent> steps;
  std::vector<EvaluateEvent> scores;
  std::vector<StartEvent> starts;
  std::vector<PredictEvent> predictions;
  std::function<void(const Event&)> sink() {
    return [this](const Event& event) {
      if (auto* e = std::get_if<StepEvent>(&event)) steps.push_back(*e);
      if (auto* e = std::get_if<EvaluateEvent>(&event)) scores.push_back(*e);
      if (auto* e = std::get_if<StartEvent>(&event)) starts.push_back(*e);
      if (auto* e = std::get_if<PredictEvent>(&event)) predictions.push_back(*e);
    };
  }
};

// "good" and "bad" begin an entity P or N, their like continue it; commas cut words to pieces.
Json tagged_row(PhiloxStream& random, int64_t length) {
  static const std::vector<std::string> tags{"B-P", "I-P", "I-P", "B-N", "I-N", "I-N"};
  Json tokens = Json::array(), labels = Json::array();
  for (int64_t i = 0; i < length; ++i) {
    const size_t word = random.below(words().size());
    tokens.push_back(words()[word] + (random.below(4) == 0 ? ",," : ""));
    labels.push_back(word < tags.size() ? tags[word] : "O");
  }
  return {{"tokens", tokens}, {"labels", labels}};
}

std::string tagged_rows(int64_t rows, uint64_t seed) {
  PhiloxStream random(seed, 5);
  std::string text;
  for (int64_t row = 0; row < rows; ++row)
    text += tagged_row(random, int64_t(random.below(10))).dump() + "\n";
  return text;
}

// Eight rows whose numbers of targets differ as much as they can.
std::string unequal_rows() {
  PhiloxStream random(3, 5);
  std::string text;
  for (const int64_t targets : {1, 3, 50, 2, 2, 9, 1, 4}) {
    Json row = tagged_row(random, targets);
    for (const char* ignored : {"the", "film"}) {  // tokens that are no targets
      row["tokens"].push_back(ignored);
      row["labels"].push_back(nullptr);
    }
    text += row.dump() + "\n";
  }
  return text;
}

TEST(TokenTrainer, loss_and_gradient_norm_of_a_step_do_not_depend_on_the_division) {
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel tiny("token-division", 0, dropout, 128);
    const auto rows = tiny.write("train.jsonl", unequal_rows());
    double loss = 0, norm = 0;
    const std::vector<std::pair<std::string, int64_t>> divisions{
        {"cpu", 8},   {"cpu", 2},   {"cpu", 1},   {"2xcpu", 4}, {"2xcpu", 2},
        {"3xcpu", 8}, {"4xcpu", 1}, {"8xcpu", 1}, {"1xsim", 8}, {"2xsim", 4},
        {"3xsim", 2}, {"4xsim", 1}, {"8xsim", 8}, {"8xsim", 1}};
    for (const auto& [devices, micro] : divisions) {
      Log log;
      Trainer trainer({.model = tiny.model_folder(),
                       .task = "token-classification",
                       .devices = devices,
                       .batch_size = 8,
                       .epochs = 1,
                       .learning_rate = 0,
                       .logging_steps = 1,
                       .micro_batch_rows = micro,
                       .on_event = log.sink()});
      trainer.train(rows);
      ASSERT_EQ(log.steps.size(), 1u);
      if (loss == 0) {
        loss = log.steps[0].loss;
        norm = log.steps[0].grad_norm;
      }
      EXPECT_NEAR(log.steps[0].loss, loss, 1e-5 * loss) << devices << " " << micro;
      EXPECT_NEAR(log.steps[0].grad_norm, norm, 1e-5 * norm) << devices << " " << micro;
      // Another way to the same number: evaluation adds the tokens' losses in double.
      if (dropout == 0) {
        EXPECT_NEAR(trainer.evaluate(rows)["loss"], loss, 1e-5 * loss);
      }
    }
  }
}

TEST(TokenTrainer, training_evaluation_and_files_are_the_same_on_any_devices) {
  const TinyModel tiny("token-devices");
  const auto train = tiny.write("train.jsonl", tagged_rows(203, 1));
  const auto dev = tiny.write("dev.jsonl", tagged_rows(57, 2));
  std::vector<StepEvent> first;
  for (const auto& devices : all_devices) {
    Log log;
    const std::string out = tiny.path("out-" + devices);
    Trainer trainer({.model = tiny.model_folder(),
                     .task = "token-classification",
                     .devices = devices,
                     .epochs = 8,
                     .learning_rate = 2e-3,
                     .output = out,
                     .logging_steps = 1,
                     .on_event = log.sink()});
    trainer.train(train, dev);
    EXPECT_EQ(log.starts.at(0).new_tensors,
              (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
    ASSERT_EQ(log.steps.size(), 56u);
    if (first.empty()) first = log.steps;
    for (size_t i = 0; i < 10; ++i)
      EXPECT_NEAR(log.steps[i].loss, first[i].loss, 1e-5 * first[i].loss) << devices << " " << i;
    const auto& last = log.scores.back();
    EXPECT_EQ(last.rows, 57);
    EXPECT_GT(last.accuracy, 0.9) << devices;  // it learns
    ASSERT_TRUE(last.entities);
    EXPECT_GT(last.entities->f1, 0.8);

    const Json config = read_json(out + "/config.json", "test");
    EXPECT_EQ(config["architectures"], Json({"BertForTokenClassification"}));
    EXPECT_EQ(config["id2label"]["4"], "O");
    EXPECT_FALSE(config.contains("problem_type"));
    const StateDict saved = read_weights(resolve_model(out));
    for (const auto& name : saved.names()) EXPECT_FALSE(has(name, "pooler")) << name;
    // The folder says its task; what was saved scores as what was trained, bit for bit.
    for (const auto& other : {"cpu", "3xsim", "2xcpu", "8xcpu"})
      EXPECT_EQ(Trainer({.model = out, .devices = other}).evaluate(dev).values,
                (std::map<std::string, double>{{"loss", last.loss},
                                               {"accuracy", last.accuracy},
                                               {"precision", last.entities->precision},
                                               {"recall", last.entities->recall},
                                               {"f1", last.entities->f1}}))
          << devices << " then " << other;
  }
}

TEST(TokenTrainer, in_mode_exact_the_weights_are_equal_to_the_bit) {
  const TinyModel tiny("token-exact", 0, 0.1, 128);
  const auto rows = tiny.write("train.jsonl", unequal_rows() + tagged_rows(17, 4));
  StateDict first;
  for (const auto& devices : {"cpu", "2xcpu", "3xsim", "8xcpu"}) {
    const std::string out = tiny.path(std::string("exact-") + devices);
    Trainer({.model = tiny.model_folder(),
             .task = "token-classification",
             .devices = devices,
             .batch_size = 8,
             .epochs = 2,
             .learning_rate = 1e-3,
             .mode = "exact",
             .output = out})
        .train(rows);
    const StateDict weights = read_weights(resolve_model(out));
    if (first.empty()) first = weights;
    for (const auto& [name, tensor] : weights)
      EXPECT_TRUE(at::equal(tensor, first.at(name))) << devices << " " << name;
  }
}

TEST(TokenTrainer, a_step_without_targets_adds_nothing_is_counted_and_warned_of_once) {
  const TinyModel tiny("token-none");
  const std::string nothing = "{\"tokens\": [\"the\", \"film\"], \"labels\": [-100, null]}\n";
  const std::string something = "{\"tokens\": [\"a\", \"plot\"], \"labels\": [\"O\", \"B-P\"]}\n";
  const auto rows = tiny.write("train.jsonl", nothing + something + nothing + nothing);
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
    Log log;
    std::vector<std::string> warnings;
    const auto former = set_log_sink([&](LogLevel level, const std::string& line) {
      if (level == LogLevel::warning) warnings.push_back(line);
    });
    const auto result = Trainer({.model = tiny.model_folder(),
                                 .task = "token-classification",
                                 .devices = devices,
                                 .batch_size = 1,
                                 .epochs = 1,
                                 .shuffle = false,
                                 .logging_steps = 1,
                                 .on_event = log.sink()})
                            .train(rows);
    set_log_sink(former);
    ASSERT_EQ(log.steps.size(), 4u);
    EXPECT_EQ(log.steps[0].loss, 0);
    EXPECT_EQ(log.steps[0].grad_norm, 0);
    EXPECT_GT(log.steps[1].loss, 0);
    EXPECT_EQ(log.steps[3].loss, 0);
    EXPECT_EQ(result.loss, log.steps[1].loss);  // over two targets, whatever the empty steps
    ASSERT_EQ(warnings.size(), 1u) << devices;
    EXPECT_TRUE(has(warnings[0], "step 1") && has(warnings[0], "target")) << warnings[0];
  }
}

class TrainedTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    trained_ = tiny_.path("trained");
    Trainer({.model = tiny_.model_folder(),
             .task = "token-classification",
             .devices = "cpu",
             .epochs = 6,
             .learning_rate = 2e-3,
             .output = trained_})
        .train(tiny_.write("train.jsonl", tagged_rows(203, 1)));
  }
  TinyModel tiny_{"token-trained"};
  std::string trained_;
};

TEST_F(TrainedTokens, every_word_gets_a_label_in_order_unless_it_has_no_token) {
  const auto rows = tiny_.write(
      "rows.jsonl",
      "{\"tokens\": [\"the\", \"good\", \"fine\", \"film\"]}\n{\"tokens\": []}\n"
      "{\"tokens\": [\"bad\", \"\\u0001\", \"plot\", \"\", \"and,and\", \"poor\", \"cast\"]}\n");
  std::vector<std::vector<TokenPrediction>> first;
  for (const auto& devices : all_devices) {
    Log log;
    // [CLS], six tokens, [SEP]: the last row's "cast" is cut off, "poor" too.
    Trainer trainer(
        {.model = trained_, .devices = devices, .max_length = 8, .on_event = log.sink()});
    const auto predictions = trainer.predict(rows);
    ASSERT_EQ(predictions.size(), 3u);
    std::vector<std::vector<std::string>> tokens, labels;
    std::vector<std::vector<double>> scores;
    for (size_t row = 0; row < 3; ++row) {
      tokens.emplace_back();
      labels.emplace_back();
      scores.emplace_back();
      for (const auto& t : predictions[row].tokens) {
        tokens.back().push_back(t.token);
        labels.back().push_back(t.label.value_or("-"));
        scores.back().push_back(t.score);
      }
      EXPECT_EQ(log.predictions[row].row, int64_t(row));
      EXPECT_TRUE(log.predictions[row].of_tokens);
      EXPECT_TRUE(predictions[row].logits.empty() && predictions[row].label.empty());
    }
    using Rows = std::vector<std::vector<std::string>>;
    EXPECT_EQ(tokens, (Rows{{"the", "good", "fine", "film"},
                            {},
                            {"bad", "\x01", "plot", "", "and,and", "poor", "cast"}}));
    EXPECT_EQ(labels,
              (Rows{{"O", "B-P", "I-P", "O"}, {}, {"B-N", "-", "O", "-", "O", "I-N", "-"}}));
    if (first.empty())
      for (const auto& p : predictions) first.push_back(p.tokens);
    for (size_t row = 0; row < 3; ++row)
      for (size_t word = 0; word < first[row].size(); ++word)
        EXPECT_EQ(scores[row][word], first[row][word].score);  // to the bit
    for (double score : scores[0]) EXPECT_TRUE(score > 0.4 && score < 1) << score;
    EXPECT_EQ(scores[2][1], 0);
  }
  const Json json = to_json(PredictEvent{2, {.tokens = first[2]}, false, true});
  EXPECT_EQ(json["labels"].dump(), R"(["B-N",null,"O",null,"O","I-N",null])");
}

TEST_F(TrainedTokens, a_text_is_cut_into_words_at_white_space) {
  Trainer trainer({.model = trained_, .devices = "2xcpu"});
  const auto predictions = trainer.predict(std::vector<std::string>{" a good\tfine film ", ""});
  ASSERT_EQ(predictions.size(), 2u);
  ASSERT_EQ(predictions[0].tokens.size(), 4u);
  EXPECT_EQ(predictions[0].tokens[1].token, "good");
  EXPECT_EQ(predictions[0].tokens[1].label, "B-P");
  EXPECT_TRUE(predictions[1].tokens.empty());
  EXPECT_TRUE(has(message_of([&] { trainer.predict({"a"}, {"b"}); }), "no second text"));
}

TEST_F(TrainedTokens, labels_come_back_by_name_and_rows_without_targets_count_nothing) {
  Trainer trainer({.model = trained_, .devices = "2xcpu"});
  const auto row = [](const char* labels) {
    return std::string("{\"tokens\": [\"good\", \"film\"], \"labels\": ") + labels + "}\n";
  };
  const auto one = trainer.evaluate(tiny_.write("one.jsonl", row(R"(["B-P", "O"])")));
  const auto more = trainer.evaluate(tiny_.write(
      "more.jsonl", row("[-100, null]") + row(R"(["B-P", "O"])") + row("[-100, -100]")));
  EXPECT_EQ(more.rows, 3);
  EXPECT_EQ(one["f1"], 1);
  EXPECT_EQ(more["accuracy"], one["accuracy"]);
  EXPECT_NEAR(more["loss"], one["loss"], 1e-5 * one["loss"]);
  std::string warned;
  const auto former = set_log_sink([&](LogLevel, const std::string& line) { warned += line; });
  const auto nothing = trainer.evaluate(tiny_.write("none.jsonl", row("[-100, null]")));
  set_log_sink(former);
  EXPECT_EQ(nothing["loss"], 0);
  EXPECT_TRUE(has(warned, "none.jsonl: no token has a label")) << warned;
  const auto unknown =
      message_of([&] { trainer.evaluate(tiny_.write("unknown.jsonl", row(R"(["B-P", "B-X"])"))); });
  EXPECT_TRUE(has(unknown, "row 1") && has(unknown, "token 2 (\"film\")") && has(unknown, "B-X") &&
              has(unknown, "B-N, B-P, I-N, I-P, O"))
      << unknown;
}

TEST_F(TrainedTokens, a_head_of_another_task_is_told_so) {
  const auto wrong =
      message_of([&] { Trainer({.model = trained_, .task = "text-classification"}); });
  EXPECT_TRUE(has(wrong, "a head for token-classification") &&
              has(wrong, "--task token-classification"))
      << wrong;
  const TinyModel base("token-base");
  EXPECT_TRUE(has(
      message_of([&] {
        Trainer({.model = base.model_folder(), .task = "token-classification", .devices = "cpu"})
            .predict(std::vector<std::string>{"a"});
      }),
      "base model"));
  EXPECT_TRUE(has(message_of([&] {
                    Trainer({.model = base.model_folder(), .task = "token-classification"})
                        .train(base.write("none.jsonl", "{\"tokens\": [\"a\"], \"tags\": [null]}"));
                  }),
                  "nothing to learn"));
  EXPECT_TRUE(has(message_of([&] {
                    Trainer({.model = base.model_folder(), .task = "token-classification"})
                        .train(base.write_rows("rows.tsv", 4));
                  }),
                  "JSON lines"));
}

}  // namespace
}  // namespace yoke
