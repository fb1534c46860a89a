#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

namespace ebb {
namespace {

// Counts documents by their events, and does nothing else.
class DocumentCounter : public YAML::EventHandler {
 public:
  int count = 0;
  void OnDocumentStart(const YAML::Mark&) override { ++count; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

// YAML::LoadAll() would not come to an end where the parser stands still, as at a "," that is out
// of place (yaml-cpp 0.7): to have seen two documents is enough.
YamlText LoadYaml(const std::string& text) {
  YamlText result;
  result.document = YAML::Load(text);
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentCounter documents;
  while (documents.count < 2 && parser.HandleNextDocument(documents)) {
  }
  result.has_more = documents.count > 1;
  return result;
}

}  // namespace ebb
