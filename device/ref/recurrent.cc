// Lstm and Gru, step by step and unit by unit, and their gradients by back-propagation through
// time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

using Doubles = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A sequence of T steps of N states of H units; gates are blocks of H in a row of `wide`.
struct Recurrence {
  int64_t steps, batch, hidden, wide;
  bool reverse, linear_before_reset;
  int64_t block[4];  // of the gates i, o, f, c; or z, r, h

  // The k-th step that is computed.
  int64_t Step(int64_t k) const { return reverse ? steps - 1 - k : k; }
  int64_t State(int64_t t, int64_t n, int64_t j = 0) const { return (t * batch + n) * hidden + j; }
  int64_t Gate(int64_t t, int64_t n, int64_t gate, int64_t j) const {
    return (t * batch + n) * wide + block[gate] * hidden + j;
  }
  // Row of r for unit j of a gate.
  int64_t Row(int64_t gate, int64_t j) const { return (block[gate] * hidden + j) * hidden; }

  // The state before the k-th step: the output of the step before, or the initial state, or zeros.
  template <class T>
  double Before(const T* states, const T* initial, int64_t k, int64_t n, int64_t j) const {
    if (k > 0) return static_cast<double>(states[State(Step(k - 1), n, j)]);
    return initial == nullptr ? 0.0 : static_cast<double>(initial[n * hidden + j]);
  }
  // The state before, times a row of r.
  template <class T>
  double Dot(const T* states, const T* initial, const T* r, int64_t k, int64_t n, int64_t gate,
             int64_t unit) const {
    double sum = 0;
    for (int64_t j = 0; j < hidden; ++j) {
      sum += Before(states, initial, k, n, j) * static_cast<double>(r[Row(gate, unit) + j]);
    }
    return sum;
  }
  // dh += dgate r, dr += dgate h^T for one unit of a gate.
  template <class T>
  void Back(const T* states, const T* initial, const T* r, int64_t k, int64_t n, int64_t gate,
            int64_t unit, double dgate, Doubles& dh, Doubles& dr) const {
    for (int64_t j = 0; j < hidden; ++j) {
      const auto at = static_cast<size_t>(Row(gate, unit) + j);
      dh[static_cast<size_t>(n * hidden + j)] += dgate * static_cast<double>(r[at]);
      dr[at] += dgate * Before(states, initial, k, n, j);
    }
  }
};

Recurrence RecurrenceOf(const Graph& graph, const Node& node) {
  const Shape& wide = InType(graph, node, 0).shape;
  Recurrence s{};
  s.steps = wide[0];
  s.batch = wide[1];
  s.wide = wide[2];
  s.reverse = node.attrs.Int("reverse", 0) != 0;
  s.linear_before_reset = node.attrs.Int("linear_before_reset", 1) != 0;
  const std::string order = node.attrs.Str("gates");
  const std::string names = order.size() == 4 ? "iofc" : "zrh";
  s.hidden = s.wide / static_cast<int64_t>(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    s.block[i] = static_cast<int64_t>(order.find(names[i]));
  }
  return s;
}

template <class T>
void Store(const Doubles& from, T* to) {
  std::transform(from.begin(), from.end(), to, [](double v) { return static_cast<T>(v); });
}

// (pre, r, [h0], [c0]) -> y, cells, gates
absl::StatusOr<Kernel> Lstm(const Graph& graph, const Node& node) {
  const Recurrence s = RecurrenceOf(graph, node);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    T *y = Out<T>(args), *cells = Out<T>(args, 1), *gates = Out<T>(args, 2);
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = s.Step(k);
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t j = 0; j < s.hidden; ++j) {
          double a[4];  // i, o, f, c
          for (int64_t g = 0; g < 4; ++g) {
            a[g] = static_cast<double>(In<T>(args, 0)[s.Gate(t, n, g, j)]) +
                   s.Dot(y, In<T>(args, 2), In<T>(args, 1), k, n, g, j);
            a[g] = g == 3 ? std::tanh(a[g]) : Sigmoid(a[g]);
            gates[s.Gate(t, n, g, j)] = static_cast<T>(a[g]);
          }
          const double cell = a[2] * s.Before(cells, In<T>(args, 3), k, n, j) + a[0] * a[3];
          cells[s.State(t, n, j)] = static_cast<T>(cell);
          y[s.State(t, n, j)] = static_cast<T>(a[1] * std::tanh(cell));
        }
      }
    }
  });
}

