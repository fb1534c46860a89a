#include "device/cuda/cudnn.h"

// NOLINTBEGIN: names of the vendor's
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
// NOLINTEND

#include <algorithm>
#include <array>
#include <exception>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/dynamic_library.h"
#include "nlohmann/json.hpp"

namespace cudnn_frontend {
// What the frontend looks its functions up in.
void* cudnn_dlhandle = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
}  // namespace cudnn_frontend

namespace ebb::device::cuda {
namespace {

namespace fe = cudnn_frontend;

// ---- Errors: the frontend returns some and throws others.

absl::Status StatusOf(fe::error_object error) {
  if (error.is_good()) return absl::OkStatus();
  const std::string text = absl::StrCat("cuDNN: ", error.get_message());
  switch (error.get_code()) {
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
      return absl::UnimplementedError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::Status StatusOf(cudnnStatus_t status, absl::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text =
      absl::StrCat("cuDNN: ", call, ": ", fe::detail::get_error_string(status));
  if (status == CUDNN_STATUS_ALLOC_FAILED) return absl::ResourceExhaustedError(text);
  if (status == CUDNN_STATUS_NOT_INITIALIZED) return absl::UnavailableError(text);
  return absl::InternalError(text);
}

absl::Status Try(absl::FunctionRef<absl::Status()> work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("cuDNN: ", error.what()));
  }
}

// The library is opened once a process: the frontend has one place for it.
absl::Status OpenLibrary() {
  static const absl::Status* const opened = [] {
    const auto open = []() -> absl::Status {
      const std::string name = absl::StrCat("libcudnn.so.", CUDNN_MAJOR);
      EBB_ASSIGN_OR_RETURN(const DynamicLibrary library, DynamicLibrary::Open(name));
      fe::cudnn_dlhandle = library.handle();
      const size_t version = fe::detail::get_backend_version();
      if (version >= CUDNN_VERSION) return absl::OkStatus();
      return absl::UnavailableError(absl::StrCat("cuDNN: ", name, " is of version ", version,
                                                 "; this build needs ", CUDNN_VERSION,
                                                 " or later"));
    };
    return new absl::Status(Try(open));
  }();
  return *opened;
}

// ---- A convolution as a graph of one operation.

enum Tensor : int64_t { kX = 1, kW = 2, kY = 3 };

// Dimensions as cuDNN wants them, with at least two spatial ones, and how they lie in memory.
struct Extents {
  std::vector<int64_t> dim, stride;
};

// One spatial dimension, the value after the first `before`, becomes the last of two.
std::vector<int64_t> AtLeast2d(const std::vector<int64_t>& values, size_t before, int64_t first) {
  if (values.size() - before != 1) return values;
  std::vector<int64_t> result(values.size() + 1, first);
  std::copy_n(values.begin(), before, result.begin());
  result.back() = values.back();
  return result;
}

Extents ExtentsOf(const std::vector<int64_t>& dims, bool channels_last) {
  Extents extents;
  extents.dim = AtLeast2d(dims, 2, 1);
  const size_t rank = extents.dim.size();
  extents.stride.resize(rank);
  int64_t step = 1;
  if (channels_last) {
    extents.stride[1] = 1;
    step = extents.dim[1];
  }
  for (size_t d = rank; d-- > (channels_last ? 2u : 1u);) {
    extents.stride[d] = step;
    step *= extents.dim[d];
  }
  extents.stride[0] = step;
  return extents;
}

fe::graph::Tensor_attributes TensorOf(Tensor uid, const char* name, const Extents& extents) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_name(name)
      .set_dim(extents.dim)
      .set_stride(extents.stride);
}

template <class Attributes>
Attributes WindowOf(const ConvSpec& spec) {
  return Attributes()
      .set_pre_padding(AtLeast2d(spec.pads_begin, 0, 0))
      .set_post_padding(AtLeast2d(spec.pads_end, 0, 0))
      .set_stride(AtLeast2d(spec.strides, 0, 1))
      .set_dilation(AtLeast2d(spec.dilations, 0, 1));
}

void AddOperation(const ConvSpec& spec, fe::graph::Graph* graph) {
  const Extents x = ExtentsOf(spec.x, spec.channels_last);
  const Extents w = ExtentsOf(spec.w, spec.channels_last);
  const Extents y = ExtentsOf(spec.y, spec.channels_last);
  const auto finish = [](const auto& out, Tensor uid, const Extents& extents) {
    out->set_output(true).set_uid(uid).set_dim(extents.dim).set_stride(extents.stride);
  };
  switch (spec.kind) {
    case ConvKind::kForward:
      finish(graph->conv_fprop(graph->tensor(TensorOf(kX, "x", x)),
                               graph->tensor(TensorOf(kW, "w", w)),
                               WindowOf<fe::graph::Conv_fprop_attributes>(spec)),
             kY, y);
      return;
    case ConvKind::kGradInput:
      finish(graph->conv_dgrad(graph->tensor(TensorOf(kY, "dy", y)),
                               graph->tensor(TensorOf(kW, "w", w)),
                               WindowOf<fe::graph::Conv_dgrad_attributes>(spec)),
             kX, x);
      return;
    case ConvKind::kGradWeight:
      finish(graph->conv_wgrad(graph->tensor(TensorOf(kY, "dy", y)),
                               graph->tensor(TensorOf(kX, "x", x)),
                               WindowOf<fe::graph::Conv_wgrad_attributes>(spec)),
             kW, w);
      return;
  }
}

fe::DataType_t TypeOf(Precision precision) {
  if (precision == Precision::kBf16) return fe::DataType_t::BFLOAT16;
  return precision == Precision::kF16 ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

// What an engine may not do.
std::vector<fe::NumericalNote_t> Barred(Precision precision) {
  std::vector<fe::NumericalNote_t> notes = {
      fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
      fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION, fe::NumericalNote_t::FFT,
      fe::NumericalNote_t::WINOGRAD_TILE_13x13};
  // On float32 tensor cores compute in TF32.
  if (precision == Precision::kF32) notes.push_back(fe::NumericalNote_t::TENSOR_CORE);
  return notes;
}

std::string ToString(const ConvSpec& spec) {
  constexpr std::array<const char*, 3> kNames = {"convolution", "gradient of a convolution's input",
                                                 "gradient of a convolution's weight"};
  return absl::StrCat(NameOf(spec.precision), " ", kNames[static_cast<size_t>(spec.kind)],
                      " of x [", absl::StrJoin(spec.x, ","), "] and w [",
                      absl::StrJoin(spec.w, ","), "], strides ", absl::StrJoin(spec.strides, ","),
                      ", dilations ", absl::StrJoin(spec.dilations, ","), ", groups ", spec.groups);
}

// ---- Handles, one a stream: a handle has state that follows its stream.

class Handles {
 public:
  Handles() = default;
  ~Handles() {
    for (const auto& [stream, handle] : by_stream_) {
      static_cast<void>(fe::detail::destroy_handle(handle));
    }
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  // Made when the stream is first used.
  absl::StatusOr<cudnnHandle_t> Of(Stream stream) {
    MutexLock lock(&mu_);
    cudnnHandle_t& handle = by_stream_[stream];
    if (handle != nullptr) return handle;
    cudnnHandle_t made = nullptr;
    EBB_RETURN_IF_ERROR(StatusOf(fe::detail::create_handle(&made), "cudnnCreate"));
    if (absl::Status status = StatusOf(fe::detail::set_stream(made, stream), "cudnnSetStream");
        !status.ok()) {
      static_cast<void>(fe::detail::destroy_handle(made));
      return status;
    }
    return handle = made;
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<Stream, cudnnHandle_t> by_stream_ ABSL_GUARDED_BY(mu_);
};

// What plans are made for: the GPU of a handle, or one that a record tells of.
struct Target {
  std::shared_ptr<Handles> handles;  // null: planning only
  cudnnHandle_t handle = nullptr;    // of the null stream, on which nothing runs
  std::shared_ptr<fe::DeviceProperties> record;
  int compute_capability = 0;  // 90
};

class CudnnConvolution final : public PlannedConvolution {
 public:
  CudnnConvolution(const ConvSpec& spec, std::shared_ptr<Handles> handles)
      : kind_(spec.kind), handles_(std::move(handles)) {
    graph_.set_io_data_type(TypeOf(spec.precision))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    AddOperation(spec, &graph_);
  }

  absl::Status Plan(const ConvSpec& spec, const Target& target) {
    graph_.set_sm_version(target.compute_capability);
    if (target.record != nullptr) graph_.set_device_properties(target.record);
    EBB_RETURN_IF_ERROR(StatusOf(graph_.validate()));
    EBB_RETURN_IF_ERROR(StatusOf(target.record != nullptr
                                     ? graph_.build_operation_graph()
                                     : graph_.build_operation_graph(target.handle)));
    EBB_RETURN_IF_ERROR(
        StatusOf(graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})));
    graph_.deselect_numeric_notes(Barred(spec.precision))
        .deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION})
        .deselect_workspace_greater_than(MaxConvolutionWorkspace(spec).count());
    EBB_RETURN_IF_ERROR(StatusOf(graph_.check_support()));
    EBB_RETURN_IF_ERROR(StatusOf(graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE)));
    int64_t bytes = 0;
    EBB_RETURN_IF_ERROR(StatusOf(graph_.get_workspace_size(bytes)));
    workspace_ = Bytes(bytes);
    return StatusOf(graph_.get_plan_name(plan_));
  }

  Bytes workspace() const override { return workspace_; }
  const std::string& plan() const override { return plan_; }

  absl::Status Enqueue(const Launch& at, const void* a, const void* b, void* out,
                       void* workspace) const override {
    if (handles_ == nullptr) {
      return absl::FailedPreconditionError("cuDNN: this convolution was only planned");
    }
    return Try([&]() -> absl::Status {
      EBB_ASSIGN_OR_RETURN(const cudnnHandle_t handle, handles_->Of(at.stream));
      constexpr std::array<std::array<Tensor, 3>, 3> kPlaces = {
          {{kX, kW, kY}, {kY, kW, kX}, {kY, kX, kW}}};
      const auto& places = kPlaces[static_cast<size_t>(kind_)];
      std::unordered_map<int64_t, void*> pointers = {
          {places[0], const_cast<void*>(a)}, {places[1], const_cast<void*>(b)}, {places[2], out}};
      return StatusOf(graph_.execute(handle, pointers, workspace));
    });
  }

 private:
  const ConvKind kind_;
  const std::shared_ptr<Handles> handles_;
  fe::graph::Graph graph_;
  Bytes workspace_;
  std::string plan_;
};

