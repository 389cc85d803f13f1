// Tokenizer: MB/s of text on one thread, with and without offsets, and the time to load a folder.
//
//   YOKE_BENCH_TOKENIZER=FOLDER YOKE_BENCH_TEXT=FILE build/bin/bench_tokenizer
//
// FOLDER: a BERT with tokenizer.json. FILE: a text a line (SST-2's train.tsv); what stands behind a
// tab is left out. benchmarks/tokenizer_peer.py measures Hugging Face tokenizers on the same lines.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "yoke/tokenizers/tokenizer.h"

namespace {

const char* need(benchmark::State& state, const char* name) {
  const char* value = std::getenv(name);
  if (!value) state.SkipWithError((std::string("set ") + name).c_str());
  return value;
}

void encode(benchmark::State& state) {
  const char* folder = need(state, "YOKE_BENCH_TOKENIZER");
  const char* file = need(state, "YOKE_BENCH_TEXT");
  if (!folder || !file) return;
  std::vector<std::string> lines;
  std::ifstream stream(file);
  int64_t bytes = 0;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line.substr(0, line.find('\t')));
    bytes += int64_t(lines.back().size());
  }
  const auto tokenizer = yoke::Tokenizer::from_folder(folder);
  for (auto _ : state)
    for (const std::string& line : lines)
      benchmark::DoNotOptimize(tokenizer.encode(line, {.offsets = state.range(0) != 0}));
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(encode)->ArgName("offsets")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void load(benchmark::State& state) {
  const char* folder = need(state, "YOKE_BENCH_TOKENIZER");
  if (!folder) return;
  for (auto _ : state) benchmark::DoNotOptimize(yoke::Tokenizer::from_folder(folder));
}
BENCHMARK(load)->Unit(benchmark::kMillisecond);

}  // namespace
