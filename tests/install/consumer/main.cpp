#include <iostream>

#include "tetrad/kernels.hpp"
#include "tetrad/problem.hpp"

int main() {
  const auto set = tetrad::parse_problem("m1 n32 k64");
  if (!set || tetrad::kernel_table().empty()) {
    return 1;
  }
  std::cout << tetrad::to_text(*set) << "\n";
}
