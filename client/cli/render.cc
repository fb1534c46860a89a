#include "client/cli/render.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "proto/names.h"

namespace ebb::cli {
namespace {

std::string Size(int64_t bytes) { return FormatBytes(Bytes(bytes)); }

absl::Duration ToDuration(const google::protobuf::Duration& wire) {
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& wire) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixSeconds(wire.seconds()),
                          absl::LocalTimeZone());
}

bool IsFinal(const v1::Job& job) { return job.state() >= v1::Job::STATE_SUCCEEDED; }

// What it holds while it trains.
int64_t MemoryOf(const v1::Job& job) {
  return job.resident_bytes() + job.staging_bytes() + job.step_peak_bytes();
}

std::string Steps(const v1::Job& job) {
  if (job.total_steps() == 0) return job.step() == 0 ? "-" : WithCommas(job.step());
  return absl::StrCat(WithCommas(job.step()), "/", WithCommas(job.total_steps()));
}

std::string Eta(const v1::Job& job) {
  if (!job.has_eta() || IsFinal(job)) return "-";
  const std::string text = ShortDuration(ToDuration(job.eta()));
  return job.state() == v1::Job::STATE_RUNNING ? text : absl::StrCat("~", text);
}

// Why it waits, or why it ended.
std::string Reason(const v1::Job& job) {
  if (job.state() == v1::Job::STATE_FAILED) {
    return absl::StrCat(
        proto::ShortName(*v1::Job::Reason_descriptor(), static_cast<int>(job.reason())), ": ",
        job.message());
  }
  if (job.state() == v1::Job::STATE_SUCCEEDED) return job.message();
  // A running job's waits between sub-models come and go: `ebb why` and `ebb show` tell them. What
  // its client lets it wait for is another matter.
  const bool lasts = absl::StartsWith(job.why(), "waits for data from its client");
  return job.state() == v1::Job::STATE_RUNNING && !lasts ? "" : job.why();
}

// One end of a lane as `width` characters from its end inwards: held, then waiting.
std::string Tide(const v1::MemoryReport::Stack& stack, int64_t lane_bytes, int width) {
  if (lane_bytes <= 0) return "";
  const auto chars = [&](int64_t bytes) {
    return static_cast<size_t>(
        std::lround(static_cast<double>(bytes) * width / static_cast<double>(lane_bytes)));
  };
  return std::string(chars(stack.held_bytes()), '#') +
         std::string(chars(stack.waiting_bytes()), '~');
}

std::string LanePicture(const v1::MemoryReport::Lane& lane, size_t label_width) {
  constexpr int kWidth = 40;
  std::string bottom = Tide(lane.bottom(), lane.size_bytes(), kWidth);
  std::string top = Tide(lane.top(), lane.size_bytes(), kWidth);
  if (!lane.bottom().job().empty()) bottom += '>';
  if (!lane.top().job().empty()) top += '<';
  if (bottom.size() > kWidth) bottom.resize(kWidth);
  if (bottom.size() + top.size() > kWidth) top.resize(kWidth - bottom.size());
  std::reverse(top.begin(), top.end());
  const std::string gap(kWidth - bottom.size() - top.size(), '.');
  const std::string left = lane.bottom().job().empty() ? "-" : lane.bottom().job();
  const std::string right = lane.top().job().empty() ? "-" : lane.top().job();
  const double used = lane.size_bytes() <= 0
                          ? 0
                          : 100.0 * static_cast<double>(lane.size_bytes() - lane.free_bytes()) /
                                static_cast<double>(lane.size_bytes());
  return absl::StrFormat("lane %d  %9s  %*s |%s%s%s| %-*s  %3.0f %% used\n", lane.id(),
                         Size(lane.size_bytes()), static_cast<int>(label_width), left, bottom, gap,
                         top, static_cast<int>(label_width), right, used);
}

}  // namespace

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string WithCommas(int64_t number) {
  const std::string digits = absl::StrCat(number);
  const size_t start = number < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > start && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string Short(double value) { return absl::StrFormat("%.4g", value); }

std::string ShortDuration(absl::Duration d) {
  const int64_t seconds = absl::ToInt64Seconds(d + absl::Milliseconds(500));
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrCat((seconds + 30) / 60, "m");
  if (seconds < 48 * 3600) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds % 3600 / 60);
  return absl::StrCat(seconds / 86400, "d");
}

