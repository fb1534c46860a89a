// Attribute access and messages of one node.
#include "model/onnx_node.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::model {

std::string NodeLabel(const onnx::NodeProto& proto, int opset) {
  std::string name = proto.name();
  if (name.empty() && proto.output_size() > 0) name = proto.output(0);
  return absl::StrCat("node '", name, "' (", proto.op_type(), ", opset ", opset, ")");
}

bool IsStandardDomain(absl::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

const onnx::AttributeProto* NodeView::FindAttr(absl::string_view name) const {
  for (const onnx::AttributeProto& attr : proto_.attribute()) {
    if (absl::string_view(attr.name()) == name) return &attr;
  }
  return nullptr;
}

const onnx::AttributeProto* NodeView::Typed(absl::string_view name, int type) const {
  const onnx::AttributeProto* attr = FindAttr(name);
  if (attr == nullptr || attr->type() == type) return attr;
  if (attr_status_.ok()) {
    attr_status_ = Invalid(absl::StrCat("attribute '", name, "' has a wrong type"));
  }
  return nullptr;
}

int64_t NodeView::Int(absl::string_view name, int64_t fallback) const {
  const auto* attr = Typed(name, onnx::AttributeProto::INT);
  return attr == nullptr ? fallback : attr->i();
}

double NodeView::Float(absl::string_view name, double fallback) const {
  const auto* attr = Typed(name, onnx::AttributeProto::FLOAT);
  return attr == nullptr ? fallback : static_cast<double>(attr->f());
}

std::string NodeView::Str(absl::string_view name, absl::string_view fallback) const {
  const auto* attr = Typed(name, onnx::AttributeProto::STRING);
  return attr == nullptr ? std::string(fallback) : attr->s();
}

std::vector<int64_t> NodeView::Ints(absl::string_view name, std::vector<int64_t> fallback) const {
  const auto* attr = Typed(name, onnx::AttributeProto::INTS);
  if (attr == nullptr) return fallback;
  return {attr->ints().begin(), attr->ints().end()};
}

std::vector<float> NodeView::Floats(absl::string_view name) const {
  const auto* attr = Typed(name, onnx::AttributeProto::FLOATS);
  if (attr == nullptr) return {};
  return {attr->floats().begin(), attr->floats().end()};
}

std::vector<std::string> NodeView::Strings(absl::string_view name) const {
  const auto* attr = Typed(name, onnx::AttributeProto::STRINGS);
  if (attr == nullptr) return {};
  return {attr->strings().begin(), attr->strings().end()};
}

const onnx::TensorProto* NodeView::Tensor(absl::string_view name) const {
  const auto* attr = Typed(name, onnx::AttributeProto::TENSOR);
  return attr == nullptr ? nullptr : &attr->t();
}

absl::StatusOr<const HostTensor*> NodeView::Known(size_t i, absl::string_view what) const {
  if (!Has(i)) return Invalid(absl::StrCat("input ", i, " (", what, ") is missing"));
  if (host(i) == nullptr) {
    return Unimplemented(absl::StrCat(
        what, " ('", proto_.input(static_cast<int>(i)),
        "') must be a constant or follow from shapes; here it depends on data or on a trained "
        "weight. Export the model with fixed sizes in this place"));
  }
  return host(i);
}

absl::StatusOr<std::vector<int64_t>> NodeView::KnownInts(size_t i, absl::string_view what) const {
  EBB_ASSIGN_OR_RETURN(const HostTensor* tensor, Known(i, what));
  if (graph::IsFloat(tensor->type.dtype)) {
    return Invalid(absl::StrCat(what, " must be integers, not ", graph::Name(tensor->type.dtype)));
  }
  return AsInts(*tensor);
}

absl::Status NodeView::CheckSpelling(absl::string_view name, size_t i, int input_since) const {
  if (opset_ < input_since && Has(i)) {
    return Invalid(absl::StrCat(name, " is an attribute before opset ", input_since, ", not input ",
                                i, "; the file does not fit the opset that it names"));
  }
  if (opset_ >= input_since && HasAttr(name)) {
    return Invalid(
        absl::StrCat(name, " is input ", i, " since opset ", input_since,
                     ", not an attribute; the file does not fit the opset that it names"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> NodeView::AttrOrInput(absl::string_view name, size_t i,
                                                           int input_since) const {
  EBB_RETURN_IF_ERROR(CheckSpelling(name, i, input_since));
  if (opset_ < input_since) return Ints(name);
  if (!Has(i)) return std::vector<int64_t>();
  return KnownInts(i, name);
}

absl::Status NodeView::Invalid(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(NodeLabel(proto_, opset_), ": ", what));
}

absl::Status NodeView::Unimplemented(absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(NodeLabel(proto_, opset_), ": ", what));
}

}  // namespace ebb::model
