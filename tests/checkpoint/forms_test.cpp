// Every form that Python writes, and what Python makes of ours.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "support.h"
#include "yoke/checkpoint/dtypes_impl.h"
#include "yoke/checkpoint/hf_folder.h"
#include "yoke/checkpoint/model_folder.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/checkpoint/torch_file.h"
#include "yoke/core/json.h"

namespace yoke {
namespace {

Json describe(const StateDict& state) {
  Json out = Json::object();
  for (const auto& [name, tensor] : state)
    out[name] = {dtype_name(tensor.scalar_type()), tensor.sizes().vec(), hex(tensor)};
  return out;
}

void python_to_yoke(const TemporaryFolder& folder) {
  const Json truth = read_json(folder / "truth.json", "test");
  ASSERT_GT(truth.size(), 40u);
  for (const auto& [form, want] : truth.items()) {
    SCOPED_TRACE(form);
    StateDict state;
    const std::string error = error_of([&] {
      state = want.contains("file")
                  ? read_weights_file(folder / want["file"].get<std::string>())
                  : read_weights(resolve_model(folder / want["folder"].get<std::string>()));
    });
    ASSERT_EQ(error, "");
    const Json& tensors = want["tensors"];
    EXPECT_EQ(state.size(), tensors.size());
    for (const auto& [name, facts] : tensors.items()) {
      const at::Tensor* tensor = state.find(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(dtype_name(tensor->scalar_type()), facts[0]) << name;
      EXPECT_EQ(tensor->sizes().vec(), facts[1].get<std::vector<int64_t>>()) << name;
      EXPECT_EQ(hex(*tensor), facts[2].get<std::string>()) << name;
    }
  }

  // Tensors that shared a storage share it again.
  const StateDict views = read_torch_file(folder / "views_zip.pth");
  EXPECT_EQ(views.at("whole").storage().data(), views.at("row").storage().data());
  const StateDict legacy = read_torch_file(folder / "views_legacy.pth");
  EXPECT_EQ(legacy.at("whole").storage().data(), legacy.at("turned").storage().data());
  // What stood beside is told.
  TorchFileReport report;
  read_torch_file(folder / "nested_zip.pth", {}, &report);
  EXPECT_EQ(report.key, "state_dict");
  read_torch_file(folder / "whole_model_legacy.pth", {}, &report);
  EXPECT_TRUE(report.whole_model);
  EXPECT_EQ(report.format, "legacy");
  // Writing into a loaded tensor changes neither the file nor the process's health.
  read_torch_file(folder / "state_dict_zip.pth").at("classifier.weight").fill_(7);
  EXPECT_EQ(hex(read_torch_file(folder / "state_dict_zip.pth").at("classifier.weight")),
            truth["state dict, zip"]["tensors"]["classifier.weight"][2].get<std::string>());
}

void yoke_to_python(const TemporaryFolder& folder) {
  const StateDict types = read_safetensors(folder / "types.safetensors");
  StateDict state;  // in another order
  const auto names = types.names();
  for (size_t i = names.size(); i-- > 0;) state.insert(names[i], types.at(names[i]));
  state.insert("turned", at::arange(6).reshape({2, 3}).t());
  write_file(folder / "want.json", describe(state).dump(), "test");
  write_safetensors(folder / "types.safetensors", state);

  const ModelFolder model = resolve_model(folder / "classifier");
  const Json config = read_config(model);
  Json shuffled = Json::object();  // sorting is the writer's work
  std::vector<std::string> keys;
  for (const auto& [key, value] : config.items()) keys.push_back(key);
  for (size_t i = keys.size(); i-- > 0;) shuffled[keys[i]] = config[keys[i]];
  const StateDict weights = read_weights(model);
  save_model_folder(folder / "one", weights, shuffled, {{"vocab.txt", "a\nb\n"}});
  save_model_folder(folder / "shards", weights, shuffled, {}, {.max_shard_size = 3000});
  EXPECT_EQ(run_peer("check", folder.path()), "ok");
  EXPECT_EQ(read_file(folder / "one/vocab.txt", "test"), "a\nb\n");
}

// One test: starting Python with transformers takes seconds.
TEST(forms, yoke_reads_what_python_writes_and_python_what_yoke_writes_with_equal_bytes) {
  TemporaryFolder folder;
  const std::string said = run_peer("write", folder.path());
  if (said.empty()) GTEST_SKIP() << "no Python with torch, safetensors and transformers";
  ASSERT_EQ(said, "ok");
  python_to_yoke(folder);
  yoke_to_python(folder);
}

TEST(forms, equal_tensors_give_equal_bytes_whatever_their_order_strides_or_run) {
  TemporaryFolder folder;
  const at::Tensor a = at::randn({3, 4}), b = at::ones({2}, at::kLong);
  write_safetensors(folder / "1.safetensors", {{"b", b}, {"a", a}});
  write_safetensors(folder / "2.safetensors", {{"a", a.t().contiguous().t()}, {"b", b.clone()}});
  EXPECT_EQ(read_file(folder / "1.safetensors", "test"),
            read_file(folder / "2.safetensors", "test"));
  save_model_folder(folder / "x", {{"b", b}, {"a", a}}, {{"z", 1}, {"a", 2}}, {});
  save_model_folder(folder / "y", {{"b", b}, {"a", a}}, {{"a", 2}, {"z", 1}}, {});
  for (const char* file : {"config.json", "model.safetensors", "yoke.json"})
    EXPECT_EQ(read_file(folder.path() / "x" / file, "test"),
              read_file(folder.path() / "y" / file, "test"));
}

TEST(forms, tied_weights_are_written_once_and_flat_buffers_are_not_tied) {
  TemporaryFolder folder;
  const at::Tensor flat = at::arange(6, at::kFloat);
  const StateDict state{{"z.weight", flat.narrow(0, 0, 3)},
                        {"a.weight", flat.narrow(0, 0, 3)},
                        {"next", flat.narrow(0, 3, 3)},
                        {"wide", flat.narrow(0, 0, 4)}};
  Metadata metadata;
  write_safetensors(folder / "f.safetensors", state);
  const StateDict read = read_safetensors(folder / "f.safetensors", &metadata);
  EXPECT_EQ(read.names(), (std::vector<std::string>{"a.weight", "next", "wide"}));
  EXPECT_EQ(metadata.at("z.weight"), "a.weight");
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(hex(read.at("next")), hex(flat.narrow(0, 3, 3)));
  write_safetensors(folder / "p.safetensors", state, {.preferred_names = {"z.weight"}});
  EXPECT_FALSE(read_safetensors(folder / "p.safetensors").contains("a.weight"));
  write_safetensors(folder / "all.safetensors", state, {.tied = TiedWeights::write_all});
  EXPECT_EQ(read_safetensors(folder / "all.safetensors").size(), 4u);
}

TEST(forms, the_trained_resnet_of_2018_loads) {
  const std::string file = std::string(YOKE_SHARED_DIR) + "/fixtures/resnet20-12fca82f.th";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no fixture";
  TorchFileReport report;
  const StateDict state = read_torch_file(file, {}, &report);
  EXPECT_EQ(report.format, "legacy");
  EXPECT_EQ(report.key, "state_dict");
  EXPECT_EQ(state.at("module.conv1.weight").sizes().vec(), (std::vector<int64_t>{16, 3, 3, 3}));
  EXPECT_EQ(state.at("module.linear.weight").sizes().vec(), (std::vector<int64_t>{10, 64}));
}

}  // namespace
}  // namespace yoke
