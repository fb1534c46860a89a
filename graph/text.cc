#include "graph/text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Splits at commas outside of brackets and quotes; pieces are trimmed, "" gives none.
std::vector<absl::string_view> SplitList(absl::string_view text) {
  std::vector<absl::string_view> pieces;
  if (absl::StripAsciiWhitespace(text).empty()) return pieces;
  size_t start = 0;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0 && !quoted)) {
      pieces.push_back(absl::StripAsciiWhitespace(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == '[') {
      ++depth;
    } else if (text[i] == ']') {
      --depth;
    }
  }
  return pieces;
}

absl::StatusOr<std::vector<int64_t>> ParseInts(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return Invalid(absl::StrCat("'", text, "' is not a list like [1,2]"));
  }
  std::vector<int64_t> ints;
  for (absl::string_view piece : SplitList(text)) {
    int64_t value;
    if (!absl::SimpleAtoi(piece, &value)) return Invalid(absl::StrCat("'", piece, "' is no int"));
    ints.push_back(value);
  }
  return ints;
}

absl::StatusOr<TensorType> ParseType(absl::string_view text) {
  const size_t bracket = std::min(text.find('['), text.size());
  const std::optional<DType> dtype = ParseGraphDType(text.substr(0, bracket));
  if (!dtype) return Invalid(absl::StrCat("'", text, "' is no type like f32[2,3]"));
  TensorType type{*dtype, {}};
  if (bracket < text.size()) {
    EBB_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ParseInts(text.substr(bracket)));
    type.shape.assign(dims.begin(), dims.end());
  }
  return type;
}

absl::StatusOr<AttrValue> ParseAttr(absl::string_view name, absl::string_view text) {
  const std::optional<AttrKind> kind = AttrKindOf(name);
  if (!kind) return Invalid(absl::StrCat("unknown attribute '", name, "'"));
  if (*kind == AttrKind::kInt) {
    int64_t value;
    if (absl::SimpleAtoi(text, &value)) return AttrValue(value);
  } else if (*kind == AttrKind::kFloat) {
    double value;
    if (absl::SimpleAtod(text, &value)) return AttrValue(value);
  } else if (*kind == AttrKind::kInts) {
    EBB_ASSIGN_OR_RETURN(std::vector<int64_t> ints, ParseInts(text));
    return AttrValue(std::move(ints));
  } else {
    absl::ConsumePrefix(&text, "\"");
    absl::ConsumeSuffix(&text, "\"");
    return AttrValue(std::string(text));
  }
  return Invalid(absl::StrCat("attribute ", name, ": '", text, "' is of another kind"));
}

template <class T>
void Fill(HostTensor& tensor, const std::vector<double>& numbers) {
  const absl::Span<T> out = tensor.as<T>();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<T>(numbers[numbers.size() == 1 ? 0 : i]);
  }
}

absl::StatusOr<HostTensor> ParseConstant(const TensorType& type, absl::string_view text) {
  std::vector<double> numbers;
  for (absl::string_view piece : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    double number;
    if (!absl::SimpleAtod(piece, &number)) {
      return Invalid(absl::StrCat("'", piece, "' is no number"));
    }
    numbers.push_back(number);
  }
  if (numbers.size() != 1 && static_cast<int64_t>(numbers.size()) != NumElements(type.shape)) {
    return Invalid(absl::StrCat("a constant ", ToString(type), " takes 1 number or ",
                                NumElements(type.shape), ", not ", numbers.size()));
  }
  HostTensor tensor = HostTensor::Zeros(type);
  switch (type.dtype) {
    case DType::kF32:
      Fill<float>(tensor, numbers);
      break;
    case DType::kF64:
      Fill<double>(tensor, numbers);
      break;
    case DType::kI32:
      Fill<int32_t>(tensor, numbers);
      break;
    case DType::kI64:
      Fill<int64_t>(tensor, numbers);
      break;
    case DType::kU8:
    case DType::kBool:
      Fill<uint8_t>(tensor, numbers);
      break;
    case DType::kBF16:
    case DType::kF16:
      return Invalid(absl::StrCat("a constant cannot be ", Name(type.dtype), "; cast one of f32"));
  }
  return tensor;
}

class Parser {
 public:
  absl::Status Statement(absl::string_view text) {
    if (absl::ConsumePrefix(&text, "output ")) {
      EBB_ASSIGN_OR_RETURN(graph_.outputs, Lookup(SplitList(text)));
      return absl::OkStatus();
    }
    if (absl::ConsumePrefix(&text, "metric ")) return Metric(text);
    const size_t parenthesis = std::min(text.find('('), text.size());
    const size_t equals = text.substr(0, parenthesis).find(" = ");
    const bool named = equals != absl::string_view::npos;
    const std::vector<absl::string_view> names =
        named ? SplitList(text.substr(0, equals)) : std::vector<absl::string_view>{};
    for (absl::string_view name : names) {
      if (name.empty()) return Invalid("a name is missing before '='");
      if (graph_.Find(name).valid()) return Invalid(absl::StrCat("'", name, "' is taken"));
    }
    if (named) text = absl::StripLeadingAsciiWhitespace(text.substr(equals + 3));
    if (text.find('(') != absl::string_view::npos) return NodeStatement(names, text);
    if (names.size() != 1) return Invalid("expected 'name = role type' or 'names = Op(inputs)'");
    return ValueStatement(names[0], text);
  }

  Graph Take() { return std::move(graph_); }

 private:
  absl::StatusOr<std::vector<ValueId>> Lookup(const std::vector<absl::string_view>& names) {
    std::vector<ValueId> ids;
    for (absl::string_view name : names) {
      ids.push_back(name == "-" ? ValueId() : graph_.Find(name));
      if (name != "-" && !ids.back().valid()) {
        return Invalid(absl::StrCat("there is no value '", name, "'"));
      }
    }
    return ids;
  }

