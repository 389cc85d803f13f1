// Which names may differ, which may be missing, and that nothing is copied when anything is wrong.
#include "yoke/checkpoint/load_state.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support.h"

namespace yoke {
namespace {

using Names = std::vector<std::string>;

// A BERT in small: body, pooler, head.
const std::pair<const char*, std::vector<int64_t>> parts[] = {
    {"bert.embeddings.word_embeddings.weight", {5, 2}},
    {"bert.embeddings.LayerNorm.weight", {2}},
    {"bert.embeddings.LayerNorm.bias", {2}},
    {"bert.encoder.layer.0.output.dense.weight", {2, 2}},
    {"bert.encoder.layer.1.output.dense.weight", {2, 2}},
    {"bert.pooler.dense.weight", {2, 2}},
    {"classifier.weight", {3, 2}},
    {"classifier.bias", {3}},
};

NamedTensors model() {
  NamedTensors targets;
  for (const auto& [name, shape] : parts) targets.emplace_back(name, at::zeros(shape));
  return targets;
}

LoadRules rules() { return {.base_prefix = "bert.", .own_head = {"classifier.*"}}; }

LoadRules train_rules() {
  LoadRules r = rules();
  r.head_may_be_missing = true;
  return r;
}

// The file of that model, each tensor filled with its number, names passed through `spell`; an
// empty spelling leaves the tensor out.
template <typename Spell>
StateDict file(Spell&& spell) {
  StateDict state;
  double number = 1;
  for (const auto& [name, shape] : parts) {
    const std::string spelled = spell(std::string(name));
    if (!spelled.empty()) state.insert(spelled, at::full(shape, number));
    ++number;
  }
  return state;
}

std::string same(const std::string& name) { return name; }

bool starts(const std::string& name, const char* prefix) { return name.starts_with(prefix); }

std::string replace(std::string name, const std::string& from, const std::string& to) {
  if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  return name;
}

// Each target holds its number.
void expect_filled(const NamedTensors& targets, const Names& except = {}) {
  double number = 1;
  for (const auto& [name, tensor] : targets) {
    const bool left = std::find(except.begin(), except.end(), name) != except.end();
    EXPECT_TRUE(tensor.eq(left ? 0.0 : number).all().item<bool>()) << name;
    ++number;
  }
}

void expect_untouched(const NamedTensors& targets) {
  for (const auto& [name, tensor] : targets) EXPECT_TRUE(tensor.eq(0).all().item<bool>()) << name;
}

std::string refused(const StateDict& state, const LoadRules& r) {
  const auto targets = model();
  const std::string error = error_of([&] { load_state(state, targets, r, "net.pth"); });
  expect_untouched(targets);
  EXPECT_NE(error, "");
  return error;
}

TEST(load_state, every_spelling_of_a_whole_file_fills_the_model) {
  using Spelling = std::pair<const char*, std::string (*)(std::string)>;
  const Spelling spellings[] = {
      {"as it is", [](std::string n) { return n; }},
      {"DataParallel", [](std::string n) { return "module." + n; }},
      {"twice", [](std::string n) { return "module.module." + n; }},
      {"compiled", [](std::string n) { return "_orig_mod." + n; }},
      {"compiled and parallel", [](std::string n) { return "module._orig_mod." + n; }},
      {"Lightning", [](std::string n) { return "model." + n; }},
      {"Lightning, compiled", [](std::string n) { return "model._orig_mod." + n; }},
      {"only the body wrapped", [](std::string n) { return replace(n, "bert.", "bert.module."); }},
      {"each layer wrapped",
       [](std::string n) {
         return replace(replace(n, ".0.", ".0._fsdp_wrapped_module."), ".1.",
                        ".1._fsdp_wrapped_module.");
       }},
      {"no base prefix", [](std::string n) { return replace(n, "bert.", ""); }},
      {"no base prefix, wrapped",
       [](std::string n) { return "module." + replace(n, "bert.", ""); }},
      {"gamma and beta",
       [](std::string n) {
         return replace(replace(n, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias",
                        "LayerNorm.beta");
       }},
  };
  for (const auto& [name, spell] : spellings) {
    SCOPED_TRACE(name);
    const auto targets = model();
    LoadReport report;
    ASSERT_EQ(error_of([&] { report = load_state(file(spell), targets, rules(), "net.pth"); }), "");
    expect_filled(targets);
    EXPECT_TRUE(report.new_tensors.empty() && report.left_out.empty());
    EXPECT_EQ(report.renamed.empty(), name == std::string("as it is"));
  }
}

TEST(load_state, a_base_model_takes_a_file_with_the_prefix) {
  const NamedTensors targets{{"embeddings.weight", at::zeros({2})}};
  const LoadRules r{.base_prefix = "bert."};
  const auto report =
      load_state({{"bert.embeddings.weight", at::ones({2})}, {"cls.bias", at::ones({1})}}, targets,
                 r, "net.pth");
  EXPECT_EQ(hex(targets[0].second), hex(at::ones({2})));
  EXPECT_EQ(report.left_out, Names{"cls.bias"});
}

TEST(load_state, a_file_half_one_way_and_half_the_other_shows_both_halves) {
  int turn = 0;
  std::string error =
      refused(file([&](std::string n) { return turn++ % 2 ? "module." + n : n; }), rules());
  EXPECT_TRUE(has(error, "4 names have \"module.\" (module.bert.")) << error;
  EXPECT_TRUE(has(error, "4 have not (bert."));
  turn = 0;
  error = refused(file([&](std::string n) { return turn++ % 2 ? replace(n, "bert.", "") : n; }),
                  rules());
  EXPECT_TRUE(has(error, "have \"bert.\""));
  error = refused(file([&](std::string n) {
                    return starts(n, "bert.encoder") ? "bert.module." + n.substr(5) : n;
                  }),
                  rules());
  EXPECT_TRUE(has(error, "\"bert.module.\""));
}

TEST(load_state, a_model_that_owns_module_model_or_gamma_is_not_stripped) {
  const NamedTensors targets{{"module.weight", at::zeros({1})},
                             {"model.weight", at::zeros({1})},
                             {"scale.gamma", at::zeros({1})},
                             {"LayerNorm.gamma", at::zeros({1})}};
  StateDict state, wrapped;
  for (const auto& [name, tensor] : targets) {
    state.insert(name, at::ones({1}));
    wrapped.insert("module." + name, at::ones({1}));
  }
  for (const auto& one : {state, wrapped}) {
    for (const auto& target : targets) target.second.zero_();
    load_state(one, targets, {}, "net.pth");
    for (const auto& [name, tensor] : targets) EXPECT_EQ(tensor.item<float>(), 1) << name;
  }
  // gamma outside of a LayerNorm is nobody's weight.
  const NamedTensors scale{{"scale.weight", at::zeros({1})}, {"other", at::zeros({1})}};
  EXPECT_TRUE(
      has(error_of([&] {
            load_state({{"scale.gamma", at::ones({1})}, {"other", at::ones({1})}}, scale, {}, "f");
          }),
          "unexpected 1: scale.gamma"));
}

TEST(load_state, two_names_for_one_tensor_are_an_error) {
  StateDict state = file(same);
  state.insert("module.classifier.bias", at::ones({3}));
  EXPECT_TRUE(has(refused(state, rules()),
                  "\"module.classifier.bias\" both stand for \"classifier.bias\""));
}

TEST(load_state, heads_of_other_tasks_are_left_out_and_position_ids_ignored) {
  StateDict state = file(same);
  state.insert("cls.predictions.bias", at::ones({5}));
  state.insert("cls.seq_relationship.weight", at::ones({2, 2}));
  state.insert("bert.embeddings.position_ids", at::ones({1, 4}, at::kLong));
  const auto targets = model();
  const auto report = load_state(state, targets, rules(), "net.pth");
  expect_filled(targets);
  EXPECT_EQ(report.left_out, (Names{"cls.predictions.bias", "cls.seq_relationship.weight"}));
}

TEST(load_state, an_absent_head_is_new_for_training_and_an_error_otherwise) {
  const auto base = file([](std::string n) { return starts(n, "classifier") ? "" : n.substr(5); });
  EXPECT_FALSE(has_head(base, rules()));
  EXPECT_TRUE(has_head(file([](std::string n) { return "module." + n; }), rules()));
  const std::string error = refused(base, rules());
  EXPECT_TRUE(has(error, "this is a base model. Try: train it first"));
  EXPECT_TRUE(has(error, "classifier.weight"));
  const auto targets = model();
  const auto report = load_state(base, targets, train_rules(), "net.pth");
  EXPECT_EQ(report.new_tensors, (Names{"classifier.weight", "classifier.bias"}));
  expect_filled(targets, report.new_tensors);
}

TEST(load_state, half_a_head_is_an_error_in_every_verb) {
  const auto half = file([](std::string n) { return n == "classifier.bias" ? "" : n; });
  for (const auto& r : {rules(), train_rules()})
    EXPECT_TRUE(has(refused(half, r), "its head is another one: it lacks classifier.bias"));
  StateDict other = file([](std::string n) { return starts(n, "classifier") ? "" : n; });
  other.insert("classifier.out_proj.weight", at::ones({3, 2}));
  EXPECT_TRUE(has(refused(other, train_rules()), "it has classifier.out_proj.weight"));
  LoadRules r = train_rules();
  r.new_head = true;
  const auto targets = model();
  EXPECT_EQ(load_state(half, targets, r, "f").new_tensors, Names{"classifier.bias"});
  expect_filled(targets, {"classifier.bias"});
}

TEST(load_state, a_head_of_another_shape_needs_new_head_and_the_rest_is_the_files) {
  StateDict state = file(same);
  state.set("classifier.weight", at::ones({2, 2}));
  state.set("classifier.bias", at::ones({2}));
  LoadRules r = train_rules();
  r.new_head_option = ".new_head = true (--new-head)";
  const std::string error = refused(state, r);
  EXPECT_TRUE(
      has(error, "net.pth: tensor \"classifier.weight\" is (2, 2), the model expects (3, 2)"));
  EXPECT_TRUE(has(error, "Try: .new_head = true (--new-head)"));
  r.new_head = true;
  const auto targets = model();
  const auto report = load_state(state, targets, r, "net.pth");
  EXPECT_EQ(report.new_tensors, (Names{"classifier.weight", "classifier.bias"}));
  expect_filled(targets, report.new_tensors);
  // Of the body no option excuses it.
  state = file(same);
  state.set("bert.embeddings.word_embeddings.weight", at::ones({9, 2}));
  EXPECT_TRUE(
      has(refused(state, r), "word_embeddings.weight\" is (9, 2), the model expects (5, 2)"));
}

TEST(load_state, an_absent_pooler_is_new_for_training_only) {
  const auto state = file([](std::string n) { return n.find("pooler") != n.npos ? "" : n; });
  EXPECT_TRUE(has(refused(state, rules()), "missing 1: bert.pooler.dense.weight"));
  const auto targets = model();
  EXPECT_EQ(load_state(state, targets, train_rules(), "f").new_tensors,
            Names{"bert.pooler.dense.weight"});
}

TEST(load_state, all_that_is_wrong_stands_in_one_error_by_module) {
  StateDict state = file([](std::string n) { return starts(n, "bert.encoder.layer.1") ? "" : n; });
  state.insert("bert.encoder.layer.7.output.dense.weight", at::ones({2, 2}));
  state.insert("bert.encoder.layer.7.output.dense.bias", at::ones({2}));
  state.set("bert.embeddings.LayerNorm.bias", at::ones({4}));
  for (const auto& r : {rules(), train_rules()}) {
    const std::string error = refused(state, r);
    EXPECT_TRUE(has(error, "missing 1: bert.encoder.layer.1.output.dense.weight"));
    EXPECT_TRUE(has(error, "unexpected 2: bert.encoder.layer.7.output.dense.{weight, bias}"));
    EXPECT_TRUE(has(error, "\"bert.embeddings.LayerNorm.bias\" is (4,), the model expects (2,)"));
  }
  EXPECT_TRUE(has(refused({{"conv1.weight", at::ones({1})}}, rules()),
                  "no tensor in it belongs to the model"));
  EXPECT_TRUE(has(refused({}, rules()), "holds no tensors"));
}

TEST(load_state, floating_types_are_converted_and_integers_are_not_weights) {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    StateDict state;
    for (const auto& [name, tensor] : file(same)) state.insert(name, tensor.to(type));
    const auto targets = model();
    load_state(state, targets, rules(), "f");
    expect_filled(targets);
    EXPECT_EQ(targets[0].second.scalar_type(), at::kFloat);
  }
  StateDict state = file(same);
  state.set("classifier.bias", at::ones({3}, at::kChar));
  EXPECT_TRUE(
      has(refused(state, rules()), "\"classifier.bias\" is int8, the model expects float32"));
}

TEST(load_state, parameters_that_need_gradients_are_filled_without_a_graph) {
  const NamedTensors targets{{"w", at::zeros({2}).set_requires_grad(true)}};
  const auto version = targets[0].second._version();
  load_state({{"w", at::ones({2})}}, targets, {}, "f");
  EXPECT_GT(targets[0].second._version(), version);
  EXPECT_TRUE(targets[0].second.is_leaf() && targets[0].second.requires_grad());
  EXPECT_EQ(hex(targets[0].second), hex(at::ones({2})));
}

TEST(load_state, of_tied_tensors_either_name_is_enough) {
  const at::Tensor shared = at::zeros({2});
  const NamedTensors targets{{"embeddings.weight", shared}, {"decoder.weight", shared}};
  for (const char* name : {"embeddings.weight", "decoder.weight"}) {
    shared.zero_();
    EXPECT_TRUE(load_state({{name, at::ones({2})}}, targets, {}, "f").new_tensors.empty());
    EXPECT_EQ(hex(shared), hex(at::ones({2})));
  }
}

}  // namespace
}  // namespace yoke
