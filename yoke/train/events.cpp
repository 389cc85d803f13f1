#include "yoke/train/events.h"

namespace yoke {
namespace {

// Numbers go out as the shortest text that reads back as the same double; a float is widened
// first, so its text names exactly that float. NaN and infinity, which JSON lacks, become null.
struct Writer {
  Json operator()(const StartEvent& e) const {
    Json json = {{"event", "start"},         {"devices", e.devices},
                 {"model", e.model},         {"parameters", e.parameters},
                 {"trainable", e.trainable}, {"rows", e.rows},
                 {"steps", e.steps},         {"mode", e.mode}};
    if (e.logical_shards > 0) json["logical_shards"] = e.logical_shards;
    if (e.resumed_step > 0) json["resumed_step"] = e.resumed_step;
    json["new_tensors"] = e.new_tensors;
    return json;
  }

  Json operator()(const StepEvent& e) const {
    return {{"event", "step"},
            {"step", e.step},
            {"epoch", e.epoch},
            {"loss", e.loss},
            {"learning_rate", e.learning_rate},
            {"grad_norm", e.grad_norm},
            {"rows", e.rows},
            {"tokens", e.tokens}};
  }

  Json operator()(const EvaluateEvent& e) const {
    Json json = {{"event", "evaluate"}, {"step", e.step}, {"loss", e.loss}};
    if (e.has_accuracy) {
      json["accuracy"] = e.accuracy;
      if (e.entities) {
        json["precision"] = e.entities->precision;
        json["recall"] = e.entities->recall;
        json["f1"] = e.entities->f1;
      }
    } else {
      json["mse"] = e.mse;
    }
    json["rows"] = e.rows;
    return json;
  }

  Json operator()(const PredictEvent& e) const {
    Json json = {{"event", "predict"}, {"row", e.row}};
    if (e.of_tokens) {
      for (const char* list : {"tokens", "labels", "scores"}) json[list] = Json::array();
      for (const auto& t : e.prediction.tokens) {
        json["tokens"].push_back(t.token);
        json["labels"].push_back(t.label ? Json(*t.label) : Json());
        json["scores"].push_back(t.label ? Json(t.score) : Json());
      }
      return json;
    }
    if (e.regression) {
      json["value"] = e.prediction.score;
    } else {
      json["label"] = e.prediction.label;
      json["score"] = e.prediction.score;
    }
    json["logits"] = e.prediction.logits;
    return json;
  }

  Json operator()(const SavedEvent& e) const { return {{"event", "saved"}, {"path", e.path}}; }
};

}  // namespace

Json to_json(const Event& event) { return std::visit(Writer{}, event); }

}  // namespace yoke
