#include "perfmodel/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "perfmodel/report_text.h"

namespace ebb::perfmodel {
namespace {

constexpr double kWidth = 640, kHeight = 400, kLeft = 70, kBottom = 50, kTop = 40, kRight = 20;

std::string Xml(absl::string_view text) {
  return absl::StrReplaceAll(Escaped(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// 1, 2 or 5 times a power of ten: about five steps to `most`.
double TickOf(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double times : {1, 2, 5}) {
    if (most / (times * power) <= 5) return times * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<ScalingPoint> ScalingOf(absl::Span<const StrategyReport> reports) {
  std::map<int64_t, const StrategyReport*> best;
  for (const StrategyReport& report : reports) {
    const StrategyReport*& now = best[report.strategy.ranks()];
    const bool better =
        now == nullptr || (report.fits && !now->fits) ||
        (report.fits == now->fits && report.samples_per_second > now->samples_per_second);
    if (better) now = &report;
  }
  std::vector<ScalingPoint> points;
  for (const auto& [gpus, report] : best) {
    const double samples = report->samples_per_second;
    ScalingPoint point{.gpus = gpus, .samples = samples};
    const double micros = report->step.median;
    point.low = report->step.high > 0 ? samples * micros / report->step.high : samples;
    point.high = report->step.low > 0 ? samples * micros / report->step.low : samples;
    if (report->efficiency.value_or(0) > 0) point.ideal = samples / *report->efficiency;
    points.push_back(point);
  }
  return points;
}

std::string ScalingSvg(absl::Span<const StrategyReport> reports, absl::string_view title) {
  const std::vector<ScalingPoint> points = ScalingOf(reports);
  double most = 0, gpus = 1;
  for (const ScalingPoint& point : points) {
    most = std::max({most, point.ideal, point.high});
    gpus = std::max(gpus, static_cast<double>(point.gpus));
  }
  if (most <= 0) most = 1;
  const auto x = [&](double value) { return kLeft + value / gpus * (kWidth - kLeft - kRight); };
  const auto y = [&](double value) {
    return kHeight - kBottom - value / most * (kHeight - kBottom - kTop);
  };
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%.0f\" y=\"22\" font-size=\"15\">%s</text>\n",
      kWidth, kHeight, kLeft, Xml(title));
  for (double tick = 0; tick <= most * 1.0001; tick += TickOf(most)) {
    absl::StrAppendFormat(&out,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                          kLeft, y(tick), kWidth - kRight, y(tick), kLeft - 6, y(tick) + 4, tick);
  }
  std::string ideal, line;
  for (const ScalingPoint& point : points) {
    const auto at = static_cast<double>(point.gpus);
    if (point.ideal > 0) absl::StrAppendFormat(&ideal, "%.1f,%.1f ", x(at), y(point.ideal));
    absl::StrAppendFormat(&line, "%.1f,%.1f ", x(at), y(point.samples));
    absl::StrAppendFormat(
        &out,
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#1f77b4\"/>"
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#1f77b4\"/>"
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
        x(at), y(point.low), x(at), y(point.high), x(at), y(point.samples), x(at),
        kHeight - kBottom + 18, point.gpus);
  }
  absl::StrAppendFormat(
      &out,
      "<polyline points=\"%s\" fill=\"none\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>\n"
      "<polyline points=\"%s\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>\n"
      "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">GPUs</text>\n"
      "<text x=\"%.0f\" y=\"%.0f\">samples a second, 80 %% intervals; dashed: as many GPUs "
      "alone</text>\n</svg>\n",
      ideal, line, (kLeft + kWidth - kRight) / 2, kHeight - 12, kLeft, kTop - 4);
  return out;
}

}  // namespace ebb::perfmodel
