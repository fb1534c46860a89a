// A transformer as NeuSight labelled it on one GPU (op by op, forward and backward, and as a
// whole), as strategies take it: steps whose kernels take what the labels say. Immutable.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/predictor.h"
#include "perfmodel/training_step.h"

namespace ebb::bench {

// Of a whole model: the "e2e_latency" of NeuSight's JSON. InvalidArgument names `path`.
absl::StatusOr<double> LabelledMicros(const std::string& json, const std::string& path);

class LabelledModel : public perfmodel::OpPredictor {
 public:
  // `folder`/NAME-BATCH.{csv.gz,json} of all batches that are there; by how much the sum of the
  // ops is off, the label of the whole model says: of that batch, or of `scaled_by` (0: none)
  // where it is there and labels of others are known to be disturbed. NotFound: no batch.
  static absl::StatusOr<LabelledModel> Read(const std::string& folder, const std::string& name,
                                            int64_t scaled_by = 0);

  LabelledModel(LabelledModel&&) = default;  // a copy's labels would be those of its origin

  // At a batch that has no labels, kernels of the nearest that has are as many times as long as
  // the batch is larger, and not in_hull. With tensor ranks, pairs of linear layers are cut as
  // perfmodel/tensor_parallel.h would cut them; head, embeddings and normalisations are whole.
  absl::StatusOr<perfmodel::TrainingStep> StepAt(int64_t batch, int64_t tensor) const;

  // What a label says of the op, times the share of its arithmetic (products) or bytes.
  absl::StatusOr<perfmodel::Estimate> Predict(const perfmodel::Work& work) const override;

 private:
  enum Side : int64_t { kForward = 1, kBackward, kAccumulate };
  struct Op {
    std::string name;
    perfmodel::Work work;       // of forward, with the label's number as its window
    double micros[3] = {};      // by Side - 1; 0: no kernel
    double input_elements = 0;  // of the first operand
    double output_elements = 0;
    double params = 0;  // elements
  };
  struct Table {
    std::vector<Op> ops;  // of the whole model, in order
    double scale = 1;
  };
  LabelledModel() = default;
  static absl::StatusOr<Table> ReadTableOf(const std::string& stem, int64_t first_label);
  static perfmodel::Work WorkOf(const Op& op, Side side);

  std::map<int64_t, Table> tables_;                         // by batch
  std::map<int64_t, std::pair<const Op*, double>> labels_;  // by number: the op, its scale
};

}  // namespace ebb::bench
