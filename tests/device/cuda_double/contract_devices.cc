#include "tests/device/contract_devices.h"

namespace ebb::testing {

std::vector<std::string> ContractDevices() { return {"cuda", "checked_cuda"}; }

}  // namespace ebb::testing
