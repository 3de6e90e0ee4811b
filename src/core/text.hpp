// Text helpers of the library (internal).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tetrad::core {

// Edit distance (insert, delete, replace, swap of neighbours).
int edit_distance(std::string_view a, std::string_view b);
// Up to 3 of `known` at distance <= 3 (and at most half of the word's length), nearest first, ties in order of `known`.
std::vector<std::string> nearest(std::string_view word, std::span<const std::string> known);
// "did you mean 'x', 'y' or 'z'?" or "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);
// Shell-style match of a whole text: * any run, ? one character; no escapes, linear time.
bool glob_match(std::string_view pattern, std::string_view text);
std::string lower(std::string_view text);
// Decimal integer, whole text, no sign prefix '+', within int64. False if not.
bool parse_int(std::string_view text, long long& value);

// Numbers for people, three significant digits, SI prefixes of 1000: "541 us", "1.46 TFLOP", "0 B"; "-" if not finite.
// Times go down to nanoseconds, quantities not below one.
std::string time_text(double seconds);
std::string quantity_text(double value, std::string_view unit);

}  // namespace tetrad::core
