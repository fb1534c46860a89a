#include "daemon/wire_graph.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "proto/names.h"

namespace ebb::daemon {
namespace {

constexpr int kVersion = 1;
constexpr int kMaxItems = 1 << 20;  // values, nodes
constexpr int kMaxArity = 1 << 16;  // inputs or outputs of a node, ints of an attribute
constexpr int64_t kMaxElements = int64_t{1} << 40;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::StatusOr<graph::TensorType> TypeFromWire(const v1::Graph::Value& wire) {
  const auto dtype = graph::ParseDType(
      proto::ShortName(*v1::Graph::DType_descriptor(), static_cast<int>(wire.dtype())));
  if (!dtype) return Invalid("it has no known dtype");
  graph::TensorType type{*dtype, {}};
  if (wire.shape_size() > 8) return Invalid("it has more than 8 dimensions");
  int64_t elements = 1;
  for (int64_t dim : wire.shape()) {
    if (dim < 0 || dim > kMaxElements) return Invalid(absl::StrCat("dimension ", dim));
    elements = dim == 0 ? 0 : elements > kMaxElements / dim ? kMaxElements + 1 : elements * dim;
    if (elements > kMaxElements) return Invalid("it has too many elements");
    type.shape.push_back(dim);
  }
  return type;
}

absl::StatusOr<graph::AttrValue> AttrFromWire(const v1::Graph::Attr& wire) {
  switch (wire.value_case()) {
    case v1::Graph::Attr::kI:
      return graph::AttrValue(int64_t{wire.i()});
    case v1::Graph::Attr::kF:
      if (std::isnan(wire.f())) return Invalid("not a number");
      return graph::AttrValue(wire.f());
    case v1::Graph::Attr::kInts: {
      const auto& values = wire.ints().values();
      if (values.size() > kMaxArity) return Invalid("too many numbers");
      return graph::AttrValue(std::vector<int64_t>(values.begin(), values.end()));
    }
    case v1::Graph::Attr::kS:
      return graph::AttrValue(wire.s());
    case v1::Graph::Attr::VALUE_NOT_SET:
      break;
  }
  return Invalid("it has no value");
}

// Builds the native graph item by item; `by_name_` holds what later nodes may read.
class Builder {
 public:
  explicit Builder(int64_t batch_size) : batch_size_(batch_size) {}

  absl::Status AddValue(const v1::Graph::Value& wire) {
    EBB_RETURN_IF_ERROR(CheckName(wire.name()));
    EBB_ASSIGN_OR_RETURN(graph::TensorType type, TypeFromWire(wire));
    const bool has_data = !wire.data().empty();
    if (has_data && wire.role() != v1::Graph::ROLE_CONSTANT)
      return Invalid("only constants have data");
    ValueId id;
    switch (wire.role()) {
      case v1::Graph::ROLE_INPUT:
        if (type.shape.empty() || type.shape[0] != batch_size_) {
          return Invalid(absl::StrCat("the input is ", graph::ToString(type),
                                      ", but the job's batch_size is ", batch_size_,
                                      ": serialise the graph with that batch"));
        }
        id = graph_.AddValue(wire.name(), std::move(type), graph::Role::kInput);
        break;
      case v1::Graph::ROLE_PARAM:
        if (!graph::IsFloat(type.dtype)) return Invalid("a parameter must be f32 or f64");
        id = graph_.AddValue(wire.name(), std::move(type), graph::Role::kParam);
        break;
      case v1::Graph::ROLE_BUFFER:
        id = graph_.AddValue(wire.name(), std::move(type), graph::Role::kBuffer);
        break;
      case v1::Graph::ROLE_CONSTANT: {
        if (static_cast<int64_t>(wire.data().size()) != type.bytes().count()) {
          return Invalid(absl::StrCat("its data have ", wire.data().size(), " bytes, its type ",
                                      graph::ToString(type), " has ", type.bytes().count()));
        }
        graph::HostTensor tensor{std::move(type), std::vector<std::byte>(wire.data().size())};
        if (has_data) std::memcpy(tensor.data.data(), wire.data().data(), wire.data().size());
        id = graph_.AddConstant(wire.name(), std::move(tensor));
        break;
      }
      default:
        return Invalid("it has no known role");
    }
    by_name_[wire.name()] = id;
    return absl::OkStatus();
  }

