// The ONNX schema's C++ classes, generated at build time from the installed onnx.proto under a
// package of our own, so that nothing clashes with a program that links libonnx too.
#pragma once

#include "ebb_onnx.pb.h"

namespace ebb::model {
namespace onnx = ::ebb_onnx;
}  // namespace ebb::model
