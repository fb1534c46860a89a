#include "perfmodel/look_up.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/least_squares.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kLeastSamples = 40;
constexpr double kSector = 32;  // bytes that a GPU's memory gives at least
constexpr double kPage = 4096;
constexpr double kIndex = 8;     // bytes of an index
constexpr double kAhead = 2048;  // bytes of rows that a processor works on at once

// Part of the look-ups that find their item (a row, a page) where the `kept` last used ones of
// `bytes` each are; indices and results pass through there too.
double Hits(const LookUp& look_up, LookUpPass pass, const Popularity& items, double kept,
            double bytes) {
  if (look_up.look_ups <= 0) return 1;
  const double streamed = kIndex + look_up.bags / look_up.look_ups * look_up.row_bytes();
  const double steady = HitRate(items, kept, streamed / bytes);
  if (pass == LookUpPass::kForward) return steady;
  // The gradient has just been filled with zeros: the items that were filled last are there, others
  // when they have been added to.
  const double unique = ExpectedUnique(items, look_up.look_ups);
  const double again = look_up.look_ups - unique;
  const double filled = std::min(1.0, kept / items.rows());
  const double stay = again > 0 ? std::min(1.0, steady * look_up.look_ups / again) : 0;
  return std::min(1.0, (unique * filled + again * stay) / look_up.look_ups);
}

// What a pass does, in numbers that each take their time: fixed cost, bags, rows, bytes of rows and
// of bags; for each cache the rows that it does not hold, their bytes and the stalls for them; for
// each number of pages
// the rows on others; backward the bytes of zeros, and those beyond each cache.
std::vector<double> TermsOf(const LookUp& look_up, LookUpPass pass,
                            const std::vector<double>& caches, const std::vector<double>& pages) {
  const double row = look_up.row_bytes();
  std::vector<double> terms = {1, look_up.bags, look_up.look_ups, look_up.look_ups * row,
                               look_up.bags * row};
  for (const double cache : caches) {
    const double missed = look_up.look_ups * (1 - Hits(look_up, pass, look_up.popularity,
                                                       cache * look_up.cache_share / row, row));
    const double part = look_up.look_ups > 0 ? missed / look_up.look_ups : 0;
    terms.push_back(missed);
    terms.push_back(missed * row);
    // Rows are fetched while others are added, some kilobytes ahead: a stall for all that are
    // missing among these.
    const double ahead = std::max(1.0, kAhead / row);
    terms.push_back(look_up.look_ups * (1 - std::pow(1 - part, ahead)) / ahead);
  }
  if (!pages.empty()) {
    const Popularity items = PagePopularity(look_up.popularity, std::max(1.0, kPage / row));
    for (const double kept : pages) {
      terms.push_back(look_up.look_ups *
                      (1 - Hits(look_up, pass, items, kept * look_up.cache_share, kPage)));
    }
  }
  if (pass == LookUpPass::kBackward) {
    const double table = look_up.rows * row;
    terms.push_back(table);
    for (const double cache : caches) {
      terms.push_back(std::max(0.0, table - cache * look_up.cache_share));
    }
  }
  return terms;
}

absl::Status Check(const LookUp& look_up) {
  const double sizes[] = {look_up.rows, look_up.width,         look_up.look_ups,
                          look_up.bags, look_up.element_bytes, look_up.cache_share};
  for (const double size : sizes) {
    if (!std::isfinite(size) || size < 0) {
      return absl::InvalidArgumentError(
          "a look-up's sizes (rows, width, look-ups, bags) must be finite and not negative");
    }
  }
  if (look_up.rows < 1 || look_up.row_bytes() <= 0 || look_up.popularity.classes.empty()) {
    return absl::InvalidArgumentError(
        "a look-up needs a table of at least one row and element, and how often rows are used");
  }
  return absl::OkStatus();
}

}  // namespace

LookUpModel::Law LookUpModel::FitLaw(const std::vector<LookUpSample>& samples) {
  Law law{.samples = static_cast<int>(samples.size())};
  if (samples.size() < kLeastSamples) return law;
  for (double cache = 1 << 18; cache <= 1 << 27; cache *= 2) law.caches.push_back(cache);
  for (double count = 256; count <= 8192; count *= 2) law.pages.push_back(count);
  std::vector<double> micros;
  std::vector<std::vector<double>> all_terms;
  law.least_bytes = HUGE_VAL;
  for (const LookUpSample& sample : samples) {
    micros.push_back(sample.micros);
    all_terms.push_back(TermsOf(sample.look_up, sample.pass, law.caches, law.pages));
    const double bytes = sample.look_up.look_ups * sample.look_up.row_bytes();
    law.least_bytes = std::min(law.least_bytes, bytes);
    law.most_bytes = std::max(law.most_bytes, bytes);
  }
  law.coefficients = FitRelative(all_terms, micros);
  // Intervals from samples that the law did not see: five folds.
  std::vector<double> ratios;
  for (size_t fold = 0; fold < 5; ++fold) {
    std::vector<std::vector<double>> terms;
    std::vector<double> times;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (i % 5 == fold) continue;
      terms.push_back(all_terms[i]);
      times.push_back(micros[i]);
    }
    const std::vector<double> x = FitRelative(terms, times);
    for (size_t i = fold; i < samples.size(); i += 5) {
      ratios.push_back(micros[i] / std::max(Dot(all_terms[i], x), 1e-9));
    }
  }
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  law.low = ratios[static_cast<size_t>(0.1 * (n - 1))];
  law.high = ratios[static_cast<size_t>(std::ceil(0.9 * (n - 1)))];
  return law;
}

