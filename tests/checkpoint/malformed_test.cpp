// Whatever a file says: an error that names it, or tensors; never a crash.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "support.h"
#include "yoke/checkpoint/pickle_vm_impl.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/checkpoint/torch_file.h"

namespace yoke {
namespace {

using namespace std::string_literals;

std::string bytes_of_u64(uint64_t value) { return {reinterpret_cast<const char*>(&value), 8}; }
std::string bytes_of_u32(uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }
std::string bytes_of_u16(uint16_t value) { return {reinterpret_cast<const char*>(&value), 2}; }

class Malformed : public testing::Test {
 protected:
  std::string safetensors(const std::string& header, size_t data) {
    return refused("x.safetensors", bytes_of_u64(header.size()) + header + std::string(data, '\1'));
  }
  // The error, which has to name the file.
  std::string refused(const std::string& name, const std::string& bytes) {
    const std::string error = read(name, bytes);
    EXPECT_TRUE(has(error, (folder_ / name).string() + ": "));
    return error;
  }
  std::string read(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes, "test");
    return error_of([&] {
      const StateDict state = name.ends_with("safetensors") ? read_safetensors(folder_ / name)
                                                            : read_torch_file(folder_ / name);
      // Touch everything that was promised.
      for (const auto& [tensor_name, tensor] : state) hex(tensor);
    });
  }
  TemporaryFolder folder_;
};

TEST_F(Malformed, a_safetensors_header_is_checked_throughout) {
  const auto one = [&](const std::string& fields, size_t data = 8) {
    return safetensors("{\"a.b\":{" + fields + "}}", data);
  };
  EXPECT_EQ(read("ok.safetensors", bytes_of_u64(54) +
                                       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" +
                                       "12345678"),
            "");
  EXPECT_TRUE(has(refused("e.safetensors", ""), "not a safetensors file: the file is empty"));
  EXPECT_TRUE(has(refused("e.safetensors", "hello"), "only 5 bytes"));
  EXPECT_TRUE(has(refused("e.safetensors", "hello world, hello"), "not a safetensors file"));
  EXPECT_TRUE(has(refused("e.safetensors", "<!DOCTYPE html><html>"), "it is a web page"));
  EXPECT_TRUE(has(refused("e.safetensors", "version https://git-lfs.github.com/spec/v1\noid"),
                  "Git LFS pointer"));
  EXPECT_TRUE(has(refused("e.safetensors", bytes_of_u64(uint64_t{1} << 60) + "{}"),
                  "not a safetensors file: the header would be 1152921504606846976 bytes long"));
  EXPECT_TRUE(has(refused("e.safetensors", bytes_of_u64(1000) + "{}"),
                  "truncated: the header alone asks for 1008 bytes, the file has 10. Try: download "
                  "or copy the file again"));
  EXPECT_TRUE(
      has(one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"),
          "truncated: the header asks for 81 bytes, the file has 73 (tensor \"a.b\" is cut off)"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
                  "tensor \"a.b\" has 8 bytes, its shape (3,) of F32 takes 12"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"),
                  "goes on for 4 bytes after its last tensor"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
                  "begins at byte 4 of the data, after a gap"));
  EXPECT_TRUE(
      has(one(R"("dtype":"F32","shape":[1],"data_offsets":[8,4])"), "ends before it begins"));
  EXPECT_TRUE(
      has(one(R"("dtype":"F99","shape":[2],"data_offsets":[0,8])"), "unknown dtype \"F99\""));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[4294967296,4294967296,16],"data_offsets":[0,8])"),
                  "impossible shape"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
                  "impossible shape"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
                  "impossible size"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])"), "a negative number"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"), "a fraction"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), "a string"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "an array"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551608])"),
                  "its shape (2,) of F32 takes 8"));
  EXPECT_TRUE(has(
      one(R"("dtype":"F32","shape":[2],"data_offsets":[18446744073709551600,18446744073709551608])"),
      "more than 2^64"));
  EXPECT_TRUE(
      has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,16])"), "needs two data_offsets"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","data_offsets":[0,8])"), "has no shape"));
  EXPECT_TRUE(has(one(R"("shape":[2],"data_offsets":[0,8])"), "has no dtype"));
  EXPECT_TRUE(has(one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
                  "has \"dtype\" twice"));
  EXPECT_TRUE(has(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", 1), "odd shape"));
  EXPECT_TRUE(has(
      safetensors(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      "\"a\" is there twice"));
  EXPECT_TRUE(has(
      safetensors(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      "inside another tensor"));
  EXPECT_TRUE(has(safetensors(R"({"a":1})", 0), "\"a\" is a number, not a tensor"));
  EXPECT_TRUE(
      has(safetensors(R"({"__metadata__":{"a":1}})", 0), "__metadata__ has a number as \"a\""));
  EXPECT_TRUE(has(safetensors(R"({"a":{"dtype")", 0), "not valid JSON at byte"));
  EXPECT_TRUE(has(safetensors("{\"a\":{\"new\":" + std::string(10000, '['), 0), "nested deeper"));
  EXPECT_TRUE(has(safetensors("[]", 0), "there is no JSON header"));
  EXPECT_TRUE(has(safetensors("{\"a\":\"\xff\"}", 0), "not valid JSON"));
}

TEST_F(Malformed, what_later_versions_may_add_and_odd_alignment_are_accepted) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"new":{"x":[1,"y",{}]}},"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}} )";
  write_file(folder_ / "u.safetensors", bytes_of_u64(header.size()) + header + "\1\0\0\x80\x3f"s,
             "test");
  Metadata metadata;
  const StateDict state = read_safetensors(folder_ / "u.safetensors", &metadata);
  EXPECT_EQ(state.at("a").item<float>(), 1.0f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(state.at("a").const_data_ptr()) % 4, 0u);
  EXPECT_EQ(metadata, (Metadata{{"format", "pt"}}));
}

// --- torch.save ---

std::string unicode(const std::string& text) {
  return "X" + bytes_of_u32(uint32_t(text.size())) + text;
}
std::string integer(int64_t value) { return "\x8a\x08"s + bytes_of_u64(uint64_t(value)); }

std::string storage(const std::string& type, const std::string& key, int64_t numel) {
  return "(" + unicode("storage") + "ctorch\n" + type + "\n" + unicode(key) + unicode("cpu") +
         integer(numel) + "tQ";
}

// {"w": _rebuild_tensor_v2(storage, offset, (size,), (stride,), False, {})}
std::string pickle(int64_t numel, int64_t offset, int64_t size, int64_t stride,
                   const std::string& type = "FloatStorage") {
  return "\x80\x02}"s + unicode("w") + "ctorch._utils\n_rebuild_tensor_v2\n(" +
         storage(type, "0", numel) + integer(offset) + integer(size) + "\x85" + integer(stride) +
         "\x85\x89}tRs.";
}

// An archive of stored records, as small as the format allows.
std::string zip(const std::vector<std::pair<std::string, std::string>>& records,
                uint16_t method = 0) {
  std::string out, directory;
  for (const auto& [name, bytes] : records) {
    const std::string sizes = bytes_of_u32(0) + bytes_of_u32(uint32_t(bytes.size())) +
                              bytes_of_u32(uint32_t(bytes.size()));
    const std::string head = bytes_of_u16(20) + bytes_of_u16(0) + bytes_of_u16(method) +
                             bytes_of_u32(0) + sizes + bytes_of_u16(uint16_t(name.size())) +
                             bytes_of_u16(0);
    directory += bytes_of_u32(0x02014b50) + bytes_of_u16(20) + head + bytes_of_u16(0) +
                 bytes_of_u16(0) + bytes_of_u16(0) + bytes_of_u32(0) +
                 bytes_of_u32(uint32_t(out.size())) + name;
    out += bytes_of_u32(0x04034b50) + head + name + bytes;
  }
  const auto count = bytes_of_u16(uint16_t(records.size()));
  return out + directory + bytes_of_u32(0x06054b50) + bytes_of_u32(0) + count + count +
         bytes_of_u32(uint32_t(directory.size())) + bytes_of_u32(uint32_t(out.size())) +
         bytes_of_u16(0);
}

std::string torch_file(const std::string& data_pkl,
                       const std::string& data = std::string(16, '\0')) {
  return zip({{"a/data.pkl", data_pkl}, {"a/data/0", data}});
}

TEST_F(Malformed, a_tensor_lies_inside_its_storage) {
  EXPECT_EQ(read("ok.pth", torch_file(pickle(4, 1, 3, 1))), "");
  EXPECT_EQ(read("ok.pth", torch_file(pickle(4, 3, 2, 0))), "");
  EXPECT_EQ(read("ok.pth", torch_file(pickle(4, 9, 0, 1))), "");
  const auto error = [&](const std::string& p) { return refused("x.pth", torch_file(p)); };
  EXPECT_TRUE(has(error(pickle(4, 0, 5, 1)),
                  "tensor \"w\" of shape (5,) reaches beyond its storage of 16 bytes"));
  EXPECT_TRUE(has(error(pickle(4, 2, 3, 1)), "reaches beyond"));
  EXPECT_TRUE(has(error(pickle(4, -1, 2, 1)), "reaches beyond"));
  EXPECT_TRUE(has(error(pickle(4, 0, 2, INT64_MAX)), "reaches beyond"));
  EXPECT_TRUE(has(error(pickle(4, INT64_MAX, 2, 1)), "reaches beyond"));
  EXPECT_TRUE(has(error(pickle(4, 3, 2, -1)), "negative stride"));
  EXPECT_TRUE(has(error(pickle(4, 0, -2, 1)), "impossible shape"));
  EXPECT_TRUE(has(error(pickle(4, 0, INT64_MAX, 1)), "impossible shape"));
  EXPECT_TRUE(has(error(pickle(4, 0, int64_t{1} << 40, 0)), "repeats a storage of only 16 bytes"));
  EXPECT_TRUE(has(error(pickle(5, 0, 4, 1)), "storage \"0\" has 16 bytes, the pickle says 20"));
  EXPECT_TRUE(has(error(pickle(INT64_MAX, 0, 4, 1)), "impossible size"));
  EXPECT_TRUE(has(error(pickle(4, 0, 4, 1, "EvilStorage")), "unknown type torch.EvilStorage"));
}

TEST_F(Malformed, a_pickle_runs_nothing_and_unknown_globals_are_named) {
  const std::string evil =
      "cposix\nsystem\n(" + unicode("touch " + (folder_ / "owned").string()) + "tR";
  EXPECT_TRUE(has(refused("x.pth", torch_file("\x80\x02"s + evil + ".")),
                  "holds a posix.system, which is not a state dict (nothing was run)"));
  const std::string beside =
      "\x80\x02}"s + unicode("e") + evil + "s" + unicode("w") + pickle(4, 0, 4, 1).substr(3 + 6);
  EXPECT_TRUE(has(refused("x.pth", torch_file(beside)), "\"e\" holds a posix.system"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "owned"));
  EXPECT_TRUE(has(refused("x.pth", torch_file("\x80\x02}"s + unicode("w") +
                                              "ctorch._utils\n_rebuild_qtensor\n)Rs.")),
                  "torch._utils._rebuild_qtensor, which is not a dense tensor"));
  EXPECT_TRUE(has(refused("x.pth", torch_file("\x80\x02K\1.")), "holds no tensors by name"));
  EXPECT_TRUE(
      has(refused("x.pth", torch_file("\x80\x02}"s + unicode("epoch") + "K\1s.")), "only epoch"));
}

TEST_F(Malformed, several_state_dicts_are_listed_and_one_is_chosen) {
  const std::string w = pickle(4, 0, 4, 1).substr(2), dict = w.substr(0, w.size() - 1);
  const std::string both =
      "\x80\x02}"s + unicode("model") + dict + "s" + unicode("ema") + dict + "s.";
  EXPECT_TRUE(has(refused("x.pth", torch_file(both)),
                  "several state dicts: \"model\", \"ema\". Try: .key = \"model\""));
  EXPECT_EQ(read_torch_file(folder_ / "x.pth", {.key = "ema"}).names(),
            std::vector<std::string>{"w"});
  EXPECT_TRUE(
      has(error_of([&] { read_torch_file(folder_ / "x.pth", {.key = "no"}); }), "no entry \"no\""));
}

TEST_F(Malformed, pickles_that_nest_loop_or_lie_end_in_an_error) {
  const auto parse = [&](const std::string& p) { return refused("x.pth", torch_file(p)); };
  for (const char* deep : {"(", "]", "}", "\x85", "\x81", "2", "Q", "b", "R"}) {
    std::string p = "\x80\x02]"s;
    for (int i = 0; i < 100'000; ++i) p += deep;
    parse(p + ".");
  }
  // A dictionary that holds itself, and a model whose child is itself.
  parse("\x80\x02}q\0"s + unicode("x") + "h\0s."s);
  parse(
      "\x80\x02"
      "cm\nM\n)\x81q\0}"s +
      unicode("_parameters") + "}s" + unicode("_modules") + "}" + unicode("c") + "h\0ssb."s);
  for (const std::string& p : {""s,
                               "."s,
                               "\x80"s,
                               "\x80\x09."s,
                               "h\5."s,
                               "t."s,
                               "X\xff\xff\xff\xff."s,
                               "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s,
                               "\x8b\xff\xff\xff\x7f."s,
                               "K\1K\2s."s,
                               "K\1a."s,
                               "Ix\n."s,
                               "F\n."s,
                               "S'x\n."s,
                               "cfoo"s,
                               "\xff."s,
                               "N"s,
                               "NNb."s,
                               "p\n."s,
                               "gx\n."s,
                               "(K\1u."s})
    EXPECT_NE(parse("\x80\x02"s + p), "");
}

TEST_F(Malformed, an_archive_is_checked_throughout) {
  const std::string good = torch_file(pickle(4, 0, 4, 1));
  EXPECT_TRUE(has(refused("x.pth", good.substr(0, good.size() / 2)),
                  "truncated: the zip archive has no directory"));
  EXPECT_TRUE(has(refused("x.pth", ""), "the file is empty"));
  EXPECT_TRUE(has(refused("x.pth", "hello world"), "not a file of torch.save"));
  EXPECT_TRUE(has(refused("x.pth", "<html>"), "web page"));
  EXPECT_TRUE(has(refused("x.pth", "\x80\x02}."), "not one that torch.save wrote"));
  EXPECT_TRUE(
      has(refused("x.pth",
                  zip({{"a/data.pkl", pickle(4, 0, 4, 1)}, {"a/data/0", std::string(16, 'x')}}, 8)),
          "is compressed"));
  EXPECT_TRUE(
      has(refused("x.pth", zip({{"a/data.pkl", pickle(4, 0, 4, 1)}})), "no record \"a/data/0\""));
  EXPECT_TRUE(has(refused("x.pth", zip({{"a/data.pkl", ""}, {"a/data.pkl", ""}})), "twice"));
  EXPECT_TRUE(has(refused("x.pth", zip({{"mimetype", "x"}})), "not one that torch.save wrote"));
  EXPECT_TRUE(
      has(refused("x.pth", zip({{"a/data.pkl", ""}, {"a/constants.pkl", ""}})), "TorchScript"));
  EXPECT_TRUE(
      has(refused("x.pth", zip({{"a/data.pkl", ""}, {"a/byteorder", "big"}})), "big-endian"));
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s,
                    version = "\x80\x02M\xe9\x03."s, machine = "\x80\x02}."s;
  const std::string keys = "\x80\x02]"s + unicode("0") + "a.";
  EXPECT_EQ(read("l.pth", magic + version + machine + pickle(4, 0, 4, 1) + keys + bytes_of_u64(4) +
                              std::string(16, 'x')),
            "");
  EXPECT_TRUE(has(refused("l.pth", magic + version + machine + pickle(4, 0, 4, 1) + keys +
                                       bytes_of_u64(4) + "x"),
                  "truncated: storage \"0\" asks for 4 elements"));
  EXPECT_TRUE(has(refused("l.pth", magic + version + machine + pickle(4, 0, 4, 1) + keys +
                                       bytes_of_u64(UINT64_MAX) + "x"),
                  "truncated"));
  EXPECT_TRUE(has(refused("l.pth", magic + version + machine + pickle(4, 0, 4, 1) + "\x80\x02]."),
                  "storage \"0\" is missing"));
  EXPECT_TRUE(has(refused("l.pth", magic + "\x80\x02K\1." + machine), "unknown version"));
  EXPECT_TRUE(has(refused("l.pth", magic), "it ends in the middle"));
  EXPECT_TRUE(has(refused("l.pth", magic + version + "\x80\x02}"s + unicode("little_endian") +
                                       "\x89s." + pickle(4, 0, 4, 1)),
                  "big-endian"));
}

// Each mutated file loads or is refused; what is loaded can be read.
TEST_F(Malformed, no_mutation_of_a_good_file_crashes) {
  const char* soak = std::getenv("YOKE_SOAK");
  const int rounds = soak && *soak == '1' ? 100'000 : 2'000;
  write_safetensors(folder_ / "seed.safetensors",
                    {{"a.weight", at::arange(6, at::kFloat).reshape({2, 3})},
                     {"b", at::ones({3}, at::kLong)},
                     {"empty", at::ones({0, 2})}});
  const std::string legacy =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}."s +
      pickle(4, 1, 3, 1) + "\x80\x02]"s + unicode("0") + "a." + bytes_of_u64(4) +
      std::string(16, 'x');
  const std::pair<std::string, std::string> seeds[] = {
      {"m.safetensors", read_file(folder_ / "seed.safetensors", "test")},
      {"m.pth", torch_file(pickle(4, 1, 3, 1))},
      {"m.bin", legacy}};
  std::cout << "soak: " << std::size(seeds) * size_t(rounds) << " mutated files\n";
  std::mt19937_64 random(42);
  for (const auto& [name, seed] : seeds) {
    int loaded = 0;
    for (int round = 0; round < rounds; ++round) {
      std::string bytes = seed;
      for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
        const size_t at = random() % bytes.size();
        switch (random() % 6) {
          case 0:
            bytes[at] = char(random());
            break;
          case 1:
            bytes[at] = char(bytes[at] ^ (1 << random() % 8));
            break;
          case 2:
            bytes.erase(at, 1 + random() % 8);
            break;
          case 3:
            bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
            break;
          case 4:
            bytes.replace(at, 1,
                          bytes_of_u64(random() % 3 ? UINT64_MAX : uint64_t{1} << random() % 64));
            break;
          default:
            bytes.resize(at);
            break;
        }
        if (bytes.empty()) bytes = "x";
      }
      // A new file each time, unflushed: thousands of flushes would take minutes, and ext4 flushes
      // a file that is truncated and rewritten.
      std::filesystem::remove(folder_ / name);
      FILE* file = std::fopen((folder_ / name).c_str(), "wb");
      std::fwrite(bytes.data(), 1, bytes.size(), file);
      std::fclose(file);
      const std::string error = error_of([&] {
        for (const auto& [tensor_name, tensor] : name.ends_with("safetensors")
                                                     ? read_safetensors(folder_ / name)
                                                     : read_torch_file(folder_ / name))
          hex(tensor);
      });
      loaded += error.empty();
      if (!error.empty()) {
        ASSERT_TRUE(has(error, name));
      }
    }
    EXPECT_GT(loaded, rounds / 200) << name;  // the mutations are not all blunt
    EXPECT_LT(loaded, rounds) << name;
  }
}

}  // namespace
}  // namespace yoke
