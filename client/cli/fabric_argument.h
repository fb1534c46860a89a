// --fabric of commands that predict: a known fabric's name or a file's path. Free functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "client/local_file.h"
#include "ebb/v1/predict.pb.h"
#include "perfmodel/fabric.h"

namespace ebb::cli {

// NotFound: neither.
inline absl::StatusOr<v1::Fabric> FabricOf(const std::string& argument) {
  v1::Fabric fabric;
  const auto known = perfmodel::FindFabric(argument);
  if (known.ok()) {
    fabric.set_name(argument);
    return fabric;
  }
  auto text = client::ReadRegularFile(argument);
  if (text.ok()) {
    fabric.set_file(*std::move(text));
    return fabric;
  }
  if (!absl::IsNotFound(text.status())) return Annotate(text.status(), "--fabric");
  return absl::NotFoundError(absl::StrCat("--fabric: there is no file ", Escaped(argument),
                                          ", and ", known.status().message()));
}

}  // namespace ebb::cli
