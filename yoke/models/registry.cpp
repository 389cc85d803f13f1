#include <algorithm>

#include "yoke/core/error.h"
#include "yoke/core/suggest.h"
#include "yoke/models/bert.h"
#include "yoke/models/model.h"

namespace yoke {
namespace {

using Maker = std::shared_ptr<Model> (*)(const Json& config, int64_t num_labels, ProblemType type);

struct Entry {
  const char* model_type;
  const char* task;
  const char* architecture;
  Maker make;
};

constexpr Entry entries[] = {
    {"bert", "text-classification", "BertForSequenceClassification",
     [](const Json& config, int64_t num_labels, ProblemType type) -> std::shared_ptr<Model> {
       return std::make_shared<BertForSequenceClassification>(BertConfig::from_json(config),
                                                              num_labels, type);
     }},
    {"bert", "token-classification", "BertForTokenClassification",
     [](const Json& config, int64_t num_labels, ProblemType) -> std::shared_ptr<Model> {
       return std::make_shared<BertForTokenClassification>(BertConfig::from_json(config),
                                                           num_labels);
     }},
};

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& entry : entries)
    if (std::find(names.begin(), names.end(), entry.model_type) == names.end())
      names.push_back(entry.model_type);
  return names;
}

std::string task_of(const Json& config) {
  const auto named = config.find("architectures");
  if (named == config.end() || !named->is_array() || named->empty() || !(*named)[0].is_string())
    return "";
  for (const auto& entry : entries)
    if ((*named)[0].get<std::string>() == entry.architecture) return entry.task;
  return "";
}

std::shared_ptr<Model> make_model(const Json& config, const std::string& task, int64_t num_labels,
                                  ProblemType problem_type) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string())
    throw Error("models.make", "config.json has no model_type",
                "a folder that transformers' save_pretrained wrote");
  std::vector<std::string> tasks;
  bool known_type = false;
  for (const auto& entry : entries) {
    known_type |= type->get<std::string>() == entry.model_type;
    tasks.push_back(entry.task);
    if (type->get<std::string>() == entry.model_type && task == entry.task)
      return entry.make(config, num_labels, problem_type);
  }
  if (!known_type)
    throw Error("models.make", "unknown architecture \"" + type->get<std::string>() + "\"",
                "one of: " + join_names(known_model_types()));
  throw Error("models.make",
              "\"" + type->get<std::string>() + "\" has no head for the task \"" + task + "\"",
              "one of: " + join_names(tasks));
}

}  // namespace yoke
