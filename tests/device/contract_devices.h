// Which devices the contract is held against: said by each program that has contract_test.cc.
#pragma once

#include <string>
#include <vector>

namespace ebb::testing {

// Names for OpenDevice, "checked_" before those that run under CheckRaces().
std::vector<std::string> ContractDevices();

}  // namespace ebb::testing