// (gates, y, cells, r, [dy], [dcells], [h0], [c0]) -> dpre, dr, dh0, dc0
absl::StatusOr<Kernel> LstmGrad(const Graph& graph, const Node& node) {
  const Recurrence s = RecurrenceOf(graph, node);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T *gates = In<T>(args, 0), *y = In<T>(args, 1), *cells = In<T>(args, 2);
    const T *r = In<T>(args, 3), *dy = In<T>(args, 4), *dcells = In<T>(args, 5);
    const T *h0 = In<T>(args, 6), *c0 = In<T>(args, 7);
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    Doubles dh(at(s.batch * s.hidden)), dc(dh.size()), before(dh.size());
    Doubles dr(at(s.wide * s.hidden));
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = s.Step(k);
      std::fill(before.begin(), before.end(), 0.0);
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t j = 0; j < s.hidden; ++j) {
          double a[4];
          for (int64_t g = 0; g < 4; ++g) a[g] = static_cast<double>(gates[s.Gate(t, n, g, j)]);
          const int64_t state = s.State(t, n, j);
          const size_t unit = at(n * s.hidden + j);
          const double tanh_c = std::tanh(static_cast<double>(cells[state]));
          const double out = dh[unit] + (dy == nullptr ? 0.0 : static_cast<double>(dy[state]));
          const double cell = dc[unit] + out * a[1] * (1 - tanh_c * tanh_c) +
                              (dcells == nullptr ? 0.0 : static_cast<double>(dcells[state]));
          dc[unit] = cell * a[2];
          const double d[4] = {cell * a[3] * a[0] * (1 - a[0]), out * tanh_c * a[1] * (1 - a[1]),
                               cell * s.Before(cells, c0, k, n, j) * a[2] * (1 - a[2]),
                               cell * a[0] * (1 - a[3] * a[3])};
          for (int64_t g = 0; g < 4; ++g) {
            Out<T>(args)[s.Gate(t, n, g, j)] = static_cast<T>(d[g]);
            s.Back(y, h0, r, k, n, g, j, d[g], before, dr);
          }
        }
      }
      dh.swap(before);
    }
    Store(dr, Out<T>(args, 1));
    Store(dh, Out<T>(args, 2));
    Store(dc, Out<T>(args, 3));
  });
}

// (pre, r, [rb], [h0]) -> y, mixed, gates. mixed is what the reset gate multiplies, r h + rb, or
// when it comes first what it makes of the state.
absl::StatusOr<Kernel> Gru(const Graph& graph, const Node& node) {
  const Recurrence s = RecurrenceOf(graph, node);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T *pre = In<T>(args, 0), *r = In<T>(args, 1), *rb = In<T>(args, 2), *h0 = In<T>(args, 3);
    T *y = Out<T>(args), *mixed = Out<T>(args, 1), *gates = Out<T>(args, 2);
    const auto bias = [&](int64_t g, int64_t j) {
      return rb == nullptr ? 0.0 : static_cast<double>(rb[s.block[g] * s.hidden + j]);
    };
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = s.Step(k);
      for (int64_t n = 0; n < s.batch; ++n) {
        Doubles gate(static_cast<size_t>(2 * s.hidden));  // z and r
        for (int64_t g = 0; g < 2; ++g) {
          for (int64_t j = 0; j < s.hidden; ++j) {
            const double a = Sigmoid(static_cast<double>(pre[s.Gate(t, n, g, j)]) +
                                     s.Dot(y, h0, r, k, n, g, j) + bias(g, j));
            gates[s.Gate(t, n, g, j)] = static_cast<T>(a);
            gate[static_cast<size_t>(g * s.hidden + j)] = a;
          }
        }
        for (int64_t j = 0; j < s.hidden; ++j) {
          const double reset = gate[static_cast<size_t>(s.hidden + j)];
          const double value = s.linear_before_reset ? s.Dot(y, h0, r, k, n, 2, j) + bias(2, j)
                                                     : reset * s.Before(y, h0, k, n, j);
          mixed[s.State(t, n, j)] = static_cast<T>(value);
        }
        for (int64_t j = 0; j < s.hidden; ++j) {
          double sum = static_cast<double>(pre[s.Gate(t, n, 2, j)]);
          if (s.linear_before_reset) {
            sum += gate[static_cast<size_t>(s.hidden + j)] *
                   static_cast<double>(mixed[s.State(t, n, j)]);
          } else {
            sum += bias(2, j);
            for (int64_t l = 0; l < s.hidden; ++l) {
              sum += static_cast<double>(mixed[s.State(t, n, l)]) *
                     static_cast<double>(r[s.Row(2, j) + l]);
            }
          }
          const double z = gate[static_cast<size_t>(j)], candidate = std::tanh(sum);
          gates[s.Gate(t, n, 2, j)] = static_cast<T>(candidate);
          y[s.State(t, n, j)] = static_cast<T>((1 - z) * candidate + z * s.Before(y, h0, k, n, j));
        }
      }
    }
  });
}

