// Fills a protobuf message from a YAML tree by reflection: the general part of client/yaml.h.
// One reader a document; not thread-safe.
#pragma once

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ebb::client {

class YamlReader {
 public:
  explicit YamlReader(absl::string_view source) : source_(source) {}

  // `path` is where the message is in the document: "optimizer.adamw".
  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           google::protobuf::Message* message);
  // A repeated or map field gets the node's items after those it has.
  absl::Status ReadField(const YAML::Node& node, const std::string& path,
                         const google::protobuf::FieldDescriptor* field,
                         google::protobuf::Message* message);
  absl::Status Error(const YAML::Node& node, const std::string& path, absl::string_view what) const;

 private:
  absl::Status Enter(const YAML::Node& node, const std::string& path);
  absl::Status ReadMapping(const YAML::Node& node, const std::string& path,
                           google::protobuf::Message* message);
  absl::Status ReadSequence(const YAML::Node& node, const std::string& path,
                            google::protobuf::Message* message);
  absl::Status ReadWord(const YAML::Node& node, const std::string& path,
                        google::protobuf::Message* message);
  absl::Status ReadMap(const YAML::Node& node, const std::string& path,
                       const google::protobuf::FieldDescriptor* field,
                       google::protobuf::Message* message);
  absl::Status ReadItem(const YAML::Node& node, const std::string& path,
                        const google::protobuf::FieldDescriptor* field,
                        google::protobuf::Message* message);
  absl::Status ReadEnum(const YAML::Node& node, const std::string& path,
                        const google::protobuf::FieldDescriptor* field,
                        google::protobuf::Message* message);

  const std::string source_;
  int depth_ = 0;
  int visited_ = 0;  // nodes, those behind aliases each time: a bomb of aliases ends here
};

// The name of a field that `message` has not, with the nearest one if there is one.
std::string UnknownField(absl::string_view name, const google::protobuf::Descriptor& message);

}  // namespace ebb::client