absl::StatusOr<LookUpModel> LookUpModel::Fit(absl::Span<const LookUpSample> samples) {
  LookUpModel model;
  bool any = false;
  for (const LookUpPass pass : {LookUpPass::kForward, LookUpPass::kBackward}) {
    std::vector<LookUpSample> of_pass;
    for (const LookUpSample& sample : samples) {
      if (sample.pass != pass) continue;
      EBB_RETURN_IF_ERROR(Check(sample.look_up));
      if (!std::isfinite(sample.micros) || sample.micros <= 0) {
        return absl::InvalidArgumentError("a sample of look-ups took no finite time above 0");
      }
      of_pass.push_back(sample);
    }
    Law& law = model.laws_[static_cast<size_t>(pass)];
    law = FitLaw(of_pass);
    any |= !law.coefficients.empty();
  }
  if (!any) {
    return absl::InvalidArgumentError(absl::StrCat("a model of look-ups needs at least ",
                                                   kLeastSamples, " samples of a pass, given ",
                                                   samples.size()));
  }
  model.source_ = absl::StrCat(samples.size(), " measured look-ups");
  return model;
}

LookUpModel LookUpModel::APriori(const Hardware& hardware) {
  LookUpModel model;
  const double per_byte = 1 / (0.8 * hardware.bytes_per_us());
  for (const LookUpPass pass : {LookUpPass::kForward, LookUpPass::kBackward}) {
    Law& law = model.laws_[static_cast<size_t>(pass)];
    law.caches = {hardware.l2_mib * 1024 * 1024};
    // A gradient is read and written; its index is sorted first.
    const double times = pass == LookUpPass::kBackward ? 2 : 1;
    // Fixed, bags, rows (an index of 8 bytes), their bytes from the cache, bytes of bags; from
    // memory: rows (part of a sector is lost, half of one on average), bytes, stalls (other threads
    // run meanwhile); zeros.
    law.coefficients = {5,
                        0,
                        8 * per_byte * times,
                        per_byte / 2 * times,
                        per_byte,
                        kSector / 2 * per_byte * times,
                        per_byte / 2 * times,
                        0};
    if (pass == LookUpPass::kBackward) {
      law.coefficients.push_back(per_byte / 2);
      law.coefficients.push_back(per_byte / 2);
    }
    law.low = 0.5;
    law.high = 2;
    law.least_bytes = HUGE_VAL;
  }
  model.source_ = absl::StrCat("data sheet of ", hardware.key);
  return model;
}

absl::StatusOr<Estimate> LookUpModel::Predict(const LookUp& look_up, LookUpPass pass) const {
  const Law& law = laws_[static_cast<size_t>(pass)];
  if (law.coefficients.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("look-ups ", pass == LookUpPass::kForward ? "forward" : "backward",
                     " were not measured on this device: ", law.samples, " samples, at least ",
                     kLeastSamples, " are needed"));
  }
  EBB_RETURN_IF_ERROR(Check(look_up));
  Estimate estimate{.source = source_};
  const double bytes = look_up.look_ups * look_up.row_bytes();
  if (bytes <= 0) return estimate;
  estimate.median = Dot(TermsOf(look_up, pass, law.caches, law.pages), law.coefficients);
  estimate.low = estimate.median * law.low;
  estimate.high = estimate.median * law.high;
  estimate.in_hull = bytes >= law.least_bytes / 2 && bytes <= law.most_bytes * 2;
  return estimate;
}

absl::StatusOr<Estimate> LookUpModel::Predict(absl::Span<const LookUp> tables,
                                              LookUpPass pass) const {
  double all_bytes = 0;
  for (const LookUp& table : tables) all_bytes += table.look_ups * table.row_bytes();
  Estimate sum{.source = source_};
  for (LookUp table : tables) {
    if (all_bytes > 0) table.cache_share *= table.look_ups * table.row_bytes() / all_bytes;
    EBB_ASSIGN_OR_RETURN(const Estimate one, Predict(table, pass));
    sum.median += one.median;
    sum.low += one.low;
    sum.high += one.high;
    sum.in_hull &= one.in_hull;
  }
  return sum;
}

}  // namespace ebb::perfmodel
