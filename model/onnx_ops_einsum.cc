// Einsum: operands are joined two at a time, each pair as one batched matrix product of transposed
// and reshaped operands, or as one product element by element where nothing is summed.
#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

// A tensor with a letter an axis. The axes that "..." stands for are digits, the last one '7'.
struct Term {
  ValueId id;
  std::string labels;
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  std::map<char, int64_t> extent;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Names of `count` <= 8 axes, such that those of shorter ones are the last of longer ones.
std::string Ellipsis(size_t count) { return std::string("01234567").substr(8 - count); }

// The letters of one term; `ellipsis` is what "..." becomes.
absl::StatusOr<std::string> Letters(const ConvertContext& c, absl::string_view term,
                                    const std::string& ellipsis) {
  std::string labels;
  bool dots = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term.substr(i, 3) == "..." && !dots) {
      labels += ellipsis;
      dots = true;
      i += 2;
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(term[i])) == 0) {
      return c.Invalid(absl::StrCat("'", term, "' is no term of an equation"));
    }
    labels += term[i];
  }
  return labels;
}

// Without "->" the letters that occur once, in alphabetical order, after those of "...".
std::string ImplicitOutput(const std::vector<std::string>& inputs) {
  std::map<char, int> count;
  for (const std::string& term : inputs) {
    for (char label : term) ++count[label];
  }
  std::string output;
  for (const auto& [label, times] : count) {
    if (times == 1 || std::isdigit(static_cast<unsigned char>(label)) != 0) output += label;
  }
  return output;
}

absl::StatusOr<Equation> Parse(const ConvertContext& c) {
  const std::string text = c.Str("equation", "");
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || terms.size() != c.num_inputs()) {
    return c.Invalid(
        absl::StrCat("the equation '", text, "' does not fit ", c.num_inputs(), " operands"));
  }
  Equation equation;
  std::string most;  // axes that "..." stands for
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto letters = static_cast<size_t>(std::count_if(
        terms[i].begin(), terms[i].end(), [](unsigned char ch) { return std::isalpha(ch) != 0; }));
    const auto rank = static_cast<size_t>(c.rank(i));
    const size_t dots = absl::StrContains(terms[i], "...") && rank >= letters ? rank - letters : 0;
    const std::string ellipsis = Ellipsis(dots);
    if (ellipsis.size() > most.size()) most = ellipsis;
    EBB_ASSIGN_OR_RETURN(std::string labels, Letters(c, terms[i], ellipsis));
    if (labels.size() != rank) {
      return c.Invalid(absl::StrCat("'", terms[i], "' does not fit operand ", i, ", ",
                                    graph::ToString(c.shape(i))));
    }
    for (size_t d = 0; d < rank; ++d) {
      const int64_t dim = c.shape(i)[d];
      if (equation.extent.emplace(labels[d], dim).first->second != dim) {
        return c.Unimplemented(absl::StrCat("axis '", std::string(1, labels[d]), "' of '", text,
                                            "' has two sizes; broadcasting is not supported"));
      }
    }
    equation.inputs.push_back(std::move(labels));
  }
  if (sides.size() == 1) {
    equation.output = ImplicitOutput(equation.inputs);
    return equation;
  }
  EBB_ASSIGN_OR_RETURN(equation.output, Letters(c, sides[1], most));
  for (char label : equation.output) {
    if (!equation.extent.contains(label)) {
      return c.Invalid(absl::StrCat("the equation '", text, "' makes an axis of nothing"));
    }
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1) {
      return c.Invalid(absl::StrCat("the equation '", text, "' makes an axis twice"));
    }
  }
  return equation;
}

class Joiner {
 public:
  Joiner(ConvertContext& c, const Equation& equation) : c_(c), extent_(equation.extent) {}

  Ints Extents(const std::string& labels) const {
    Ints extents;
    for (char label : labels) extents.push_back(extent_.at(label));
    return extents;
  }
  int64_t Product(const std::string& labels) const {
    const Ints extents = Extents(labels);
    return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
  }

  absl::StatusOr<Term> Transposed(const Term& term, const std::string& labels) {
    if (labels == term.labels) return term;
    Ints perm;
    for (char label : labels) perm.push_back(static_cast<int64_t>(term.labels.find(label)));
    EBB_ASSIGN_OR_RETURN(const ValueId id, c_.Emit("Transpose", {term.id}, {{"perm", perm}}));
    return Term{id, labels};
  }

  // The diagonals of axes that a term names twice: both as one, of which every (n + 1)th is read.
  absl::StatusOr<Term> Diagonal(Term term) {
    for (size_t d = 0; d < term.labels.size();) {
      const char label = term.labels[d];
      const size_t again = term.labels.find(label, d + 1);
      if (again == std::string::npos) {
        ++d;
        continue;
      }
      Ints perm(term.labels.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t axis : {again, d}) {  // to the end, the later one first
        perm.erase(perm.begin() + static_cast<int64_t>(axis));
        term.labels.erase(axis, 1);
      }
      perm.insert(perm.end(), {static_cast<int64_t>(d), static_cast<int64_t>(again)});
      const int64_t n = extent_.at(label);
      Ints merged = Extents(term.labels);
      merged.push_back(n * n);
      EBB_ASSIGN_OR_RETURN(term.id, c_.Emit("Transpose", {term.id}, {{"perm", perm}}));
      EBB_ASSIGN_OR_RETURN(term.id, c_.Emit("Reshape", {term.id}, {{"shape", merged}}));
      EBB_ASSIGN_OR_RETURN(term.id,
                           c_.Emit("Slice", {term.id},
                                   {{"starts", Ints{0}},
                                    {"ends", Ints{n * n}},
                                    {"axes", Ints{static_cast<int64_t>(term.labels.size())}},
                                    {"steps", Ints{n + 1}}}));
      term.labels += label;
    }
    return term;
  }