std::string Bar(double fraction, int width) {
  if (!(fraction > 0)) fraction = 0;
  const auto done = static_cast<size_t>(std::min(1.0, fraction) * width);
  return std::string(done, '#') + std::string(static_cast<size_t>(width) - done, '.');
}

std::string StateName(const v1::Job& job) {
  return proto::ShortName(*v1::Job::State_descriptor(), static_cast<int>(job.state()));
}

std::string LossOf(const v1::Job& job) {
  const auto it = job.metrics().find("train/loss");
  return it == job.metrics().end() ? "-" : Short(it->second);
}

std::string JobTable(const v1::ListResponse& jobs) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "NAME", "STATE", "STEP", "BATCH", "LOSS", "MEM", "SHARE", "ETA", "WHY"}};
  for (const v1::Job& job : jobs.jobs()) {
    const bool running = job.state() == v1::Job::STATE_RUNNING;
    const bool holds = running || job.state() == v1::Job::STATE_PAUSED;
    std::string reason = Reason(job);
    if (reason.size() > 100) reason = absl::StrCat(reason.substr(0, 97), "...");
    rows.push_back({job.id(), job.name(), StateName(job), Steps(job),
                    job.batch_size() > 0 ? WithCommas(job.batch_size()) : "-", LossOf(job),
                    holds ? Size(MemoryOf(job)) : "-",
                    running ? absl::StrFormat("%.0f %%", job.share() * 100) : "-", Eta(job),
                    reason});
  }
  return Table(rows);
}

std::string JobDetails(const v1::Job& job) {
  std::vector<std::vector<std::string>> rows = {{"job", job.id()}, {"name", job.name()}};
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty() && value != "-") rows.push_back({key, value});
  };
  add("state", StateName(job));
  if (IsFinal(job) && job.reason() != v1::Job::REASON_NONE) {
    add("reason", proto::ShortName(*v1::Job::Reason_descriptor(), static_cast<int>(job.reason())));
  }
  add("message", job.message());
  add("why", job.why());
  add("step", Steps(job));
  if (job.total_epochs() > 0) {
    add("epoch", absl::StrCat(Short(job.epoch()), " of ", Short(job.total_epochs())));
  }
  std::vector<std::pair<std::string, double>> metrics(job.metrics().begin(), job.metrics().end());
  std::sort(metrics.begin(), metrics.end());
  for (const auto& [name, value] : metrics) add(name, Short(value));
  add("learning rate", Short(job.learning_rate()));
  if (job.steps_per_second() > 0)
    add("speed", absl::StrCat(Short(job.steps_per_second()), " steps/s"));
  if (job.share() > 0) add("share", absl::StrFormat("%.0f %%", job.share() * 100));
  add("eta", Eta(job));
  if (job.has_elapsed()) {
    const absl::Duration elapsed = ToDuration(job.elapsed());
    add("device time", elapsed < absl::Minutes(1)
                           ? absl::StrCat(Short(absl::ToDoubleSeconds(elapsed)), "s")
                           : ShortDuration(elapsed));
  }
  if (job.streamed_bytes() > 0) {
    add("on the host", absl::StrCat(Size(job.streamed_bytes()), " of its state"));
  }
  add("memory", absl::StrCat("resident ", Size(job.resident_bytes()), ", staging ",
                             Size(job.staging_bytes()), ", step peak ", Size(job.step_peak_bytes()),
                             ", held now ", Size(job.held_bytes())));
  if (job.lane() >= 0) add("lane", absl::StrCat(job.lane()));
  if (job.batch_size() > 0) add("batch size", WithCommas(job.batch_size()));
  add("priority", absl::StrCat(job.priority(), ", weight ", Short(job.weight()),
                               ", sub-models in flight at most ", job.max_in_flight()));
  std::vector<std::pair<std::string, std::string>> labels(job.labels().begin(), job.labels().end());
  std::sort(labels.begin(), labels.end());
  for (const auto& [key, value] : labels) add(absl::StrCat("label ", key), value);
  if (job.has_submitted()) add("submitted", TimeText(job.submitted()));
  if (job.has_started()) add("started", TimeText(job.started()));
  if (job.has_finished()) add("finished", TimeText(job.finished()));
  for (const std::string& warning : job.warnings()) add("warning", warning);
  return Table(rows);
}

