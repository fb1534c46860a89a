#include "client/predict.h"

#include "absl/strings/str_cat.h"

namespace ebb::client {

v1::JobSpec PredictionOf(const v1::JobSpec& trains) {
  v1::JobSpec spec;
  spec.set_name(absl::StrCat(trains.name(), "-predict"));
  *spec.mutable_model() = trains.model();
  *spec.mutable_bind() = trains.bind();
  // What the loss compares with is no input of the model.
  spec.mutable_bind()->erase(trains.loss().target().empty() ? "label" : trains.loss().target());
  *spec.mutable_batch_size() = trains.batch_size();
  spec.set_precision(trains.precision());
  *spec.mutable_seed() = trains.seed();
  *spec.mutable_resources() = trains.resources();
  spec.mutable_resources()->mutable_ladder()->clear_micro_batches();
  *spec.mutable_labels() = trains.labels();
  *spec.mutable_predict() = trains.predict();
  if (!spec.predict().has_data() && (trains.data().has_val() || trains.data().has_train())) {
    v1::DataSource* data = spec.mutable_predict()->mutable_data();
    *data = trains.data().has_val() ? trains.data().val() : trains.data().train();
    *spec.mutable_predict()->mutable_augment() = trains.data().augment();
    spec.mutable_predict()->mutable_augment()->clear_train();
    data->clear_batches();
    data->clear_batch_size();
    data->clear_drop_last();
  }
  return spec;
}

}  // namespace ebb::client
