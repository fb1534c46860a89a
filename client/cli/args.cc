#include "client/cli/args.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/names.h"

namespace ebb::cli {

absl::StatusOr<Args> Args::Parse(const std::vector<std::string>& words,
                                 const std::vector<Flag>& flags) {
  Args args;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      args.positional_.insert(args.positional_.end(), words.begin() + static_cast<ptrdiff_t>(i) + 1,
                              words.end());
      break;
    }
    if (!absl::StartsWith(word, "-") || word == "-") {
      args.positional_.push_back(word);
      continue;
    }
    const bool is_long = absl::StartsWith(word, "--");
    const size_t equals = word.find('=');
    const std::string name =
        word.substr(is_long ? 2 : 1,
                    equals == std::string::npos ? std::string::npos : equals - (is_long ? 2 : 1));
    const Flag* found = nullptr;
    std::vector<std::string> names;
    for (const Flag& flag : flags) {
      names.push_back(flag.name);
      if (name == flag.name && (is_long || name.size() == 1)) found = &flag;
    }
    if (found == nullptr) {
      const std::string nearest = proto::Nearest(name, names);
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown flag ", word,
          nearest.empty()
              ? ""
              : absl::StrCat("; did you mean ", nearest.size() == 1 ? "-" : "--", nearest, "?")));
    }
    const bool is_switch = found->value[0] == '\0';
    std::string value;
    if (is_switch && equals != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
    }
    if (!is_switch && equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!is_switch) {
      if (i + 1 == words.size())
        return absl::InvalidArgumentError(absl::StrCat(word, " needs a value"));
      value = words[++i];
    }
    args.values_[name].push_back(value);
  }
  return args;
}

std::string Args::Get(const std::string& flag, const std::string& fallback) const {
  const auto it = values_.find(flag);
  return it == values_.end() ? fallback : it->second.back();
}

std::vector<std::string> Args::All(const std::string& flag) const {
  const auto it = values_.find(flag);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

}  // namespace ebb::cli
