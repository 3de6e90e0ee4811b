// Counts every allocation by operator new of the program that links allocations.cpp.
#pragma once

namespace tetrad::test {

long allocations();

}  // namespace tetrad::test
