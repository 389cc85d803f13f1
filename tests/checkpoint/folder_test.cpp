// Folders: found by path or name, read in every layout, written whole or not at all.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "support.h"
#include "yoke/checkpoint/hf_folder.h"
#include "yoke/checkpoint/model_folder.h"
#include "yoke/checkpoint/safetensors.h"

namespace yoke {
namespace {

namespace fs = std::filesystem;

// Sets an environment variable, or unsets it, until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Environment() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_file(path, text, "test");
}

std::string resolve_error(const std::string& name) {
  return error_of([&] { resolve_model(name); });
}

TEST(resolve_model, a_path_is_a_folder_with_a_model) {
  TemporaryFolder t;
  write(t / "m/config.json", "{}");
  EXPECT_EQ(resolve_model(t / "m").path, t / "m");
  write(t / "w/pytorch_model.bin", "x");
  EXPECT_EQ(resolve_model(t / "w").path, t / "w");
  write(t / "other/readme.md", "x");
  EXPECT_TRUE(has(resolve_error(t / "other"), "neither config.json nor weights (only readme.md)"));
  fs::create_directory(t / "empty");
  EXPECT_TRUE(has(resolve_error(t / "empty"), "the folder is empty"));
  write(t / "run/checkpoint-10/config.json", "{}");
  EXPECT_TRUE(has(resolve_error(t / "run"),
                  "Try: a checkpoint in it: " + (t / "run/checkpoint-10").string()));
  EXPECT_TRUE(has(resolve_error(t / "m/config.json"), "is a file, a model is a folder"));
  EXPECT_TRUE(has(resolve_error(t / "nowhere"), "no such folder"));
  EXPECT_TRUE(has(resolve_error(""), "no model is named"));
}

TEST(resolve_model, a_name_is_looked_up_in_the_hugging_face_cache) {
  TemporaryFolder t;
  const Environment a("HF_HUB_CACHE", nullptr), b("HUGGINGFACE_HUB_CACHE", nullptr),
      c("HF_HOME", nullptr), d("XDG_CACHE_HOME", nullptr), home("HOME", t.path().c_str());
  EXPECT_EQ(hub_cache(), t / ".cache/huggingface/hub");
  const Environment e("HF_HOME", (t / "home").c_str());
  EXPECT_EQ(hub_cache(), t / "home/hub");
  const Environment f("HF_HUB_CACHE", (t / "hub").c_str());
  EXPECT_EQ(hub_cache(), t / "hub");

  const std::string absent = resolve_error("bert-base-uncased");
  EXPECT_TRUE(has(absent, "hf download bert-base-uncased"));
  EXPECT_TRUE(has(absent, (t / "hub").string()));
  EXPECT_TRUE(has(absent, fs::current_path().string()));

  write(t / "hub/models--bert-base-uncased/refs/main", "abc123\n");
  write(t / "hub/models--bert-base-uncased/snapshots/abc123/config.json", "{}");
  write(t / "hub/models--bert-base-uncased/snapshots/old/config.json", "{}");
  EXPECT_EQ(resolve_model("bert-base-uncased").path,
            t / "hub/models--bert-base-uncased/snapshots/abc123");
  EXPECT_TRUE(has(resolve_error("bert-base-uncase"), "\"bert-base-uncased\", which is there"));
  write(t / "hub/models--org--small.v1/refs/main", "def");
  write(t / "hub/models--org--small.v1/snapshots/def/config.json", "{}");
  EXPECT_EQ(resolve_model("org/small.v1").path, t / "hub/models--org--small.v1/snapshots/def");
  // A download that broke off: a link without its blob, a reference without its snapshot.
  fs::create_symlink("../../blobs/gone",
                     t / "hub/models--org--small.v1/snapshots/def/model.safetensors");
  EXPECT_TRUE(has(resolve_error("org/small.v1"), "the download is incomplete"));
  write(t / "hub/models--org--small.v1/refs/main", "../../../../etc");
  EXPECT_TRUE(has(resolve_error("org/small.v1"), "no complete snapshot"));
  for (const char* name : {"../x", "a/b/c", "/x", "a b", "x/", "../../no/such"})
    EXPECT_TRUE(has(resolve_error(name), "no such folder")) << name;
}

TEST(read_weights, shards_are_complete_and_inside_the_folder) {
  TemporaryFolder t;
  const auto index = [&](const std::string& map) {
    write(t / "m/model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + map + "}");
    return error_of([&] { read_weights(resolve_model(t / "m")); });
  };
  fs::create_directories(t / "m");
  write_safetensors(t / "m/one.safetensors", {{"a", at::ones({1})}});
  write_safetensors(t / "m/two.safetensors", {{"b", at::zeros({1})}});
  EXPECT_EQ(index(R"({"a":"one.safetensors","b":"two.safetensors"})"), "");
  EXPECT_EQ(read_weights(resolve_model(t / "m")).size(), 2u);
  EXPECT_TRUE(has(index(R"({"a":"one.safetensors","b":"three.safetensors"})"),
                  "1 of 2 shards are missing: three.safetensors"));
  EXPECT_TRUE(has(index(R"({"a":"one.safetensors","c":"two.safetensors"})"),
                  "its shards lack 1 of the tensors that it lists: c"));
  for (const char* trick :
       {"../one.safetensors", "/etc/passwd", "..", "", "a/b", "a\\\\b", "a\\u0000b"})
    EXPECT_TRUE(has(index(std::string(R"({"a":")") + trick + "\"}"), "no plain file name"))
        << trick;
  EXPECT_TRUE(has(index(R"({"a":1})"), "has no file"));
  EXPECT_TRUE(has(index("[]"), "no weight_map"));
  EXPECT_TRUE(has(index("{"), "not valid JSON at byte"));
  EXPECT_TRUE(has(index(std::string(100000, '[')), "nested deeper"));
  write_safetensors(t / "m/two.safetensors", {{"a", at::ones({1})}});
  EXPECT_TRUE(
      has(index(R"({"a":"one.safetensors","b":"two.safetensors"})"), "is in another shard too"));
}

TEST(read_weights, without_weights_it_says_what_it_looked_for) {
  TemporaryFolder t;
  write(t / "m/config.json", "{}");
  const auto error = [&] { return error_of([&] { read_weights(resolve_model(t / "m")); }); };
  EXPECT_TRUE(has(error(),
                  "looked for model.safetensors, model.safetensors.index.json, pytorch_model.bin"));
  write(t / "m/tf_model.h5", "x");
  EXPECT_TRUE(has(error(), "tf_model.h5 is of another framework"));
  write(t / "m/pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_TRUE(has(error(), "Git LFS pointer"));
}

TEST(read_config, the_configuration_is_an_object) {
  TemporaryFolder t;
  const auto error = [&] { return error_of([&] { read_config(resolve_model(t / "m")); }); };
  write(t / "m/model.safetensors", "x");
  EXPECT_TRUE(has(error(), "no config.json"));
  write(t / "m/config.json", "[]");
  EXPECT_TRUE(has(error(), "not a JSON object"));
  write(t / "m/config.json", "{\"a\":");
  EXPECT_TRUE(has(error(), "config.json: not valid JSON"));
}

TEST(save_model_folder, what_is_not_yokes_is_left_alone_and_file_names_are_plain) {
  TemporaryFolder t;
  const StateDict state{{"a", at::ones({1})}};
  save_model_folder(t / "out", state, {{"x", 1}}, {});
  EXPECT_TRUE(has(error_of([&] { save_model_folder(t / "out", state, {}, {}); }), "--overwrite"));
  write(t / "out/notes.txt", "mine");
  save_model_folder(t / "out", {{"b", at::ones({1})}}, {{"x", 2}}, {}, {.overwrite = true});
  EXPECT_EQ(read_file(t / "out/notes.txt", "test"), "mine");
  EXPECT_EQ(read_weights(resolve_model(t / "out")).names(), std::vector<std::string>{"b"});
  EXPECT_EQ(read_config(resolve_model(t / "out"))["x"], 2);
  for (const char* name :
       {"../x", "a/b", "", "..", "config.json", "model.safetensors", "yoke.json"})
    EXPECT_NE(error_of([&] { save_model_folder(t / "no", state, {}, {{name, "x"}}); }), "") << name;
  EXPECT_TRUE(has(error_of([&] {
                    save_model_folder(t / "no", {{"c", at::ones({1}, at::kComplexDouble)}}, {}, {});
                  }),
                  "tensor \"c\" is complex128, which safetensors cannot hold"));
  EXPECT_FALSE(fs::exists(t / "no"));
}

TEST(save_model_folder, a_file_that_is_mapped_can_be_replaced_by_itself) {
  TemporaryFolder t;
  save_model_folder(t / "out", {{"a", at::ones({1000})}}, {}, {});
  const StateDict mapped = read_weights(resolve_model(t / "out"));
  save_model_folder(t / "out", mapped, {}, {}, {.overwrite = true});
  write_safetensors(t / "out/model.safetensors", mapped);
  EXPECT_EQ(hex(mapped.at("a")), hex(at::ones({1000})));
  EXPECT_EQ(hex(read_weights(resolve_model(t / "out")).at("a")), hex(at::ones({1000})));
}

// What is in the folder and beside it, with all bytes.
std::map<std::string, std::string> everything(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    files[fs::relative(entry.path(), folder)] =
        entry.is_directory() ? "" : read_file(entry.path(), "test");
  return files;
}

TEST(save_model_folder, a_write_that_fails_leaves_the_old_state) {
  TemporaryFolder t;
  save_model_folder(t / "out", {{"a", at::ones({10})}}, {}, {});
  const auto before = everything(t.path());
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100'000, old.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string folder_error, file_error;
  const StateDict big{{"a", at::ones({100'000})}};
  folder_error = error_of([&] { save_model_folder(t / "out", big, {}, {}, {.overwrite = true}); });
  file_error = error_of([&] { write_safetensors(t / "out/model.safetensors", big); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(has(folder_error, (t / "out/model.safetensors").string() +
                                    ": cannot write (File too large). Try: free space"));
  EXPECT_TRUE(
      has(file_error, (t / "out/model.safetensors").string() + ": cannot write (File too large)"));
  EXPECT_EQ(everything(t.path()), before);
}

TEST(save_model_folder, a_full_disk_leaves_the_old_state) {
  TemporaryFolder t;
  fs::create_directory(t / "disk");
  if (::mount("tmpfs", (t / "disk").c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "may not mount a small disk";
  struct Unmount {
    fs::path path;
    ~Unmount() { ::umount(path.c_str()); }
  } unmount{t / "disk"};
  save_model_folder(t / "disk/out", {{"a", at::ones({1000})}}, {}, {});
  const auto before = everything(t / "disk");
  for (const int64_t shard : {int64_t{5'000'000'000}, int64_t{200'000}}) {
    StateDict big;
    for (const char* name : {"a", "b", "c", "d"}) big.insert(name, at::ones({100'000}));
    const std::string error = error_of([&] {
      save_model_folder(t / "disk/out", big, {}, {}, {.overwrite = true, .max_shard_size = shard});
    });
    EXPECT_TRUE(has(error, "No space left on device"));
    EXPECT_TRUE(has(error, "free space on that disk"));
    EXPECT_EQ(everything(t / "disk"), before);
  }
}

TEST(python_json, is_sorted_and_indented_as_transformers_does) {
  EXPECT_EQ(
      python_json({{"b", 1e-12}, {"a", Json::array()}, {"id2label", {{"10", "x"}, {"2", "é"}}}}),
      "{\n  \"a\": [],\n  \"b\": 1e-12,\n  \"id2label\": {\n    \"2\": \"\\u00e9\",\n    \"10\": "
      "\"x\"\n  }\n}\n");
}

}  // namespace
}  // namespace yoke