class OpenCudnn final : public Cudnn {
 public:
  explicit OpenCudnn(Target target) : target_(std::move(target)) {}

  absl::StatusOr<std::shared_ptr<const PlannedConvolution>> Make(const ConvSpec& spec) override {
    std::shared_ptr<CudnnConvolution> made;
    EBB_RETURN_IF_ERROR(Annotate(Try([&] {
                                   made = std::make_shared<CudnnConvolution>(spec, target_.handles);
                                   return made->Plan(spec, target_);
                                 }),
                                 ToString(spec)));
    return std::shared_ptr<const PlannedConvolution>(std::move(made));
  }

 private:
  const Target target_;
};

}  // namespace

Bytes MaxConvolutionWorkspace(const ConvSpec& spec) {
  const auto bytes = [](const std::vector<int64_t>& dims) {
    return Bytes(NumElements(Shape(dims.begin(), dims.end())) *
                 static_cast<int64_t>(sizeof(float)));
  };
  return bytes(spec.x) + bytes(spec.w) + bytes(spec.y) + MiB(64);
}

absl::StatusOr<std::shared_ptr<Cudnn>> Cudnn::Open(const Properties& gpu) {
  EBB_RETURN_IF_ERROR(OpenLibrary());
  Target target;
  EBB_RETURN_IF_ERROR(Try([&]() -> absl::Status {
    target.handles = std::make_shared<Handles>();
    EBB_ASSIGN_OR_RETURN(target.handle, target.handles->Of(nullptr));
    return absl::OkStatus();
  }));
  target.compute_capability = 10 * gpu.compute_major + gpu.compute_minor;
  return std::shared_ptr<Cudnn>(std::make_shared<OpenCudnn>(std::move(target)));
}

