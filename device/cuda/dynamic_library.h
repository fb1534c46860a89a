// A shared library opened by name, and kept open until the process ends.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::device::cuda {

class DynamicLibrary {
 public:
  // By the loader's rules, then in the folders of the CUDA toolkit. Unavailable says why not.
  static absl::StatusOr<DynamicLibrary> Open(absl::string_view name);

  void* handle() const { return handle_; }
  // Unavailable when the library has no such function.
  template <class F>
  absl::Status Find(const char* function, F** found) const {
    void* symbol = nullptr;
    absl::Status status = FindSymbol(function, &symbol);
    *found = reinterpret_cast<F*>(symbol);
    return status;
  }

 private:
  DynamicLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::Status FindSymbol(const char* function, void** found) const;

  std::string name_;
  void* handle_;
};

}  // namespace ebb::device::cuda
