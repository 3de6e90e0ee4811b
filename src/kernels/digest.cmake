# cmake -DOUT=digests.cpp -DOBJDUMP=objdump -DROWS="name|a.o,b.o;..." -P digest.cmake
# Writes the digest of each row: SHA-256 over the disassembly of the executable sections of its objects, so that debug
# information and paths do not count. Without objdump the whole objects are hashed.
set(entries "")
foreach(row IN LISTS ROWS)
  string(REPLACE "|" ";" parts "${row}")
  list(GET parts 0 name)
  list(GET parts 1 objects)
  string(REPLACE "," ";" objects "${objects}")
  set(text "")
  foreach(object IN LISTS objects)
    if(OBJDUMP)
      execute_process(COMMAND ${OBJDUMP} -d -r ${object} OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
      string(REPLACE "${object}" "" code "${code}")
      string(SHA256 sum "${code}")
    else()
      file(SHA256 ${object} sum)
    endif()
    string(APPEND text "${sum}\n")
  endforeach()
  string(SHA256 digest "${text}")
  string(APPEND entries "  if (row == \"${name}\") return \"${digest}\";\n")
endforeach()
file(WRITE ${OUT} "#include \"kernels/digests.hpp\"

namespace tetrad::kernels {

std::string_view digest_of(std::string_view row) {
${entries}  return {};
}

}  // namespace tetrad::kernels
")
