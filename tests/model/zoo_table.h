// The figures that the zoo is held to: parameters (exact), and per sample the arithmetic of forward
// and backward and the memory that a step needs, as the traces of the scheduling study have them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "graph/training.h"
#include "model/zoo/zoo.h"

namespace ebb::testing {

struct ZooFigures {
  std::string name;
  int64_t parameters = 0;
  double gflop = 0;  // forward and backward of a sample
  double mib = 0;    // what the live peak grows by a sample; 0: not in the study
  // The largest batch on 16 GB and on 141 GB.
  int64_t batch_16gb = 0, batch_141gb = 0;
};
inline void PrintTo(const ZooFigures& figures, std::ostream* out) { *out << figures.name; }

inline std::vector<ZooFigures> ZooTable() {
  return {{"resnet50", 25'557'032, 24, 81, 186, 1738},
          {"resnet152", 60'192'808, 69, 0, 88, 830},
          {"vgg16", 138'357'544, 93, 58, 239, 2356},
          {"inception_v3", 23'834'568, 34, 90, 169, 1573},
          {"densenet121", 7'978'856, 17, 121, 126, 1172},
          {"mobilenet_v2", 3'504'872, 1.8, 52, 294, 2716},
          {"bert_base_128", 109'219'386, 70, 99, 141, 1406},
          {"bert_base_384", 109'415'994, 220, 416, 33, 333},
          {"gpt2", 124'439'808, 875, 2289, 6, 61}};
}

// The training graph of a model as measurements train it.
inline absl::StatusOr<graph::Graph> ZooTrainingGraph(const std::string& name, int64_t batch) {
  EBB_ASSIGN_OR_RETURN(model::ZooModel zoo, model::BuildZooModel(name, batch));
  return graph::BuildTrainingGraph(std::move(zoo.graph),
                                   {.loss = zoo.loss, .optimizer = zoo.optimizer});
}

}  // namespace ebb::testing