  absl::StatusOr<ValueId> Reshaped(ValueId id, const Ints& shape) {
    if (c_.TypeOf(id).shape == Shape(shape.begin(), shape.end())) return id;
    return c_.Emit("Reshape", {id}, {{"shape", shape}});
  }

  // Sums over the axes that are not among `kept`.
  absl::StatusOr<Term> Summed(const Term& term, const std::string& kept) {
    Ints axes;
    Term result;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (Has(kept, term.labels[d])) {
        result.labels += term.labels[d];
      } else {
        axes.push_back(static_cast<int64_t>(d));
      }
    }
    if (axes.empty()) return term;
    EBB_ASSIGN_OR_RETURN(
        result.id, c_.Emit("ReduceSum", {term.id}, {{"axes", axes}, {"keepdims", int64_t{0}}}));
    return result;
  }

  // a and b as one term, of which the axes of `kept` (of the output and of later terms) stay.
  absl::StatusOr<Term> Joined(Term a, Term b, const std::string& kept) {
    EBB_ASSIGN_OR_RETURN(a, Summed(a, absl::StrCat(b.labels, kept)));
    EBB_ASSIGN_OR_RETURN(b, Summed(b, absl::StrCat(a.labels, kept)));
    std::string batch, inner, rows, columns;
    for (char label : a.labels) {
      (Has(b.labels, label) ? (Has(kept, label) ? batch : inner) : rows) += label;
    }
    for (char label : b.labels) {
      if (!Has(a.labels, label)) columns += label;
    }
    if (inner.empty()) return Outer(a, b, batch, rows, columns);
    // A trans flag saves the copy where the operand already has the other order.
    const bool trans_a = a.labels == absl::StrCat(batch, inner, rows);
    const bool trans_b = b.labels == absl::StrCat(batch, columns, inner);
    EBB_ASSIGN_OR_RETURN(a, Transposed(a, trans_a ? a.labels : absl::StrCat(batch, rows, inner)));
    EBB_ASSIGN_OR_RETURN(b,
                         Transposed(b, trans_b ? b.labels : absl::StrCat(batch, inner, columns)));
    const int64_t n = Product(batch), m = Product(rows), k = Product(inner), p = Product(columns);
    EBB_ASSIGN_OR_RETURN(a.id, Reshaped(a.id, trans_a ? Ints{n, k, m} : Ints{n, m, k}));
    EBB_ASSIGN_OR_RETURN(b.id, Reshaped(b.id, trans_b ? Ints{n, p, k} : Ints{n, k, p}));
    EBB_ASSIGN_OR_RETURN(ValueId product,
                         c_.Emit("MatMul", {a.id, b.id},
                                 {{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}}));
    const std::string labels = absl::StrCat(batch, rows, columns);
    EBB_ASSIGN_OR_RETURN(product, Reshaped(product, Extents(labels)));
    return Term{product, labels};
  }

 private:
  // Nothing is summed: one broadcast product.
  absl::StatusOr<Term> Outer(Term a, Term b, const std::string& batch, const std::string& rows,
                             const std::string& columns) {
    const std::string labels = absl::StrCat(batch, rows, columns);
    if (labels.size() > 8) return c_.Unimplemented("the result has more than 8 axes on the way");
    EBB_ASSIGN_OR_RETURN(a, Transposed(a, absl::StrCat(batch, rows)));
    EBB_ASSIGN_OR_RETURN(b, Transposed(b, absl::StrCat(batch, columns)));
    Ints shape_a = Extents(a.labels);
    shape_a.insert(shape_a.end(), columns.size(), 1);
    Ints shape_b = Extents(b.labels);
    shape_b.insert(shape_b.begin() + static_cast<int64_t>(batch.size()), rows.size(), 1);
    EBB_ASSIGN_OR_RETURN(a.id, Reshaped(a.id, shape_a));
    EBB_ASSIGN_OR_RETURN(b.id, Reshaped(b.id, shape_b));
    EBB_ASSIGN_OR_RETURN(const ValueId product, c_.Emit("Mul", {a.id, b.id}));
    return Term{product, labels};
  }

  ConvertContext& c_;
  const std::map<char, int64_t>& extent_;
};

absl::Status Einsum(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Equation equation, Parse(c));
  Joiner joiner(c, equation);
  Term term{ValueId(), equation.inputs[0]};
  EBB_ASSIGN_OR_RETURN(term.id, c.In(0));
  EBB_ASSIGN_OR_RETURN(term, joiner.Diagonal(term));
  for (size_t i = 1; i < equation.inputs.size(); ++i) {
    std::string kept = equation.output;
    for (size_t j = i + 1; j < equation.inputs.size(); ++j) kept += equation.inputs[j];
    Term next{ValueId(), equation.inputs[i]};
    EBB_ASSIGN_OR_RETURN(next.id, c.In(i));
    EBB_ASSIGN_OR_RETURN(next, joiner.Diagonal(next));
    EBB_ASSIGN_OR_RETURN(term, joiner.Joined(std::move(term), std::move(next), kept));
  }
  EBB_ASSIGN_OR_RETURN(term, joiner.Summed(term, equation.output));
  EBB_ASSIGN_OR_RETURN(term, joiner.Transposed(term, equation.output));
  if (equation.inputs.size() == 1 && term.labels == equation.inputs[0]) {
    c.Alias(0);
  } else {
    c.SetOutput(0, term.id);
  }
  return absl::OkStatus();
}

constexpr OnnxOp kRows[] = {{"Einsum", 1, -1, kAllInputs, Einsum}};

}  // namespace

absl::Span<const OnnxOp> EinsumOps() { return kRows; }

}  // namespace ebb::model