// One step back of one sequence of a Gru: from the gradient of its output to those of the gates
// before their functions, and of the candidate's share of r.
template <class T>
struct GruStepBack {
  const Recurrence& s;
  const T *gates, *y, *mixed, *r, *h0;
  Doubles &dr, &drb;

  void Run(int64_t k, int64_t n, const Doubles& out, T* dpre, Doubles& before) const {
    const int64_t t = s.Step(k);
    const auto gate = [&](int64_t g, int64_t j) {
      return static_cast<double>(gates[s.Gate(t, n, g, j)]);
    };
    const auto mix = [&](int64_t j) { return static_cast<double>(mixed[s.State(t, n, j)]); };
    Doubles dmix(static_cast<size_t>(s.hidden)), dcandidate(dmix.size()), dz(dmix.size());
    for (int64_t j = 0; j < s.hidden; ++j) {
      const auto unit = static_cast<size_t>(j);
      const double z = gate(0, j), c = gate(2, j), h = s.Before(y, h0, k, n, j);
      dcandidate[unit] = out[unit] * (1 - z) * (1 - c * c);
      dz[unit] = out[unit] * (h - c) * z * (1 - z);
      before[static_cast<size_t>(n * s.hidden + j)] += out[unit] * z;
      if (s.linear_before_reset) {
        dmix[unit] = dcandidate[unit] * gate(1, j);
        continue;
      }
      for (int64_t l = 0; l < s.hidden; ++l) {
        dmix[static_cast<size_t>(l)] += dcandidate[unit] * static_cast<double>(r[s.Row(2, j) + l]);
        dr[static_cast<size_t>(s.Row(2, j) + l)] += dcandidate[unit] * mix(l);
      }
    }
    for (int64_t j = 0; j < s.hidden; ++j) {
      const auto unit = static_cast<size_t>(j);
      const double reset = gate(1, j);
      const double dreset =
          s.linear_before_reset ? dcandidate[unit] * mix(j) : dmix[unit] * s.Before(y, h0, k, n, j);
      const double d[3] = {dz[unit], dreset * reset * (1 - reset), dcandidate[unit]};
      for (int64_t g = 0; g < 3; ++g) {
        dpre[s.Gate(t, n, g, j)] = static_cast<T>(d[g]);
        const double dgate = g == 2 && s.linear_before_reset ? dmix[unit] : d[g];
        drb[static_cast<size_t>(s.block[g] * s.hidden + j)] += dgate;
        if (g < 2 || s.linear_before_reset) s.Back(y, h0, r, k, n, g, j, dgate, before, dr);
      }
      if (!s.linear_before_reset) {
        before[static_cast<size_t>(n * s.hidden + j)] += dmix[unit] * reset;
      }
    }
  }
};

// (gates, y, mixed, r, dy, [h0]) -> dpre, dr, drb, dh0
absl::StatusOr<Kernel> GruGrad(const Graph& graph, const Node& node) {
  const Recurrence s = RecurrenceOf(graph, node);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 4);
    Doubles dh(static_cast<size_t>(s.batch * s.hidden)), before(dh.size());
    Doubles dr(static_cast<size_t>(s.wide * s.hidden)), drb(static_cast<size_t>(s.wide));
    const GruStepBack<T> back{
        s, In<T>(args, 0), In<T>(args, 1), In<T>(args, 2), In<T>(args, 3), In<T>(args, 5), dr, drb};
    for (int64_t k = s.steps; k-- > 0;) {
      std::fill(before.begin(), before.end(), 0.0);
      for (int64_t n = 0; n < s.batch; ++n) {
        Doubles out(static_cast<size_t>(s.hidden));
        for (int64_t j = 0; j < s.hidden; ++j) {
          out[static_cast<size_t>(j)] = dh[static_cast<size_t>(n * s.hidden + j)] +
                                        static_cast<double>(dy[s.State(s.Step(k), n, j)]);
        }
        back.Run(k, n, out, Out<T>(args), before);
      }
      dh.swap(before);
    }
    Store(dr, Out<T>(args, 1));
    Store(drb, Out<T>(args, 2));
    Store(dh, Out<T>(args, 3));
  });
}

}  // namespace

absl::Span<const KernelRow> Recurrent() {
  static constexpr KernelRow kRows[] = {
      {"Lstm", Lstm}, {"LstmGrad", LstmGrad}, {"Gru", Gru}, {"GruGrad", GruGrad}};
  return kRows;
}

}  // namespace ebb::device::ref
