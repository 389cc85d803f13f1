#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "yoke/core/error.h"
#include "yoke/data/text_dataset.h"

namespace yoke {

TokenizedRows tokenize(const TextDataset& data, const Tokenizer& tokenizer, int64_t max_length,
                       int threads) {
  const bool pairs = !data.pairs.empty();
  TokenizedRows rows;
  rows.input_ids.resize(size_t(data.rows()));
  if (pairs) rows.token_type_ids.resize(size_t(data.rows()));
  const EncodeOptions options{.max_length = max_length};

  constexpr int64_t stretch = 64;  // rows a thread takes at a time
  std::atomic<int64_t> next{0}, shortened{0};
  std::atomic<int64_t> failed_row{data.rows()};  // rows behind it need no work any more
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    int64_t cut = 0;
    for (int64_t begin = next.fetch_add(stretch); begin < data.rows();
         begin = next.fetch_add(stretch)) {
      const int64_t end = std::min(begin + stretch, data.rows());
      for (int64_t row = begin; row < end && row < failed_row; ++row) {
        const auto at = size_t(row);
        try {
          Encoding encoding = pairs ? tokenizer.encode_pair(data.texts[at], data.pairs[at], options)
                                    : tokenizer.encode(data.texts[at], options);
          cut += encoding.truncated;
          rows.input_ids[at] = std::move(encoding.ids);
          if (pairs) rows.token_type_ids[at] = std::move(encoding.type_ids);
        } catch (...) {
          const std::lock_guard lock(mutex);  // the first row's, whatever thread was faster
          if (row < failed_row) {
            failed_row = row;
            failure = std::current_exception();
          }
        }
      }
    }
    shortened += cut;
  };

  // Own threads: OpenMP's would keep the caller's pool, and tokenising must not change it.
  const int64_t wanted = threads > 0 ? threads : at::get_num_threads();
  const int64_t useful = std::min(wanted, (data.rows() + stretch - 1) / stretch);
  {
    std::vector<std::jthread> helpers;
    for (int64_t i = 1; i < useful; ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      const std::string place = data.file.empty()
                                    ? "text " + std::to_string(data.source_rows[size_t(failed_row)])
                                    : data.describe(failed_row);
      throw Error(error.where(), place + ": " + error.message(), error.hint());
    }
  }
  rows.shortened = shortened;
  return rows;
}

}  // namespace yoke