std::string MemoryPicture(const v1::MemoryReport& report) {
  std::string text = absl::StrCat("pool ", Size(report.pool_bytes()));
  // In the order of how long they live; classes that are empty are left out, but free.
  std::vector<std::string> order = {"resident", "streamed", "saved",   "transient", "workspace",
                                    "input",    "staging",  "padding", "waiting",   "free"};
  for (const auto& [name, bytes] : report.classes()) {
    if (std::find(order.begin(), order.end(), name) == order.end()) order.push_back(name);
  }
  for (const std::string& name : order) {
    const auto it = report.classes().find(name);
    if (it == report.classes().end() || (it->second == 0 && name != "free")) continue;
    absl::StrAppend(&text, "   ", name, " ", Size(it->second));
  }
  text += "\n";
  if (report.outside_bytes() > 0) {
    absl::StrAppend(&text, "outside of the pool ", Size(report.outside_bytes()), "\n");
  }
  size_t label_width = 4;
  for (const auto& lane : report.lanes()) {
    label_width = std::max({label_width, lane.bottom().job().size(), lane.top().job().size()});
  }
  for (const auto& lane : report.lanes()) text += LanePicture(lane, label_width);
  if (!report.host().empty()) {
    std::vector<std::pair<std::string, int64_t>> host(report.host().begin(), report.host().end());
    std::sort(host.begin(), host.end());
    text += "host";
    for (const auto& [name, bytes] : host) absl::StrAppend(&text, "   ", name, " ", Size(bytes));
    text += "\n";
  }
  const auto& overlap = report.overlap();
  if (overlap.busy_us() > 0) {
    absl::StrAppend(
        &text,
        absl::StrFormat("overlap  two jobs executed at once %.0f %% of the busy time; shared a "
                        "lane in %.0f %% of "
                        "decisions, above either's own peak in %.0f %%\n",
                        100.0 * static_cast<double>(overlap.concurrent_us()) /
                            static_cast<double>(overlap.busy_us()),
                        overlap.samples() == 0 ? 0
                                               : 100.0 * static_cast<double>(overlap.shared()) /
                                                     static_cast<double>(overlap.samples()),
                        overlap.samples() == 0 ? 0
                                               : 100.0 * static_cast<double>(overlap.deep()) /
                                                     static_cast<double>(overlap.samples())));
  }
  return text;
}

std::string DeviceText(const v1::DeviceReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"device", absl::StrCat(report.kind(), ", ", report.name())},
      {"memory", absl::StrCat(Size(report.memory_bytes()), ", pool ", Size(report.pool_bytes()))},
      {"lanes", absl::StrCat(report.lanes(), ", streams ", report.streams(), " of ",
                             report.threads_per_stream(), " threads")},
      {"policy", absl::StrCat(report.policy(), ", co-run ", report.co_run())},
      {"ebbd", report.version()}};
  if (report.simulated()) {
    rows.push_back({"simulated", absl::StrCat("profile ", report.profile(), ", overlap model ",
                                              report.overlap_model())});
    rows.push_back({"constants", absl::StrCat("sha256:", report.constants_sha256())});
  }
  if (report.peak_flops() > 0) {
    rows.push_back({"peak", absl::StrFormat("%.4g TFLOP/s, %.4g GB/s", report.peak_flops() / 1e12,
                                            report.peak_bandwidth() / 1e9)});
  }
  return Table(rows);
}

// The levels of the memory ladder; a star marks the one in use.
static std::string LadderTable(const v1::ExplainReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"LEVEL", "REGION", "STEP PEAK", "ON THE HOST", "COPIED A STEP"}};
  for (const auto& level : report.ladder()) {
    rows.push_back({absl::StrCat(level.name(), level.in_use() ? " *" : ""),
                    Size(level.region_bytes()), Size(level.step_peak_bytes()),
                    Size(level.host_bytes()), Size(level.copied_bytes())});
  }
  return Table(rows);
}

