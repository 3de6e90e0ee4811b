// Errors as values: every failure says what was needed and what was found.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tetrad {

// The class of a failure; tools map it to an exit code (docs/exit-codes.md).
enum class ErrorKind {
  usage,        // wrong words on the command line or in a problem text     -> exit 2
  input,        // a file or value that cannot be accepted                  -> exit 2
  unavailable,  // right request, but this machine or build cannot do it    -> exit 3
  check,        // a result failed its comparison                           -> exit 4
  internal,     // a broken invariant of ours                               -> exit 70
};

// One failure. `what` starts in lower case and has no final full stop.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string id;                   // "TE0203": stable, never reused; ids are listed in docs/errors.md
  std::string what;                 // one line
  std::string where;                // file, byte offset, tensor, field; may be empty
  std::string need;                 // what was needed; may be empty
  std::string have;                 // what was found; may be empty
  std::vector<std::string> causes;  // from the nearest to the root
  std::string hint;                 // one command or action to try; may be empty
};

// Holds a T or an Error. Like std::expected (C++23), reduced to what the library uses.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // Precondition: has_value(). Breaking it ends the program.
  T& value() & { return has_value() ? *std::get_if<0>(&state_) : *fail<T>(); }
  const T& value() const& { return has_value() ? *std::get_if<0>(&state_) : *fail<const T>(); }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !has_value().
  Error& error() & { return has_value() ? *fail<Error>() : *std::get_if<1>(&state_); }
  const Error& error() const& { return has_value() ? *fail<const Error>() : *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(error()); }

 private:
  template <class U>
  [[noreturn]] static U* fail() {
    std::abort();
  }
  std::variant<T, Error> state_;
};

struct Ok {};
using Status = Result<Ok>;
inline Status ok() { return Status(Ok{}); }

}  // namespace tetrad