  absl::Status AddNode(const v1::Graph::Node& wire) {
    if (wire.inputs_size() > kMaxArity || wire.outputs_size() > kMaxArity) {
      return Invalid("too many inputs or outputs");
    }
    if (wire.outputs().empty()) return Invalid("it has no outputs");
    const graph::OpDef* op = graph::FindOp(wire.op());
    if (op == nullptr) {
      return absl::UnimplementedError(absl::StrCat("there is no op '", wire.op(), "'"));
    }
    std::vector<ValueId> inputs;
    for (const std::string& name : wire.inputs()) {
      if (name.empty()) {
        inputs.emplace_back();
        continue;
      }
      const auto it = by_name_.find(name);
      if (it == by_name_.end()) {
        return Invalid(absl::StrCat("input '", name, "' is made by nothing before it"));
      }
      inputs.push_back(it->second);
    }
    EBB_RETURN_IF_ERROR(CheckWrites(*op, inputs));
    graph::Attrs attrs;
    for (const auto& [name, value] : wire.attrs()) {
      auto native = AttrFromWire(value);
      if (!native.ok()) return Annotate(native.status(), absl::StrCat("attribute '", name, "'"));
      attrs.Set(name, *std::move(native));
    }
    for (const std::string& name : wire.outputs()) EBB_RETURN_IF_ERROR(CheckName(name));
    const std::string& name = wire.name().empty() ? wire.outputs(0) : wire.name();
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         graph_.AddNode(wire.op(), name, std::move(inputs), std::move(attrs)));
    const std::vector<ValueId> made = graph_.node(id).outputs;
    if (static_cast<int>(made.size()) != wire.outputs_size()) {
      return Invalid(
          absl::StrCat("it names ", wire.outputs_size(), " outputs, the op makes ", made.size()));
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const std::string& output = wire.outputs(static_cast<int>(i));
      if (!by_name_.emplace(output, made[i]).second) {
        return Invalid(absl::StrCat("output '", output, "' is named twice"));
      }
      made_.push_back({made[i], output});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<graph::Graph> Finish(const v1::Graph& wire) {
    // Names last: a value's own name may be the automatic name of a value made before it.
    for (const auto& [id, name] : made_) graph_.Rename(id, absl::StrCat("\x01", name));
    for (const auto& [id, name] : made_) graph_.Rename(id, name);
    if (wire.outputs().empty()) return Invalid("the graph offers no outputs");
    for (const std::string& name : wire.outputs()) {
      const auto it = by_name_.find(name);
      if (it == by_name_.end()) return Invalid(absl::StrCat("output '", name, "' does not exist"));
      graph_.outputs.push_back(it->second);
    }
    EBB_RETURN_IF_ERROR(graph::Verify(graph_));
    return std::move(graph_);
  }

 private:
  absl::Status CheckName(const std::string& name) const {
    if (name.empty() || name.size() > 1024) return Invalid("its name must have 1 to 1024 bytes");
    if (absl::StartsWith(name, "ebb.") || absl::StartsWith(name, "metric/")) {
      return Invalid(
          absl::StrCat("names that begin with 'ebb.' or 'metric/' are reserved: '", name, "'"));
    }
    if (static_cast<unsigned char>(name[0]) < 0x20)
      return Invalid("its name begins with a control character");
    if (by_name_.contains(name))
      return Invalid(absl::StrCat("the name '", name, "' is used twice"));
    return absl::OkStatus();
  }

  // A forward graph may write running statistics and nothing else.
  absl::Status CheckWrites(const graph::OpDef& op, const std::vector<ValueId>& inputs) const {
    for (int i : op.mutates) {
      const auto index = static_cast<size_t>(i);
      if (index >= inputs.size() || !inputs[index].valid()) continue;
      const graph::Value& value = graph_.value(inputs[index]);
      if (value.role != graph::Role::kBuffer) {
        return Invalid(absl::StrCat("it would write '", value.name, "', which is no buffer"));
      }
    }
    return absl::OkStatus();
  }

  const int64_t batch_size_;
  graph::Graph graph_;
  absl::flat_hash_map<std::string, ValueId> by_name_;
  std::vector<std::pair<ValueId, std::string>> made_;
};

v1::Graph::Attr AttrToWire(const graph::AttrValue& value) {
  v1::Graph::Attr wire;
  if (const auto* i = std::get_if<int64_t>(&value)) {
    wire.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    wire.set_f(*f);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    wire.mutable_ints()->mutable_values()->Add(ints->begin(), ints->end());
  } else {
    wire.set_s(std::get<std::string>(value));
  }
  return wire;
}

v1::Graph::Role RoleToWire(graph::Role role) {
  switch (role) {
    case graph::Role::kInput:
      return v1::Graph::ROLE_INPUT;
    case graph::Role::kParam:
      return v1::Graph::ROLE_PARAM;
    case graph::Role::kBuffer:
      return v1::Graph::ROLE_BUFFER;
    case graph::Role::kConstant:
      return v1::Graph::ROLE_CONSTANT;
    default:
      return v1::Graph::ROLE_UNSPECIFIED;
  }
}

}  // namespace

absl::StatusOr<graph::Graph> GraphFromBytes(absl::string_view bytes, int64_t batch_size) {
  v1::Graph wire;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Invalid("the file is not a serialised ebb.v1.Graph");
  }
  return GraphFromWire(wire, batch_size);
}

absl::StatusOr<graph::Graph> GraphFromWire(const v1::Graph& wire, int64_t batch_size) {
  if (wire.version() != kVersion) {
    return absl::UnimplementedError(absl::StrCat("the graph has format version ", wire.version(),
                                                 "; this version reads ", kVersion));
  }
  if (wire.values_size() > kMaxItems || wire.nodes_size() > kMaxItems ||
      wire.outputs_size() > kMaxArity) {
    return Invalid("the graph has too many values, nodes or outputs");
  }
  Builder builder(batch_size);
  for (int i = 0; i < wire.values_size(); ++i) {
    EBB_RETURN_IF_ERROR(Annotate(builder.AddValue(wire.values(i)),
                                 absl::StrCat("value ", i, " '", wire.values(i).name(), "'")));
  }
  for (int i = 0; i < wire.nodes_size(); ++i) {
    const v1::Graph::Node& node = wire.nodes(i);
    const std::string& name =
        node.name().empty() && node.outputs_size() > 0 ? node.outputs(0) : node.name();
    EBB_RETURN_IF_ERROR(Annotate(builder.AddNode(node), absl::StrCat("node ", i, " '", name, "'")));
  }
  return builder.Finish(wire);
}

v1::Graph GraphToWire(const graph::Graph& graph) {
  v1::Graph wire;
  wire.set_version(kVersion);
  wire.set_producer("ebb");
  for (const graph::Value& value : graph.values) {
    if (value.producer.valid()) continue;
    v1::Graph::Value& out = *wire.add_values();
    out.set_name(value.name);
    out.set_role(RoleToWire(value.role));
    if (const auto* dtype =
            proto::FindShortName(*v1::Graph::DType_descriptor(), graph::Name(value.type.dtype))) {
      out.set_dtype(static_cast<v1::Graph::DType>(dtype->number()));
    }
    for (int64_t dim : value.type.shape) out.add_shape(dim);
    if (value.data != nullptr) {
      out.set_data(reinterpret_cast<const char*>(value.data->data.data()), value.data->data.size());
    }
  }
  const auto name_of = [&](ValueId id) { return id.valid() ? graph.value(id).name : ""; };
  for (const graph::Node& node : graph.nodes) {
    v1::Graph::Node& out = *wire.add_nodes();
    out.set_op(std::string(node.op->name));
    out.set_name(node.name);
    for (ValueId id : node.inputs) out.add_inputs(name_of(id));
    for (ValueId id : node.outputs) out.add_outputs(name_of(id));
    for (const auto& [name, value] : node.attrs.map())
      (*out.mutable_attrs())[name] = AttrToWire(value);
  }
  for (ValueId id : graph.outputs) wire.add_outputs(name_of(id));
  return wire;
}

}  // namespace ebb::daemon
