// Reports as text for people: tables, numbers, the lane picture. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ebb/v1/service.pb.h"

namespace ebb::cli {

// Columns padded to their widest cell; no blanks at line ends. A multi-line cell is not possible.
std::string Table(const std::vector<std::vector<std::string>>& rows);

std::string WithCommas(int64_t number);       // 9,380
std::string Short(double value);              // four significant digits
std::string ShortDuration(absl::Duration d);  // 45s, 21m, 2h05m, 3d
std::string Bar(double fraction, int width);  // "#####....."
std::string StateName(const v1::Job& job);    // "running"
// The newest training loss, or "-".
std::string LossOf(const v1::Job& job);

std::string JobTable(const v1::ListResponse& jobs);
std::string JobDetails(const v1::Job& job);
std::string MemoryPicture(const v1::MemoryReport& report);
std::string DeviceText(const v1::DeviceReport& report);
std::string ExplainText(const v1::ExplainReport& report);
std::string EstimateText(const v1::EstimateResponse& response);  // a column a device
std::string StoredTable(const v1::ListStoredResponse& stored);
// "j-19 waits for memory: ..." or what it does instead.
std::string WhyText(const v1::Job& job);

}  // namespace ebb::cli
