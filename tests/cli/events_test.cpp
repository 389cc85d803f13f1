// The JSON of events, member by member as docs/cli.md gives it.
#include "yoke/train/events.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace yoke {
namespace {

TEST(events, start) {
  StartEvent start{.devices = {"cuda:0", "cpu"},
                   .model = "bert",
                   .parameters = 10,
                   .trainable = 8,
                   .rows = 96,
                   .steps = 9,
                   .new_tensors = {"classifier.weight"}};
  const std::string head =
      R"({"event":"start","devices":["cuda:0","cpu"],"model":"bert","parameters":10,)"
      R"("trainable":8,"rows":96,"steps":9,)";
  EXPECT_EQ(to_json(start).dump(), head + R"("mode":"fast","new_tensors":["classifier.weight"]})");
  start.mode = "exact";
  start.logical_shards = 8;
  start.resumed_step = 4;
  EXPECT_EQ(to_json(start).dump(), head + R"("mode":"exact","logical_shards":8,"resumed_step":4,)"
                                          R"("new_tensors":["classifier.weight"]})");
  EXPECT_EQ(to_json(StartEvent{}).at("new_tensors").dump(), "[]");
}

TEST(events, step) {
  StepEvent e;
  e.step = 1;
  e.epoch = 0.0078;
  e.loss = 0.1 + 0.2;
  e.learning_rate = 5e-5;
  e.grad_norm = 2;
  e.rows = 32;
  e.tokens = 423;
  e.total_steps = 384;
  EXPECT_EQ(to_json(e).dump(),
            R"({"event":"step","step":1,"epoch":0.0078,"loss":0.30000000000000004,)"
            R"("learning_rate":5e-05,"grad_norm":2.0,"rows":32,"tokens":423})");
}

TEST(events, evaluate_has_accuracy_or_mse) {
  EvaluateEvent e;
  e.step = 3;
  e.loss = 0.5;
  e.accuracy = 0.75;
  e.rows = 8;
  EXPECT_EQ(to_json(e).dump(),
            R"({"event":"evaluate","step":3,"loss":0.5,"accuracy":0.75,"rows":8})");
  e.has_accuracy = false;
  e.mse = 0.25;
  EXPECT_EQ(to_json(e).dump(), R"({"event":"evaluate","step":3,"loss":0.5,"mse":0.25,"rows":8})");
}

TEST(events, predict_has_label_and_score_or_value) {
  PredictEvent e{7, {"good", 0.75, {-0.5f, 1.5f}}, false};
  EXPECT_EQ(to_json(e).dump(),
            R"({"event":"predict","row":7,"label":"good","score":0.75,"logits":[-0.5,1.5]})");
  e = {7, {"", 2.5, {2.5f}}, true};
  EXPECT_EQ(to_json(e).dump(), R"({"event":"predict","row":7,"value":2.5,"logits":[2.5]})");
}

TEST(events, of_tokens) {
  EvaluateEvent e;
  e.loss = 0.5;
  e.accuracy = 0.75;
  e.rows = 8;
  e.entities = {0.5, 0.25, 0.125};
  EXPECT_EQ(to_json(e).dump(),
            R"({"event":"evaluate","step":0,"loss":0.5,"accuracy":0.75,"precision":0.5,)"
            R"("recall":0.25,"f1":0.125,"rows":8})");
  PredictEvent p;
  p.row = 7;
  p.of_tokens = true;
  p.prediction.tokens = {{"John", "B-PER", 0.75}, {"cut", {}, 0}};
  EXPECT_EQ(to_json(p).dump(),
            R"({"event":"predict","row":7,"tokens":["John","cut"],"labels":["B-PER",null],)"
            R"("scores":[0.75,null]})");
  p.prediction.tokens.clear();
  EXPECT_EQ(to_json(p).dump(),
            R"({"event":"predict","row":7,"tokens":[],"labels":[],"scores":[]})");
}

TEST(events, saved) {
  EXPECT_EQ(to_json(SavedEvent{"a \"b\""}).dump(), R"({"event":"saved","path":"a \"b\""})");
}

TEST(events, numbers_read_back_as_they_were) {
  for (const float logit : {0.1f, 1e-30f, 3.4028235e38f, -7.0000005f, 1.17549435e-38f}) {
    const std::string text = to_json(PredictEvent{0, {"x", double(logit), {logit}}, false}).dump();
    const Json back = Json::parse(text);
    EXPECT_EQ(back["logits"][0].get<float>(), logit);
    EXPECT_EQ(back["score"].get<double>(), double(logit));
  }
  StepEvent e;
  e.loss = std::nextafter(1.0, 2.0);
  EXPECT_EQ(Json::parse(to_json(e).dump())["loss"].get<double>(), e.loss);
}

TEST(events, what_json_cannot_say_is_null) {
  StepEvent e;
  e.grad_norm = std::nan("");
  EXPECT_NE(to_json(e).dump().find(R"("grad_norm":null)"), std::string::npos);
}

}  // namespace
}  // namespace yoke
