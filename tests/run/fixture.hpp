// The fixture that scripts/oracles/minilm_fixtures.py makes, and the model it was made from.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tetrad::test {

inline nlohmann::json minilm_fixture() {
  std::ifstream file(std::string(TETRAD_TEST_DATA) + "/run/minilm_expected.json");
  return nlohmann::json::parse(file);
}

// Where scripts/fetch_model.py puts the model.
inline std::string model_folder() { return std::string(TETRAD_SOURCE_DIR) + "/.model/all-MiniLM-L6-v2"; }
inline bool have_model() { return std::filesystem::exists(model_folder() + "/model.safetensors"); }

}  // namespace tetrad::test
