// Numbers for people, as the planner prints them (internal).
#pragma once

#include <string>

namespace tetrad::select {

// "541 us": three significant digits.
std::string time_text(double seconds);
// "100.4 MB", "1.46 TFLOP": SI, 1000-based, three significant digits.
std::string quantity_text(double value, const char* unit);

}  // namespace tetrad::select
