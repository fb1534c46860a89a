// YAML from foreign hands: reads a text's document and tells whether there are more. Throws
// yaml-cpp's exceptions, as its own functions do. Stateless.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace ebb {

struct YamlText {
  YAML::Node document;  // the first; null if there is none
  bool has_more = false;
};
YamlText LoadYaml(const std::string& text);

}  // namespace ebb
