#include "checkpoint/convention.hpp"

#include <fmt/format.h>

#include "checkpoint/file.hpp"

namespace tetrad {

std::string_view name(Convention convention) {
  return convention == Convention::compressed_tensors ? "compressed-tensors" : "modelopt";
}

std::optional<Convention> parse_convention(std::string_view text) {
  for (const Convention c : {Convention::compressed_tensors, Convention::modelopt}) {
    if (text == name(c)) return c;
  }
  return std::nullopt;
}

std::string_view name(Scheme scheme) { return scheme == Scheme::w4a16 ? "w4a16" : "w4a4"; }

std::optional<Scheme> parse_scheme(std::string_view text) {
  for (const Scheme s : {Scheme::w4a16, Scheme::w4a4}) {
    if (text == name(s)) return s;
  }
  return std::nullopt;
}

namespace checkpoint {

const ConventionRow& row(Convention convention) {
  return convention == Convention::compressed_tensors ? kCompressedTensors : kModelOpt;
}

std::optional<std::string> without_suffix(std::string_view text, std::string_view suffix) {
  if (text.size() <= suffix.size() || !text.ends_with(suffix)) return std::nullopt;
  return std::string(text.substr(0, text.size() - suffix.size()));
}

Error missing_part(const StoredTensor& codes, const std::string& part) {
  return refuse("TE0231", "a part of an NVFP4 layer is missing", fmt::format("{}: tensor '{}'", codes.file, codes.name),
                fmt::format("tensor '{}'", part), "none");
}

std::string shape_text(const StoredTensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.shape, ", ")); }

std::string writer_version() { return "0.0.0+tetrad." TETRAD_VERSION; }

}  // namespace checkpoint
}  // namespace tetrad
