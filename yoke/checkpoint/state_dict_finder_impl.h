// Where in the graph of a pickle the state dict is.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "yoke/checkpoint/torch_file.h"
#include "yoke/checkpoint/torch_tensors_impl.h"

namespace yoke {

class StateDictFinder {
 public:
  StateDictFinder(const PickleGraph& graph, TensorRebuilder& tensors, std::string file,
                  const TorchFileOptions& options, TorchFileReport& report)
      : graph_(graph),
        tensors_(tensors),
        file_(std::move(file)),
        options_(options),
        report_(report) {}

  StateDict find();

 private:
  enum class Content { other, state_dict, module };

  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;
  Content content(PickleGraph::Id id) const;
  PickleGraph::Id choose(PickleGraph::Id root);
  StateDict read(PickleGraph::Id id);
  void read_mapping(PickleGraph::Id id, StateDict& state);
  void read_module(PickleGraph::Id id, StateDict& state);
  // __dict__ of an object, whatever way it was pickled.
  PickleGraph::Id attributes(PickleGraph::Id object) const;
  std::string name_of(PickleGraph::Id key) const;
  // The first global that is called inside a value, empty for plain data.
  std::string called_global(PickleGraph::Id value) const;

  const PickleGraph& graph_;
  TensorRebuilder& tensors_;
  const std::string file_;
  const TorchFileOptions& options_;
  TorchFileReport& report_;
};

}  // namespace yoke
