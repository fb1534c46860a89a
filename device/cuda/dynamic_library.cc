#include "device/cuda/dynamic_library.h"

#include <dlfcn.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace ebb::device::cuda {

absl::StatusOr<DynamicLibrary> DynamicLibrary::Open(absl::string_view name) {
  constexpr std::array<absl::string_view, 3> kFolders = {"", "/usr/local/cuda/lib64/",
                                                         "/usr/local/cuda/lib/"};
  std::string why;
  for (const absl::string_view folder : kFolders) {
    const std::string path = absl::StrCat(folder, name);
    if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      return DynamicLibrary(std::string(name), handle);
    }
    const char* const error = dlerror();
    if (why.empty()) why = error == nullptr ? path : error;
  }
  return absl::UnavailableError(
      absl::StrCat(why, "; put the folder that it is in into LD_LIBRARY_PATH"));
}

absl::Status DynamicLibrary::FindSymbol(const char* function, void** found) const {
  *found = dlsym(handle_, function);
  if (*found != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(name_, " has no ", function));
}

}  // namespace ebb::device::cuda
