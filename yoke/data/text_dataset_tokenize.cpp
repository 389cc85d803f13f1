#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "yoke/core/error.h"
#include "yoke/data/text_dataset_impl.h"

namespace yoke {

void encode_rows(int64_t rows, int threads, const std::function<void(int64_t)>& encode,
                 const std::function<std::string(int64_t)>& describe) {
  constexpr int64_t stretch = 64;  // rows a thread takes at a time
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> failed_row{rows};  // rows behind it need no work any more
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (int64_t begin = next.fetch_add(stretch); begin < rows; begin = next.fetch_add(stretch)) {
      const int64_t end = std::min(begin + stretch, rows);
      for (int64_t row = begin; row < end && row < failed_row; ++row) {
        try {
          encode(row);
        } catch (...) {
          const std::lock_guard lock(mutex);  // the first row's, whatever thread was faster
          if (row < failed_row) {
            failed_row = row;
            failure = std::current_exception();
          }
        }
      }
    }
  };

  // Own threads: OpenMP's would keep the caller's pool, and tokenising must not change it.
  const int64_t wanted = threads > 0 ? threads : at::get_num_threads();
  const int64_t useful = std::min(wanted, (rows + stretch - 1) / stretch);
  {
    std::vector<std::jthread> helpers;
    for (int64_t i = 1; i < useful; ++i) helpers.emplace_back(work);
    work();
  }
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(error.where(), describe(failed_row) + ": " + error.message(), error.hint());
  }
}

TokenizedRows tokenize(const TextDataset& data, const Tokenizer& tokenizer, int64_t max_length,
                       int threads) {
  const bool pairs = !data.pairs.empty();
  TokenizedRows rows;
  rows.input_ids.resize(size_t(data.rows()));
  if (pairs) rows.token_type_ids.resize(size_t(data.rows()));
  const EncodeOptions options{.max_length = max_length};
  std::atomic<int64_t> shortened{0};
  encode_rows(
      data.rows(), threads,
      [&](int64_t row) {
        const auto at = size_t(row);
        Encoding encoding = pairs ? tokenizer.encode_pair(data.texts[at], data.pairs[at], options)
                                  : tokenizer.encode(data.texts[at], options);
        if (encoding.truncated) ++shortened;
        rows.input_ids[at] = std::move(encoding.ids);
        if (pairs) rows.token_type_ids[at] = std::move(encoding.type_ids);
      },
      [&](int64_t row) {
        return data.file.empty() ? "text " + std::to_string(data.source_rows[size_t(row)])
                                 : data.describe(row);
      });
  rows.shortened = shortened;
  return rows;
}

}  // namespace yoke
