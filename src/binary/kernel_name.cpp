#include "binary/kernel_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

namespace tetrad::binary {
namespace {

constexpr std::size_t kMaxDepth = 128;
constexpr std::size_t kMaxName = 4096;   // of one part or prefix, in characters
constexpr std::size_t kMaxParts = 64;    // substitutions that are kept
constexpr std::size_t kMaxShown = 1000;  // of a name that is demangled in full
constexpr std::ptrdiff_t kMaxRepeats = 12;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A reader of the part of the grammar that compilers of device code use; what it does not know ends the reading.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string name() {
    std::string base;
    const bool known = qualified(base);
    if (!known || peek() != 'I') return base;
    ++at_;
    std::string argument;
    if ((peek() == 'N' || peek() == 'S') && qualified(argument) && argument.find("::") != std::string::npos) {
      return base + "<" + argument + ">";
    }
    return base;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  std::optional<std::string_view> source_name() {
    std::size_t size = 0;
    while (is_digit(peek()) && size < kMaxName) size = size * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    if (size == 0 || size > text_.size() - at_) return std::nullopt;
    std::string_view name = text_.substr(at_, size);
    at_ += size;
    if (name.starts_with("_GLOBAL__N_")) name = "(anonymous namespace)";
    return name;
  }

  // S_, S0_, St and the abbreviations; empty text where it stands for something that was not kept.
  bool substitution(std::string& out) {
    if (!take('S')) return false;
    const char c = peek();
    ++at_;
    if (c == 't') return out = "std", true;
    if (c == 'a' || c == 'b' || c == 's' || c == 'i' || c == 'o' || c == 'd') return out = "std::string", true;
    std::size_t index = 0;
    if (c != '_') {
      --at_;
      while (is_digit(peek()) || (peek() >= 'A' && peek() <= 'Z')) {
        const char d = text_[at_++];
        index = index * 36 + static_cast<std::size_t>(is_digit(d) ? d - '0' : d - 'A' + 10);
        if (index > kMaxName) return false;
      }
      if (!take('_')) return false;
      ++index;
    }
    out = index < parts_.size() ? parts_[index] : std::string("?");
    return true;
  }

  void keep(const std::string& part) {
    if (parts_.size() < kMaxParts) parts_.push_back(part);
  }

  // A name with its scopes; arguments of inner templates are passed over, those of the last part are not read yet.
  bool qualified(std::string& out) {
    if (!take('N')) {
      if (peek() == 'S' && substitution(out)) {
        if (out != "std") return true;
        const std::optional<std::string_view> part = source_name();
        if (part) out += "::" + std::string(*part);
        return part.has_value();
      }
      const std::optional<std::string_view> part = source_name();
      if (part) out = *part;
      return part.has_value();
    }
    while (peek() == 'r' || peek() == 'V' || peek() == 'K') ++at_;
    for (;;) {
      if (peek() == 'S') {
        if (!substitution(out)) return false;
      } else if (is_digit(peek())) {
        const std::optional<std::string_view> part = source_name();
        if (!part || out.size() > kMaxName) return false;
        out += (out.empty() ? "" : "::") + std::string(*part);
        if (peek() != 'E') keep(out);
      } else if (peek() == 'I') {
        // The last part's arguments end the name; others are passed.
        const std::size_t start = at_;
        if (!skip_arguments(0)) return at_ = start, true;
        if (peek() == 'E') return at_ = start, true;
      } else {
        return take('E');
      }
    }
  }

  bool skip_arguments(std::size_t depth) {
    if (depth > kMaxDepth || !(take('I') || take('J'))) return false;
    while (!take('E')) {
      if (!skip_one(depth + 1)) return false;
    }
    return true;
  }

  bool skip_nested(std::size_t depth) {
    while (!take('E')) {
      if (is_digit(peek())) {
        if (!source_name()) return false;
      } else if (peek() == 'I') {
        if (!skip_arguments(depth + 1)) return false;
      } else if (peek() == 'S') {
        std::string ignored;
        if (!substitution(ignored)) return false;
      } else if (peek() == 'K' || peek() == 'V' || peek() == 'r') {
        ++at_;
      } else {
        return false;
      }
    }
    return true;
  }

  bool skip_literal(std::size_t depth) {
    if (!skip_one(depth + 1)) return false;
    while (at_ < text_.size() && (is_digit(peek()) || peek() == 'n' || (peek() >= 'a' && peek() <= 'f'))) ++at_;
    return take('E');
  }

  bool skip_one(std::size_t depth) {
    if (depth > kMaxDepth) return false;
    const char c = peek();
    if (is_digit(c)) return source_name() && (peek() != 'I' || skip_arguments(depth + 1));
    if (c == 'S') {
      std::string ignored;
      if (!substitution(ignored)) return false;
      if (ignored == "std" && is_digit(peek()) && !source_name()) return false;
      return peek() != 'I' || skip_arguments(depth + 1);
    }
    if (c == 'I' || c == 'J') return skip_arguments(depth + 1);
    ++at_;
    switch (c) {
      case 'N':
        return skip_nested(depth + 1);
      case 'L':
        return skip_literal(depth + 1);
      case 'P':
      case 'R':
      case 'O':
      case 'K':
      case 'V':
        return skip_one(depth + 1);
      case 'F':
        while (!take('E')) {
          if (!skip_one(depth + 1)) return false;
        }
        return true;
      case 'A':
        while (is_digit(peek())) ++at_;
        return take('_') && skip_one(depth + 1);
      case 'T':
        while (is_digit(peek())) ++at_;
        return take('_');
      case 'D':
        if (peek() == 'p') return ++at_, skip_one(depth + 1);
        if (peek() == 'F') {
          while (at_ < text_.size() && (is_digit(peek()) || peek() == 'F')) ++at_;
          return take('_') || take('b');
        }
        return at_ < text_.size() && std::string_view("nahfdeiu").find(text_[at_++]) != std::string_view::npos;
      default:
        return std::string_view("vwbcahstijlmxynofdegz").find(c) != std::string_view::npos && c != '\0';
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> parts_;
};

}  // namespace

std::string template_name(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return std::string(mangled);
  std::string name = Reader(mangled.substr(2)).name();
  return name.empty() ? std::string(mangled) : name;
}

std::string readable_name(const std::string& mangled) {
  if (!mangled.starts_with("_Z")) return mangled;
  if (mangled.size() <= kMaxShown && std::count(mangled.begin(), mangled.end(), 'S') <= kMaxRepeats) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                      std::free);
    if (status == 0 && text != nullptr) return text.get();
  }
  return template_name(mangled) + "<...>";
}

}  // namespace tetrad::binary