  absl::Status Metric(absl::string_view text) {
    EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> ids, Lookup(SplitList(text)));
    for (ValueId id : ids) {
      if (!id.valid() || !graph_.value(id).producer.valid()) {
        return Invalid("a metric is made by a node");
      }
      graph_.value(id).role = Role::kMetric;
    }
    return absl::OkStatus();
  }

  // "param f32[2,3]", "slot f32[2,3] of w", "constant f32[2] 1 2"
  absl::Status ValueStatement(absl::string_view name, absl::string_view text) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::MaxSplits(absl::ByAnyChar(" \t"), 2));
    if (words.size() < 2) return Invalid("expected 'name = role type'");
    EBB_ASSIGN_OR_RETURN(TensorType type, ParseType(words[1]));
    const absl::string_view rest = words.size() > 2 ? words[2] : absl::string_view();
    if (words[0] == Name(Role::kConstant)) {
      EBB_ASSIGN_OR_RETURN(HostTensor tensor, ParseConstant(type, rest));
      graph_.AddConstant(std::string(name), std::move(tensor));
      return absl::OkStatus();
    }
    if (words[0] == Name(Role::kOptState)) {
      absl::string_view param = rest;
      if (!absl::ConsumePrefix(&param, "of ")) return Invalid("expected 'slot type of param'");
      EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> ids, Lookup({param}));
      const ValueId slot = graph_.AddValue(std::string(name), std::move(type), Role::kOptState);
      graph_.value(slot).slot_of = ids[0];
      return absl::OkStatus();
    }
    for (Role role : {Role::kInput, Role::kParam, Role::kBuffer, Role::kScalar}) {
      if (words[0] != Name(role)) continue;
      if (!rest.empty()) return Invalid(absl::StrCat("unexpected '", rest, "'"));
      graph_.AddValue(std::string(name), std::move(type), role);
      return absl::OkStatus();
    }
    return Invalid(absl::StrCat("unknown role '", words[0], "'"));
  }

  // "Op(a, b) {x=1} @backward y"
  absl::Status NodeStatement(const std::vector<absl::string_view>& names, absl::string_view text) {
    const size_t open = text.find('(');
    const size_t close = text.find(')', open);
    if (close == absl::string_view::npos) return Invalid("')' is missing");
    const absl::string_view op = absl::StripAsciiWhitespace(text.substr(0, open));
    EBB_ASSIGN_OR_RETURN(std::vector<ValueId> inputs,
                         Lookup(SplitList(text.substr(open + 1, close - open - 1))));
    text = absl::StripAsciiWhitespace(text.substr(close + 1));
    EBB_ASSIGN_OR_RETURN(Attrs attrs, TakeAttrs(text));
    Phase phase = Phase::kForward;
    NodeId mirror;
    if (!text.empty()) EBB_RETURN_IF_ERROR(ParsePhase(text, phase, mirror));
    std::string name =
        names.empty() ? absl::StrCat(op, graph_.nodes.size()) : std::string(names[0]);
    EBB_ASSIGN_OR_RETURN(const NodeId id, graph_.AddNode(op, std::move(name), std::move(inputs),
                                                         std::move(attrs), phase, mirror));
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    if (names.size() > outputs.size()) {
      return Invalid(absl::StrCat(op, " makes ", outputs.size(), " outputs"));
    }
    for (size_t i = 0; i < names.size(); ++i) graph_.Rename(outputs[i], std::string(names[i]));
    return absl::OkStatus();
  }

  // Removes "{...}" from the front of `text`.
  static absl::StatusOr<Attrs> TakeAttrs(absl::string_view& text) {
    Attrs attrs;
    if (!absl::ConsumePrefix(&text, "{")) return attrs;
    const size_t end = text.find('}');
    if (end == absl::string_view::npos) return Invalid("'}' is missing");
    for (absl::string_view item : SplitList(text.substr(0, end))) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(item, absl::MaxSplits('=', 1));
      EBB_ASSIGN_OR_RETURN(AttrValue value, ParseAttr(pair.first, pair.second));
      attrs.Set(std::string(pair.first), std::move(value));
    }
    text = absl::StripAsciiWhitespace(text.substr(end + 1));
    return attrs;
  }

  absl::Status ParsePhase(absl::string_view text, Phase& phase, NodeId& mirror) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    bool known = false;
    for (Phase candidate : {Phase::kForward, Phase::kLoss, Phase::kBackward, Phase::kUpdate}) {
      if (words[0] != absl::StrCat("@", Name(candidate))) continue;
      phase = candidate;
      known = true;
    }
    if (!known || words.size() > 2) return Invalid(absl::StrCat("unexpected '", text, "'"));
    if (words.size() == 2) {
      EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> ids, Lookup({words[1]}));
      if (ids[0].valid()) mirror = graph_.value(ids[0]).producer;
      if (!mirror.valid()) return Invalid(absl::StrCat("no node makes '", words[1], "'"));
    }
    return absl::OkStatus();
  }

  Graph graph_;
};

// The statement without its comment: '#' counts at the start or after white space only, since names
// may contain it.
absl::string_view WithoutComment(absl::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || absl::ascii_isspace(line[i - 1]))) return line.substr(0, i);
  }
  return line;
}

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text) {
  Parser parser;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    for (absl::string_view statement : absl::StrSplit(WithoutComment(line), ';')) {
      statement = absl::StripAsciiWhitespace(statement);
      if (statement.empty()) continue;
      EBB_RETURN_IF_ERROR(Annotate(parser.Statement(statement),
                                   absl::StrCat("line ", number, " '", statement, "'")));
    }
  }
  return parser.Take();
}

}  // namespace ebb::graph
