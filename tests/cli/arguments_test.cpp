// What the command line is understood as, without running anything.
#include <gtest/gtest.h>

#include "cli/commands.h"

namespace yoke::cli {
namespace {

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TrainCommand train(const Words& more = {}) {
  return std::get<TrainCommand>(parse(with({"train", "--model", "m", "--train", "t.csv"}, more)));
}
EvaluateCommand evaluate(const Words& more = {}) {
  return std::get<EvaluateCommand>(
      parse(with({"evaluate", "--model", "m", "--data", "d.csv"}, more)));
}
PredictCommand predict(const Words& more) {
  return std::get<PredictCommand>(parse(with({"predict", "--model", "m"}, more)));
}

// The line that these words are refused with, or "" when they are accepted.
std::string refusal(const Words& words) {
  try {
    parse(words);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}
std::string train_refusal(const Words& more) {
  return refusal(with({"train", "--model", "m", "--train", "t.csv"}, more));
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "in: " << (text) << "\nmissing: " << (part)

TEST(arguments, defaults_are_those_of_the_library_and_of_the_hugging_face_trainer) {
  const TrainCommand c = train();
  EXPECT_EQ(c.options.model, "m");
  EXPECT_EQ(c.train_file, "t.csv");
  EXPECT_EQ(c.eval_file, "");
  EXPECT_EQ(c.options.task, "");  // the model's
  EXPECT_EQ(c.options.devices, "auto");
  EXPECT_EQ(c.options.batch_size, 32);
  EXPECT_EQ(c.options.epochs, 3);
  EXPECT_EQ(c.options.learning_rate, 5e-5);
  EXPECT_EQ(c.options.weight_decay, 0);
  EXPECT_EQ(c.options.warmup_steps, 0);
  EXPECT_EQ(c.options.lr_scheduler, "linear");
  EXPECT_EQ(c.options.max_grad_norm, 1);
  EXPECT_EQ(c.options.max_length, 0);
  EXPECT_EQ(c.options.seed, 42u);
  EXPECT_TRUE(c.options.shuffle);
  EXPECT_EQ(c.options.max_train_rows, 0);
  EXPECT_EQ(c.options.output, "trainer_output");
  EXPECT_FALSE(c.options.overwrite);
  EXPECT_EQ(c.options.logging_steps, 10);
  EXPECT_EQ(c.options.micro_batch_rows, 0);
  EXPECT_EQ(c.options.micro_batch_tokens, 0);
  EXPECT_EQ(c.options.data.encoding, "utf-8");
  EXPECT_FALSE(c.options.data.no_header);
  EXPECT_FALSE(c.json);
  EXPECT_FALSE(c.quiet);
}

TEST(arguments, every_training_option_reaches_its_place) {
  const TrainCommand c = train({"--eval",
                                "e.tsv",
                                "--output",
                                "o",
                                "--overwrite",
                                "--devices",
                                "4xsim",
                                "--batch-size",
                                "16",
                                "--epochs",
                                "0.5",
                                "--learning-rate",
                                "1e-4",
                                "--weight-decay",
                                "0.01",
                                "--warmup-steps",
                                "0.1",
                                "--lr-scheduler",
                                "constant_with_warmup",
                                "--max-grad-norm",
                                "0",
                                "--max-length",
                                "128",
                                "--seed",
                                "18446744073709551615",
                                "--no-shuffle",
                                "--max-train-rows",
                                "4096",
                                "--text-column",
                                "a",
                                "--text-pair-column",
                                "b",
                                "--label-column",
                                "c",
                                "--no-header",
                                "--encoding",
                                "gb18030",
                                "--skip-bad-rows",
                                "--micro-batch-rows",
                                "4",
                                "--micro-batch-tokens",
                                "512",
                                "--logging-steps",
                                "1",
                                "--json",
                                "--quiet"});
  const TrainerOptions& o = c.options;
  EXPECT_EQ(c.eval_file, "e.tsv");
  EXPECT_EQ(o.output, "o");
  EXPECT_TRUE(o.overwrite);
  EXPECT_EQ(o.devices, "4xsim");
  EXPECT_EQ(o.batch_size, 16);
  EXPECT_EQ(o.epochs, 0.5);
  EXPECT_EQ(o.learning_rate, 1e-4);
  EXPECT_EQ(o.weight_decay, 0.01);
  EXPECT_EQ(o.warmup_steps, 0.1);
  EXPECT_EQ(o.lr_scheduler, "constant_with_warmup");
  EXPECT_EQ(o.max_grad_norm, 0);
  EXPECT_EQ(o.max_length, 128);
  EXPECT_EQ(o.seed, UINT64_MAX);
  EXPECT_FALSE(o.shuffle);
  EXPECT_EQ(o.max_train_rows, 4096);
  EXPECT_EQ(o.data.text_column, "a");
  EXPECT_EQ(o.data.text_pair_column, "b");
  EXPECT_EQ(o.data.label_column, "c");
  EXPECT_TRUE(o.data.no_header);
  EXPECT_EQ(o.data.encoding, "gb18030");
  EXPECT_TRUE(o.data.skip_bad_rows);
  EXPECT_EQ(o.micro_batch_rows, 4);
  EXPECT_EQ(o.micro_batch_tokens, 512);
  EXPECT_EQ(o.logging_steps, 1);
  EXPECT_TRUE(c.json);
  EXPECT_TRUE(c.quiet);
}

TEST(arguments, evaluate_and_predict_take_theirs) {
  const EvaluateCommand e = evaluate({"--devices", "cpu", "--batch-size", "8", "--max-length", "64",
                                      "--label-column", "y", "--json"});
  EXPECT_EQ(e.data_file, "d.csv");
  EXPECT_EQ(e.options.devices, "cpu");
  EXPECT_EQ(e.options.batch_size, 8);
  EXPECT_EQ(e.options.max_length, 64);
  EXPECT_EQ(e.options.data.label_column, "y");
  EXPECT_EQ(e.options.output, "");
  EXPECT_TRUE(e.json);
  const PredictCommand p = predict({"--data", "d.csv", "--output", "p.csv", "--text-column", "0"});
  EXPECT_FALSE(p.text);
  EXPECT_EQ(p.data_file, "d.csv");
  EXPECT_EQ(p.output_file, "p.csv");
  EXPECT_EQ(p.options.data.text_column, "0");
  const PredictCommand pair = predict({"--text", "a", "--text-pair", "b"});
  EXPECT_EQ(pair.text, "a");
  EXPECT_EQ(pair.text_pair, "b");
}

TEST(arguments, hugging_face_spellings_are_aliases) {
  const TrainCommand c = std::get<TrainCommand>(parse({"train",
                                                       "--model_name_or_path",
                                                       "m",
                                                       "--train_file",
                                                       "t.csv",
                                                       "--validation_file",
                                                       "e.csv",
                                                       "--output_dir",
                                                       "o",
                                                       "--overwrite_output_dir",
                                                       "--num_train_epochs",
                                                       "2",
                                                       "--learning_rate",
                                                       "2e-5",
                                                       "--lr_scheduler_type",
                                                       "cosine",
                                                       "--max_seq_length",
                                                       "64",
                                                       "--max_train_samples",
                                                       "100",
                                                       "--warmup_steps=10",
                                                       "--text_column_name",
                                                       "x",
                                                       "--label-column-name=y"}));
  EXPECT_EQ(c.options.model, "m");
  EXPECT_EQ(c.train_file, "t.csv");
  EXPECT_EQ(c.eval_file, "e.csv");
  EXPECT_EQ(c.options.output, "o");
  EXPECT_TRUE(c.options.overwrite);
  EXPECT_EQ(c.options.epochs, 2);
  EXPECT_EQ(c.options.learning_rate, 2e-5);
  EXPECT_EQ(c.options.lr_scheduler, "cosine");
  EXPECT_EQ(c.options.max_length, 64);
  EXPECT_EQ(c.options.max_train_rows, 100);
  EXPECT_EQ(c.options.warmup_steps, 10);
  EXPECT_EQ(c.options.data.text_column, "x");
  EXPECT_EQ(c.options.data.label_column, "y");
}

TEST(arguments, per_device_batch_sizes_are_refused_with_the_global_one_to_write) {
  EXPECT_HAS(train_refusal({"--per_device_train_batch_size", "16", "--devices", "2xcuda",
                            "--gradient-accumulation-steps", "2"}),
             "--batch-size 64 (16 a device x 2 devices x 2 accumulation steps)");
  EXPECT_HAS(train_refusal({"--per-device-train-batch-size=16", "--devices", "cuda:0,4,5+cpu"}),
             "--batch-size 64 (16 a device x 4 devices)");
  EXPECT_HAS(train_refusal({"--per-device-train-batch-size", "8", "--devices", "cpu"}),
             "--batch-size 8 (8 a device x 1 device)");
  EXPECT_HAS(train_refusal({"--per-device-train-batch-size", "8"}),
             "--batch-size N, with N = 8 x the number of devices");
  EXPECT_HAS(train_refusal({"--gradient_accumulation_steps", "4", "--batch-size", "8"}),
             "--batch-size 32 (8 rows x 4 accumulation steps)");
  EXPECT_HAS(refusal({"evaluate", "--model", "m", "--data", "d", "--per_device_eval_batch_size",
                      "8", "--devices", "3xsim"}),
             "--batch-size 24 (8 a device x 3 devices)");
  EXPECT_HAS(train_refusal({"--warmup_ratio", "0.1"}), "--warmup-steps 0.1");
}

TEST(arguments, unknown_options_suggest_the_nearest) {
  EXPECT_EQ(refusal({"evaluate", "--model", "m", "--data", "d", "--devcies", "cpu"}),
            "unknown option --devcies, did you mean --devices?");
  EXPECT_HAS(train_refusal({"--num-train-epoch", "2"}), "did you mean --num-train-epochs?");
  EXPECT_HAS(train_refusal({"-devices", "cpu"}), "did you mean --devices?");
  EXPECT_HAS(train_refusal({"--bf16"}), "unknown option --bf16 (yoke train --help");
  EXPECT_HAS(refusal({"evaluate", "--model", "m", "--epochs", "3"}), "it belongs to yoke train");
  EXPECT_HAS(refusal({"trian"}), "unknown command trian, did you mean train?");
  EXPECT_HAS(refusal({"--verison"}), "unknown option --verison");
  EXPECT_HAS(refusal({}), "no command");
  EXPECT_HAS(train_refusal({"more.csv"}), "unexpected argument \"more.csv\"");
}

TEST(arguments, options_of_later_issues_are_unknown) {
  for (const char* name : {"--weights", "--freeze", "--optimizer", "--key", "--new-head"})
    EXPECT_HAS(train_refusal({name, "x"}), std::string("unknown option ") + name);
}

TEST(arguments, resume_takes_a_folder_or_none) {
  const auto resume = [](std::vector<std::string> more) {
    std::vector<std::string> words{"train", "--model", "m", "--train", "t"};
    words.insert(words.end(), more.begin(), more.end());
    return std::get<TrainCommand>(parse(words)).options;
  };
  EXPECT_EQ(resume({}).resume, std::nullopt);
  EXPECT_EQ(resume({"--resume"}).resume, "");
  EXPECT_EQ(resume({"--resume", "out/checkpoint-3"}).resume, "out/checkpoint-3");
  EXPECT_EQ(resume({"--resume-from-checkpoint=x"}).resume, "x");
  const auto both = resume({"--resume", "--save-steps", "5"});
  EXPECT_EQ(both.resume, "");
  EXPECT_EQ(both.save_steps, 5);
}

TEST(arguments, what_does_not_go_together_is_refused) {
  EXPECT_HAS(train_refusal({"--logical-shards", "4"}), "--mode exact");
  EXPECT_HAS(train_refusal({"--mode", "exact", "--balance", "speed"}),
             "--balance speed is of mode");
  EXPECT_HAS(train_refusal({"--mode", "exakt"}), "Try: --mode exact");
}

TEST(arguments, what_must_be_given_is_asked_for) {
  EXPECT_HAS(refusal({"train", "--train", "t"}), "--model is required");
  EXPECT_HAS(refusal({"train", "--model", "m"}), "--train is required");
  EXPECT_HAS(refusal({"evaluate", "--model", "m"}), "--data is required");
  EXPECT_HAS(refusal({"predict", "--model", "m"}), "--text \"a gripping film\" or --data FILE");
  EXPECT_HAS(refusal({"predict", "--model", "m", "--text", "a", "--data", "d"}), "exclude");
  EXPECT_HAS(refusal({"predict", "--model", "m", "--data", "d", "--text-pair", "a"}),
             "--text-pair needs --text");
  EXPECT_HAS(refusal({"predict", "--model", "m", "--text", "a", "--no-header"}), "need --data");
}

TEST(arguments, a_forgotten_value_is_noticed) {
  EXPECT_HAS(train_refusal({"--output"}), "--output needs a value");
  EXPECT_HAS(train_refusal({"--output", "--overwrite"}),
             "--output needs a value before --overwrite");
  EXPECT_HAS(train_refusal({"--output="}), "--output needs a value, this one is empty");
  EXPECT_HAS(train_refusal({"--output", ""}), "--output needs a value, this one is empty");
  EXPECT_HAS(train_refusal({"--json=true"}), "--json takes no value");
}

TEST(arguments, an_option_given_twice_is_refused_under_each_of_its_names) {
  EXPECT_HAS(train_refusal({"--seed", "1", "--seed", "2"}), "--seed is given twice");
  EXPECT_HAS(train_refusal({"--epochs", "1", "--num-train-epochs", "2"}),
             "--epochs is given twice");
  EXPECT_TRUE(train({"--json", "--json"}).json);
}

TEST(arguments, text_may_be_anything) {
  for (const char* text :
       {"", "{}", "[a,b]", "[[a],[b]]", "-5 degrees", "--json", "--devices", "a=b", "'\"", " "}) {
    EXPECT_EQ(predict({"--text", text}).text, text);
    EXPECT_EQ(predict({std::string("--text=") + text, "--json"}).text, text);
  }
}

TEST(arguments, whole_numbers_are_digits_and_in_range) {
  EXPECT_HAS(train_refusal({"--batch-size", "0"}), "--batch-size 0: must be at least 1");
  EXPECT_HAS(train_refusal({"--batch-size", "-8"}), "--batch-size -8: must be at least 1");
  EXPECT_HAS(train_refusal({"--batch-size", "8.5"}), "must be a whole number");
  EXPECT_HAS(train_refusal({"--batch-size", "x"}), "must be a whole number");
  EXPECT_HAS(train_refusal({"--batch-size", "8x"}), "must be a whole number");
  EXPECT_HAS(train_refusal({"--batch-size", "0x10"}), "must be a whole number");
  EXPECT_HAS(train_refusal({"--batch-size", "99999999999999999999"}), "must be at most");
  EXPECT_HAS(train_refusal({"--max-train-rows", "1e3"}), "Try: --max-train-rows 1000");
  EXPECT_HAS(train_refusal({"--seed", "-1"}), "at least 0");
  EXPECT_EQ(train({"--batch-size", "010"}).options.batch_size, 10);  // not octal
}

TEST(arguments, real_numbers_are_finite_and_in_range) {
  EXPECT_EQ(train({"--learning-rate", "5e-5"}).options.learning_rate, 5e-5);
  EXPECT_EQ(train({"--learning-rate", "0"}).options.learning_rate, 0);
  EXPECT_HAS(train_refusal({"--learning-rate", "-1"}), "must not be negative");
  EXPECT_HAS(train_refusal({"--learning-rate", "nan"}), "must be a number");
  EXPECT_HAS(train_refusal({"--learning-rate", "inf"}), "must be a number");
  EXPECT_HAS(train_refusal({"--learning-rate", "5e-5x"}), "must be a number");
  EXPECT_HAS(train_refusal({"--learning-rate", "0,1"}), "must be a number");
  EXPECT_HAS(train_refusal({"--epochs", "0"}), "must be above 0");
  EXPECT_HAS(train_refusal({"--warmup-steps", "1.5"}), "must be whole");
  EXPECT_EQ(train({"--warmup-steps", "1"}).options.warmup_steps, 1);
}

TEST(arguments, names_from_a_list_suggest_the_nearest) {
  EXPECT_HAS(train_refusal({"--lr-scheduler", "cosin"}), "Try: --lr-scheduler cosine");
  EXPECT_HAS(train_refusal({"--task", "translation"}),
             "must be one of text-classification, token-classification");
}

TEST(arguments, predictions_go_to_formats_that_exist) {
  EXPECT_HAS(refusal({"predict", "--model", "m", "--text", "a", "--output", "p.xlsx"}),
             ".csv, .tsv or .jsonl");
}

}  // namespace
}  // namespace yoke::cli
