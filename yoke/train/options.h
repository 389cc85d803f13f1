// What a Trainer can be told. Names and defaults are those of the Hugging Face Trainer without
// prefixes; every option has the same name on the command line, with dashes (--batch-size).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "yoke/data/text_options.h"
#include "yoke/train/events.h"

namespace yoke {

struct TrainerOptions {
  std::string model;  // a folder, or a name in the Hugging Face cache
  // text-classification, token-classification; empty: that of the model's head, for a base model
  // text-classification.
  std::string task;
  std::string devices = "auto";  // see yoke/device/devices.h

  int64_t batch_size = 32;  // rows of the global batch, whatever the number of devices
  double epochs = 3;        // may be fractional
  double learning_rate = 5e-5;
  double weight_decay = 0;              // AdamW, not on biases and LayerNorm
  double warmup_steps = 0;              // below 1: a share of all steps
  std::string lr_scheduler = "linear";  // linear, cosine, constant, constant_with_warmup
  double max_grad_norm = 1;             // 0: no clipping
  int64_t max_length = 0;  // tokens of a row; 0: min(model_max_length, max_position_embeddings)
  uint64_t seed = 42;
  bool shuffle = true;
  int64_t max_train_rows = 0;  // 0: all

  // fast: one shard of a step a device; the numbers of another number of devices within rounding.
  // exact: logical shards whose number is fixed; the same bits for every number of devices.
  std::string mode = "fast";
  int64_t logical_shards = 0;      // of exact; 0: 8, or the checkpoint's. At most so many devices
  std::string balance = "tokens";  // tokens, or speed: faster devices get more of them (fast only)
  // Out of memory: split (halve the micro-batches and repeat the step) or stop. Empty: split in
  // fast, stop in exact, where splitting changes bits.
  std::string on_oom;

  // Goes on from a checkpoint: a folder that is one or holds some, empty for the newest in
  // `output`.
  std::optional<std::string> resume;
  int64_t save_steps = 0;        // a checkpoint every so many steps; 0: only when stopped
  int64_t save_total_limit = 0;  // how many checkpoints are kept; 0: all

  std::string output;      // where train() saves at its end; empty: nowhere
  bool overwrite = false;  // replace what yoke wrote in `output`
  int64_t logging_steps = 10;

  TextOptions data;  // columns, header, encoding, bad rows

  // Limits of one forward pass on one device. They bound memory; in fast they never
  // change the numbers, in exact they are part of what decides the bits.
  int64_t micro_batch_rows = 0;    // 0: no limit
  int64_t micro_batch_tokens = 0;  // 0: chosen from the model's size

  // Called on the thread that called train(), evaluate() or predict(), in order.
  std::function<void(const Event&)> on_event;
  std::function<void(const Progress&)> on_progress;  // the same thread; for progress bars
};

}  // namespace yoke