absl::StatusOr<std::shared_ptr<Cudnn>> Cudnn::OpenOffline(const std::string& record) {
  const nlohmann::json json = nlohmann::json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("deviceVer") || !json["deviceVer"].is_number_integer()) {
    return absl::InvalidArgumentError(
        "cuDNN: the record of a GPU must be a JSON object with an integer \"deviceVer\"");
  }
  EBB_RETURN_IF_ERROR(OpenLibrary());
  Target target;
  target.compute_capability = json["deviceVer"].get<int>() / 10;
  target.record = std::make_shared<fe::DeviceProperties>();
  EBB_RETURN_IF_ERROR(Try([&] {
    return StatusOf(target.record->deserialize(std::vector<uint8_t>(record.begin(), record.end())));
  }));
  return std::shared_ptr<Cudnn>(std::make_shared<OpenCudnn>(std::move(target)));
}

absl::StatusOr<int64_t> CudnnVersion() {
  EBB_RETURN_IF_ERROR(OpenLibrary());
  return static_cast<int64_t>(fe::detail::get_backend_version());
}

absl::StatusOr<std::string> CudnnRecord(int ordinal) {
  EBB_RETURN_IF_ERROR(OpenLibrary());
  std::vector<uint8_t> text;
  EBB_RETURN_IF_ERROR(Try([&]() -> absl::Status {
    fe::DeviceProperties properties;
    EBB_RETURN_IF_ERROR(StatusOf(properties.set_device_id(ordinal).build()));
    return StatusOf(properties.serialize(text));
  }));
  return std::string(text.begin(), text.end());
}

}  // namespace ebb::device::cuda
