// What is installed and switched, as a value beside the device; never read inside the planner.
#pragma once

#include <map>
#include <string>

namespace tetrad {

struct Software {
  std::map<std::string, std::string> packages;   // name -> version ("vllm" -> "0.29.0")
  std::map<std::string, std::string> toolkits;   // "cuda" -> "13.0"
  std::map<std::string, std::string> variables;  // environment variables that act on the choice
  std::map<std::string, std::string> flags;      // command-line flags that act on the choice
};

}  // namespace tetrad
