#include "checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "checkpoint/file.hpp"

namespace tetrad::checkpoint {

namespace {

struct DtypeRow {
  std::string_view word;
  int bits;
};

constexpr DtypeRow kDtypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

// Names in messages are quoted and cut: a header may hold anything.
std::string shown(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 120)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + (text.size() > 120 ? "...'" : "'");
}

// Reads the header's JSON event by event: bounded depth, no tree, duplicates seen, the byte of a fault known.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const std::string& file, const char* begin, const char* const& cursor)
      : file_(file), begin_(begin), cursor_(cursor) {}

  Header header;
  std::optional<Error> error;

  bool null() override { return wrong_value("null"); }
  bool boolean(bool) override { return wrong_value("a boolean"); }
  bool number_float(number_float_t, const string_t& text) override {
    if (expect_ == Expect::shape_item || expect_ == Expect::offset_item) {
      return fail("TE0212", "a size or offset is no whole number in range", "0 to 2^63 - 1", text);
    }
    return wrong_value(text);
  }
  bool number_integer(number_integer_t value) override {
    if (expect_ == Expect::shape_item || expect_ == Expect::offset_item) {
      return fail("TE0212", "a size or offset is negative", "0 to 2^63 - 1", std::to_string(value));
    }
    return wrong_value(std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr std::uint64_t kMax = INT64_MAX;
    if (expect_ != Expect::shape_item && expect_ != Expect::offset_item) return wrong_value(std::to_string(value));
    if (value > kMax) {
      return fail("TE0212", "a size or offset is out of range", "0 to 2^63 - 1", std::to_string(value));
    }
    if (expect_ == Expect::shape_item) {
      if (tensor_.shape.size() == kMaxDims) {
        return fail("TE0212", "the shape has too many dimensions", fmt::format("at most {}", kMaxDims), "more");
      }
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (offsets_ == 2) return fail("TE0210", "data_offsets has too many numbers", "2", "more");
    (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
    ++offsets_;
    return true;
  }
  bool string(string_t& value) override {
    if (expect_ == Expect::metadata_value) {
      header.metadata[key_] = std::move(value);
      expect_ = Expect::metadata_key;
      return true;
    }
    if (expect_ != Expect::dtype) return wrong_value("a string");
    if (dtype_bits(value) == 0) {
      return fail("TE0211", "unknown dtype", "a safetensors dtype such as BF16, F32, U8, F8_E4M3", shown(value));
    }
    tensor_.dtype = std::move(value);
    expect_ = Expect::field;
    return true;
  }
  bool binary(binary_t&) override { return wrong_value("binary data"); }

  bool start_object(std::size_t) override {
    switch (expect_) {
      case Expect::header:
        expect_ = Expect::entry;
        return true;
      case Expect::tensor:
        expect_ = Expect::field;
        fields_ = 0;
        offsets_ = 0;
        return true;
      case Expect::metadata:
        expect_ = Expect::metadata_key;
        return true;
      default:
        return nested("an object");
    }
  }
  bool end_object() override {
    if (expect_ == Expect::entry) {
      expect_ = Expect::nothing;
      return true;
    }
    if (expect_ == Expect::metadata_key) {
      key_.clear();
      expect_ = Expect::entry;
      return true;
    }
    if (fields_ != 7) {
      std::string have;
      if ((fields_ & 1) != 0) have += "dtype ";
      if ((fields_ & 2) != 0) have += "shape ";
      if ((fields_ & 4) != 0) have += "data_offsets ";
      if (have.empty()) have = "none ";
      have.pop_back();
      return fail("TE0210", "the tensor's entry lacks a field", "dtype, shape and data_offsets", std::move(have));
    }
    header.tensors.push_back(std::move(tensor_));
    tensor_ = {};
    expect_ = Expect::entry;
    return true;
  }
  bool start_array(std::size_t) override {
    if (expect_ == Expect::shape) {
      expect_ = Expect::shape_item;
    } else if (expect_ == Expect::offsets) {
      expect_ = Expect::offset_item;
    } else {
      return nested("an array");
    }
    return true;
  }
  bool end_array() override {
    if (expect_ == Expect::offset_item && offsets_ != 2) {
      return fail("TE0210", "data_offsets has too few numbers", "2", std::to_string(offsets_));
    }
    expect_ = Expect::field;
    return true;
  }
  bool key(string_t& value) override {
    if (expect_ == Expect::metadata_key) {
      if (header.metadata.contains(value)) return duplicate(value);
      key_ = std::move(value);
      expect_ = Expect::metadata_value;
      return true;
    }
    if (expect_ == Expect::entry) {
      if (value == "__metadata__") {
        if (seen_metadata_) return duplicate(value);
        seen_metadata_ = true;
        expect_ = Expect::metadata;
      } else {
        tensor_.name = std::move(value);
        expect_ = Expect::tensor;
      }
      return true;
    }
    int field = 0;
    if (value == "dtype") {
      field = 1;
      expect_ = Expect::dtype;
    } else if (value == "shape") {
      field = 2;
      expect_ = Expect::shape;
    } else if (value == "data_offsets") {
      field = 4;
      expect_ = Expect::offsets;
    } else {
      return fail("TE0210", "the tensor's entry has an unknown field", "dtype, shape and data_offsets", shown(value));
    }
    if ((fields_ & field) != 0) return duplicate(value);
    fields_ |= field;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& fault) override {
    if (!error) {
      std::string text = fault.what();
      const std::size_t at = text.rfind("; last read");
      if (at != std::string::npos) text.resize(at);
      const std::size_t from = text.find(": ");
      error = refuse("TE0207", "the header is not JSON", fmt::format("{}: byte {}", file_, 8 + position),
                     "a JSON object", from == std::string::npos ? text : text.substr(from + 2));
    }
    return false;
  }

 private:
  enum class Expect {
    header,
    entry,
    tensor,
    field,
    dtype,
    shape,
    shape_item,
    offsets,
    offset_item,
    metadata,
    metadata_key,
    metadata_value,
    nothing
  };

  bool fail(std::string_view id, std::string what, std::string need, std::string have) {
    const auto byte = static_cast<std::uint64_t>(cursor_ - begin_) + 8;
    std::string where = fmt::format("{}: byte {}", file_, byte);
    if (!tensor_.name.empty()) where += fmt::format(", tensor {}", shown(tensor_.name));
    error = refuse(id, std::move(what), std::move(where), std::move(need), std::move(have));
    return false;
  }
  bool duplicate(const std::string& word) {
    return fail("TE0209", "a key stands twice in the header", "one", shown(word));
  }
  bool nested(std::string_view what) {
    if (expect_ == Expect::header)
      return fail("TE0210", "the header has a wrong form", "an object of tensors", std::string(what));
    if (expect_ == Expect::dtype || expect_ == Expect::shape_item || expect_ == Expect::offset_item ||
        expect_ == Expect::metadata_value) {
      return fail("TE0208", "the header is nested too deep", "numbers, or strings in __metadata__", std::string(what));
    }
    return wrong_value(std::string(what));
  }
  bool wrong_value(std::string have) {
    std::string need = "an object";
    if (expect_ == Expect::dtype) need = "a string";
    if (expect_ == Expect::shape || expect_ == Expect::offsets) need = "an array";
    if (expect_ == Expect::shape_item || expect_ == Expect::offset_item) need = "whole numbers";
    if (expect_ == Expect::metadata_value) need = "a string in __metadata__";
    return fail("TE0210", "the header has a wrong form", std::move(need), std::move(have));
  }

  const std::string& file_;
  const char* begin_;
  const char* const& cursor_;
  Expect expect_ = Expect::header;
  HeaderTensor tensor_;
  std::string key_;
  int fields_ = 0;
  int offsets_ = 0;
  bool seen_metadata_ = false;
};

// Hands characters to the JSON reader and leaves the place of the last one in `cursor`.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Characters(const char* at, const char** cursor) : at_(at), cursor_(cursor) {}
  const char& operator*() const { return *at_; }
  Characters& operator++() {
    *cursor_ = at_++;
    return *this;
  }
  Characters operator++(int) {
    Characters before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Characters& other) const { return at_ == other.at_; }
  bool operator!=(const Characters& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** cursor_;
};

// Bits of a tensor; nullopt where a product, whole or partial, does not fit in 63 bits.
std::optional<std::uint64_t> shape_bits(const HeaderTensor& tensor) {
  constexpr std::uint64_t kLimit = INT64_MAX;
  auto product = static_cast<std::uint64_t>(dtype_bits(tensor.dtype));
  for (const std::int64_t dim : tensor.shape) {
    const auto size = static_cast<std::uint64_t>(dim);
    if (size != 0 && product > kLimit / size) return std::nullopt;
    product *= size;
  }
  return product;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string range_text(const HeaderTensor& tensor) {
  return fmt::format("{} at [{}, {})", shown(tensor.name), tensor.begin, tensor.end);
}

std::optional<Error> check_one(const HeaderTensor& tensor, std::uint64_t data_bytes, const std::string& where) {
  const std::optional<std::uint64_t> bits = shape_bits(tensor);
  if (!bits) {
    return refuse("TE0213", "the tensor's size overflows", where, "less than 2^63 bits",
                  fmt::format("{} {}", tensor.dtype, shape_text(tensor.shape)));
  }
  if (tensor.begin > tensor.end) {
    return refuse("TE0215", "the tensor ends before it begins", where, "begin <= end",
                  fmt::format("[{}, {})", tensor.begin, tensor.end));
  }
  if (tensor.end > data_bytes) {
    return refuse("TE0216", "the tensor lies beyond the end of the file", where,
                  fmt::format("at least {} B of data", tensor.end), fmt::format("{} B", data_bytes));
  }
  if (*bits % 8 != 0) {
    return refuse("TE0214", "the tensor does not end on a byte", where, "a multiple of 8 bits",
                  fmt::format("{} bits, {} {}", *bits, tensor.dtype, shape_text(tensor.shape)));
  }
  if (*bits / 8 != tensor.end - tensor.begin) {
    return refuse("TE0214", "the tensor's shape and its bytes disagree", where,
                  fmt::format("{} B for {} {}", *bits / 8, tensor.dtype, shape_text(tensor.shape)),
                  fmt::format("{} B", tensor.end - tensor.begin));
  }
  return std::nullopt;
}

}  // namespace

int dtype_bits(std::string_view dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.word == dtype) return row.bits;
  }
  return 0;
}

bool valid_utf8(std::string_view text, std::size_t& bad) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char c = byte(i);
    std::size_t more = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (c < 0x80) {
      ++i;
      continue;
    }
    bad = i;
    if (c >= 0xC2 && c <= 0xDF) {
      more = 1;
    } else if (c >= 0xE0 && c <= 0xEF) {
      more = 2;
      if (c == 0xE0) low = 0xA0;
      if (c == 0xED) high = 0x9F;
    } else if (c >= 0xF0 && c <= 0xF4) {
      more = 3;
      if (c == 0xF0) low = 0x90;
      if (c == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (text.size() - i <= more || byte(i + 1) < low || byte(i + 1) > high) return false;
    for (std::size_t j = 2; j <= more; ++j) {
      if (byte(i + j) < 0x80 || byte(i + j) > 0xBF) return false;
    }
    i += more + 1;
  }
  return true;
}

Result<std::uint64_t> parse_header_length(std::span<const std::uint8_t, 8> bytes, std::uint64_t file_size,
                                          const std::string& file) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{bytes[i]} << (8 * i);
  const std::string where = file + ": byte 0";
  if (length < 2) {
    return refuse("TE0203", "the header is too short for a JSON object", where, "a header of at least 2 B",
                  fmt::format("{} B", length));
  }
  if (length > kHeaderCap) {
    return refuse("TE0204", "the header is longer than any header may be", where,
                  fmt::format("a header of at most {} B", kHeaderCap), fmt::format("{} B", length));
  }
  if (length > file_size - 8) {
    return refuse("TE0205", "the header is longer than the file", where,
                  fmt::format("a file of at least {} B", length + 8), fmt::format("{} B", file_size));
  }
  return length;
}

Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  std::size_t bad = 0;
  if (!valid_utf8(text, bad)) {
    return refuse("TE0206", "the header is not UTF-8", fmt::format("{}: byte {}", file, 8 + bad), "UTF-8",
                  fmt::format("0x{:02x}", static_cast<unsigned char>(text[bad])));
  }
  // The JSON reader takes a zero byte for the end and would not see what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return refuse("TE0207", "the header is not JSON", fmt::format("{}: byte {}", file, 8 + zero), "a JSON object",
                  "a zero byte");
  }
  const char* cursor = text.data();
  HeaderHandler handler(file, text.data(), cursor);
  const bool good = nlohmann::json::sax_parse(Characters(text.data(), &cursor),
                                              Characters(text.data() + text.size(), &cursor), &handler);
  if (handler.error) return *handler.error;
  if (!good) return refuse("TE0207", "the header is not JSON", file, "a JSON object");

  Header header = std::move(handler.header);
  std::set<std::string_view> names;
  for (const HeaderTensor& tensor : header.tensors) {
    const std::string where = fmt::format("{}: tensor {}", file, shown(tensor.name));
    if (!names.insert(tensor.name).second) return refuse("TE0209", "a key stands twice in the header", where, "one");
    if (std::optional<Error> error = check_one(tensor, data_bytes, where)) return *error;
  }
  names.clear();
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t at = 0;
  const HeaderTensor* before = nullptr;
  for (const HeaderTensor& tensor : header.tensors) {
    if (tensor.begin != at) {
      const bool gap = tensor.begin > at;
      const std::string where =
          before == nullptr ? fmt::format("{}: tensor {}", file, shown(tensor.name))
                            : fmt::format("{}: tensors {} and {}", file, shown(before->name), shown(tensor.name));
      return refuse(
          gap ? "TE0217" : "TE0218", gap ? "bytes before a tensor belong to none" : "two tensors overlap", where,
          fmt::format("{} to begin at byte {} of the data", shown(tensor.name), at),
          before == nullptr ? range_text(tensor) : fmt::format("{}, {}", range_text(*before), range_text(tensor)));
    }
    at = tensor.end;
    before = &tensor;
  }
  if (at != data_bytes) {
    return refuse("TE0219", "bytes after the last tensor belong to none",
                  before == nullptr ? file : fmt::format("{}: tensor {}", file, shown(before->name)),
                  fmt::format("{} B of data", at), fmt::format("{} B", data_bytes));
  }
  return header;
}

std::string header_bytes(const Header& header) {
  nlohmann::json json = nlohmann::json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  std::string text = json.dump();
  // Entries are put together by hand, so that they stand in file order.
  text.pop_back();
  for (const HeaderTensor& tensor : header.tensors) {
    if (text.size() > 1) text += ',';
    text +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", nlohmann::json(tensor.name).dump(),
                    tensor.dtype, fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return bytes + text;
}

}  // namespace tetrad::checkpoint
