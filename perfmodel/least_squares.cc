#include "perfmodel/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ebb::perfmodel {
namespace {

constexpr double kTolerance = 1e-10;

// Normal equations of terms scaled to length 1.
struct Normal {
  size_t n = 0;
  std::vector<double> matrix;  // n x n
  std::vector<double> right;
  std::vector<double> length;  // of the terms as they were; 0: nothing but zeros

  double at(size_t i, size_t j) const { return matrix[i * n + j]; }
};

Normal MakeNormal(absl::Span<const std::vector<double>> a, absl::Span<const double> y,
                  absl::Span<const double> weights) {
  Normal normal{.n = a[0].size()};
  const size_t n = normal.n;
  normal.matrix.assign(n * n, 0);
  normal.right.assign(n, 0);
  normal.length.assign(n, 0);
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t j = 0; j < n; ++j) {
      const double term = a[row][j] * weights[row];
      normal.length[j] += term * term;
    }
  }
  for (double& length : normal.length) length = std::sqrt(length);
  std::vector<double> terms(n);
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t j = 0; j < n; ++j) {
      terms[j] = normal.length[j] > 0 ? a[row][j] * weights[row] / normal.length[j] : 0;
    }
    for (size_t i = 0; i < n; ++i) {
      normal.right[i] += terms[i] * y[row] * weights[row];
      for (size_t j = 0; j < n; ++j) normal.matrix[i * n + j] += terms[i] * terms[j];
    }
  }
  return normal;
}

// Solves for the terms of `active` alone, by Cholesky's method; false: they depend on each other.
bool Solve(const Normal& normal, const std::vector<size_t>& active, std::vector<double>* x) {
  const size_t m = active.size();
  std::vector<double> factor(m * m, 0);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = normal.at(active[i], active[j]);
      for (size_t k = 0; k < j; ++k) sum -= factor[i * m + k] * factor[j * m + k];
      if (i != j) {
        factor[i * m + j] = sum / factor[j * m + j];
      } else if (sum <= kTolerance) {
        return false;
      } else {
        factor[i * m + i] = std::sqrt(sum);
      }
    }
  }
  std::vector<double> z(m);
  for (size_t i = 0; i < m; ++i) {
    z[i] = normal.right[active[i]];
    for (size_t k = 0; k < i; ++k) z[i] -= factor[i * m + k] * z[k];
    z[i] /= factor[i * m + i];
  }
  for (size_t i = m; i-- > 0;) {
    for (size_t k = i + 1; k < m; ++k) z[i] -= factor[k * m + i] * z[k];
    z[i] /= factor[i * m + i];
  }
  *x = std::move(z);
  return true;
}

// The inactive term whose growth lowers the error most; n: none does.
size_t Steepest(const Normal& normal, const std::vector<double>& x,
                const std::vector<bool>& barred) {
  size_t best = normal.n;
  double most =
      kTolerance * std::max(1.0, *std::max_element(normal.right.begin(), normal.right.end()));
  for (size_t j = 0; j < normal.n; ++j) {
    if (barred[j] || normal.length[j] == 0) continue;
    double slope = normal.right[j];
    for (size_t k = 0; k < normal.n; ++k) slope -= normal.at(j, k) * x[k];
    if (slope > most) most = slope, best = j;
  }
  return best;
}

// Moves x towards the solution `z` of the active terms until one of them would be negative, and
// drops those that are 0 there; true: the whole way.
bool Step(std::vector<size_t>* active, const std::vector<double>& z, std::vector<double>* x) {
  double part = 1;
  for (size_t i = 0; i < active->size(); ++i) {
    const double from = (*x)[(*active)[i]];
    if (z[i] <= 0) part = std::min(part, from / (from - z[i]));
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < active->size(); ++i) {
    double& value = (*x)[(*active)[i]];
    value += part * (z[i] - value);
    if (part < 1 && value <= kTolerance) {
      value = 0;
    } else {
      kept.push_back((*active)[i]);
    }
  }
  const bool whole = kept.size() == active->size();
  *active = std::move(kept);
  return whole;
}

}  // namespace

std::vector<double> NonNegativeLeastSquares(absl::Span<const std::vector<double>> a,
                                            absl::Span<const double> y,
                                            absl::Span<const double> weights) {
  EBB_CHECK(!a.empty() && a.size() == y.size() && a.size() == weights.size());
  const Normal normal = MakeNormal(a, y, weights);
  std::vector<double> x(normal.n, 0);
  std::vector<bool> barred(normal.n, false);  // active, or found to depend on active ones
  std::vector<size_t> active;
  // Every round adds a term; a term may leave and come back, so that rounds are bounded.
  for (size_t round = 0; round < 10 * normal.n + 10; ++round) {
    const size_t next = Steepest(normal, x, barred);
    if (next == normal.n) break;
    active.push_back(next);
    barred[next] = true;
    std::vector<double> z;
    if (!Solve(normal, active, &z)) {
      active.pop_back();
      continue;
    }
    while (!Step(&active, z, &x) && !active.empty() && Solve(normal, active, &z)) {
    }
    std::fill(barred.begin(), barred.end(), false);
    for (const size_t j : active) barred[j] = true;
  }
  for (size_t j = 0; j < normal.n; ++j) x[j] = normal.length[j] > 0 ? x[j] / normal.length[j] : 0;
  return x;
}

std::vector<double> FitRelative(absl::Span<const std::vector<double>> a,
                                absl::Span<const double> y) {
  std::vector<double> weights;
  weights.reserve(y.size());
  for (const double one : y) weights.push_back(1 / one);
  return NonNegativeLeastSquares(a, y, weights);
}

double Dot(absl::Span<const double> a, absl::Span<const double> x) {
  EBB_CHECK(a.size() == x.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * x[i];
  return sum;
}

}  // namespace ebb::perfmodel