// "takes turns: together 0.940 of their speed alone (0.471 + 0.469); tried again in 64 steps".
static std::string PairText(const v1::ExplainReport& report, const v1::ExplainReport::Pair& pair) {
  std::string text = pair.state() == "turns"      ? "takes turns"
                     : pair.state() == "together" ? "runs together"
                                                  : absl::StrCat(pair.state(), " now");
  if (pair.own() + pair.other() > 0) {
    absl::StrAppendFormat(&text, ": together %.3f of their speed alone (%.3f + %.3f)",
                          pair.own() + pair.other(), pair.own(), pair.other());
  } else if (report.crowd() > 0) {
    absl::StrAppendFormat(&text, ": three and more together %.3f of their speed alone",
                          report.crowd());
  }
  if (pair.lost() > 0) absl::StrAppend(&text, "; lost ", pair.lost(), " times");
  if (pair.retry_in_steps() > 0) {
    absl::StrAppend(&text, "; tried again in ", pair.retry_in_steps(), " steps of both");
  }
  if (pair.known_sub_models() > 0) {
    absl::StrAppend(&text, "; of ", pair.known_sub_models(), " pairs of sub-models ",
                    pair.apart_sub_models(), " wait for each other");
  }
  return text;
}

std::string ExplainText(const v1::ExplainReport& report) {
  std::string text = report.graph();
  if (!text.empty() && text.back() != '\n') text += '\n';
  absl::StrAppend(&text, "\n");
  std::vector<std::vector<std::string>> rows = {
      {"SUB-MODEL", "NODES", "PHASE", "EXTENT", "HELD AFTER", "SAVED"}};
  int index = 0;
  for (const auto& sub_model : report.sub_models()) {
    rows.push_back({absl::StrCat(index++), absl::StrCat(sub_model.first(), "-", sub_model.last()),
                    sub_model.phase(), Size(sub_model.extent_bytes()),
                    Size(sub_model.held_after_bytes()), Size(sub_model.saved_bytes())});
  }
  absl::StrAppend(&text, Table(rows), "\n");
  if (report.ladder_size() > 0) absl::StrAppend(&text, LadderTable(report), "\n");
  std::string resident;
  std::vector<std::pair<std::string, int64_t>> parts(report.resident().begin(),
                                                     report.resident().end());
  std::sort(parts.begin(), parts.end());
  for (const auto& [name, bytes] : parts) {
    absl::StrAppend(&resident, resident.empty() ? "" : ", ", name, " ", Size(bytes));
  }
  std::vector<std::vector<std::string>> facts = {
      {"plan", absl::StrCat(report.plan(), ", peak ", Size(report.plan_peak_bytes()),
                            " (live peak ", Size(report.live_peak_bytes()), ")")},
      {"quantum", Size(report.quantum_bytes())},
      {"resident", resident},
      {"admission", report.admission()},
      {"numerics", report.numerics_key()}};
  if (!report.next_batch().empty()) facts.push_back({"next batch", report.next_batch()});
  if (report.solo_step_micros() > 0) {
    facts.push_back({"step alone", absl::StrFormat("%.3f ms", report.solo_step_micros() / 1e3)});
  }
  for (const auto& pair : report.pairs()) {
    facts.push_back({absl::StrCat("with ", pair.job()), PairText(report, pair)});
  }
  if (report.waiting() > 0) {
    facts.push_back({"waits", absl::StrFormat("%.1f %% of its launches' time, for sub-models that "
                                              "they would lose with",
                                              report.waiting() * 100)});
  }
  absl::StrAppend(&text, Table(facts));
  return text;
}

std::string StoredTable(const v1::ListStoredResponse& stored) {
  std::vector<std::vector<std::string>> rows = {{"HANDLE", "KIND", "NAME", "SIZE", "STORED"}};
  for (const v1::StoredObject& object : stored.objects()) {
    rows.push_back({object.handle().substr(0, 19),
                    proto::ShortName(*v1::ObjectKind_descriptor(), static_cast<int>(object.kind())),
                    object.name().empty() ? "-" : object.name(), Size(object.bytes()),
                    TimeText(object.stored())});
  }
  return Table(rows);
}

std::string WhyText(const v1::Job& job) {
  if (!job.why().empty())
    return absl::StrCat(job.id(), " is ", StateName(job), ": ", job.why(), "\n");
  const std::string reason = Reason(job);
  return absl::StrCat(job.id(), " is ", StateName(job), IsFinal(job) ? "" : ": it does not wait",
                      reason.empty() ? "" : absl::StrCat(": ", reason), "\n");
}

}  // namespace ebb::cli
