// Attributes that many cases of ops begin with, and how they are changed.
#pragma once

#include <string>
#include <utility>

#include "tests/graph/op_cases.h"

namespace ebb::graph {

using Ints = std::vector<int64_t>;

inline const Attrs kConv = {
    {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 2}}, {"dilations", Ints{1, 2}}, {"groups", 2}};
inline const Attrs kConv1 = {{"strides", Ints{1}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}};
inline const Attrs kMaxPool = {{"kernel", Ints{3, 2}},
                               {"strides", Ints{2, 2}},
                               {"pads", Ints{1, 0, 1, 1}},
                               {"dilations", Ints{1, 1}}};
inline const Attrs kAveragePool = {{"kernel", Ints{3, 2}},
                                   {"strides", Ints{2, 2}},
                                   {"pads", Ints{1, 0, 1, 1}},
                                   {"counted_pads", Ints{1, 0, 1, 0}}};
inline const Attrs kLrn = {{"size", 5}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}};
inline const Attrs kSlice = {
    {"starts", Ints{1, 4}}, {"ends", Ints{3, -1}}, {"axes", Ints{0, 2}}, {"steps", Ints{1, -2}}};
inline const Attrs kDropout = {{"ratio", 0.5}, {"stream", 3}};
inline const Attrs kBag = {{"mode", "mean"}, {"include_last_offset", 1}};
inline const Attrs kLstm = {{"gates", "ifco"}};
inline const Attrs kGru = {{"gates", "rzh"}};
inline const Attrs kNone = {{"reduction", "none"}};
inline const Attrs kPads = {{"pads", Ints{1, -1, 0, 2}}, {"value", 1.5}};

inline Attrs With(Attrs attrs, const std::string& name, AttrValue value) {
  attrs.Set(name, std::move(value));
  return attrs;
}
inline Attrs Without(Attrs attrs, const std::string& name) {
  attrs.Erase(name);
  return attrs;
}

}  // namespace ebb::graph
