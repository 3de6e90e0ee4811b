# Data files compiled into the library.
include_guard(GLOBAL)

# tetrad_embed(<target> <symbol> <dir> FILES a.json b.json ...)
# Adds to <target> a source that defines, as src/core/embedded.hpp declares,
#   namespace tetrad::embedded { std::span<const core::EmbeddedFile> <symbol>(); }
# with one {name, text} per file, in the order given; a name is as written after FILES, relative to <dir>. A changed data
# file runs the configuration again; the source is written only where its text changes.
function(tetrad_embed target symbol dir)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  get_filename_component(dir "${dir}" ABSOLUTE)
  set(rows "")
  foreach(name IN LISTS ARG_FILES)
    set(path "${dir}/${name}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    string(FIND "${text}" ")tetrad\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "tetrad_embed: ${path} holds the delimiter of the raw string")
    endif()
    string(APPEND rows "    {\"${name}\", R\"tetrad(${text})tetrad\"},\n")
  endforeach()
  string(CONCAT source
    "// Made by tetrad_embed (cmake/embed.cmake).\n"
    "#include \"core/embedded.hpp\"\n\n"
    "namespace tetrad::embedded {\n"
    "std::span<const core::EmbeddedFile> ${symbol}();\n"
    "namespace {\n"
    "constexpr core::EmbeddedFile kFiles[] = {\n${rows}};\n"
    "}  // namespace\n"
    "std::span<const core::EmbeddedFile> ${symbol}() { return kFiles; }\n"
    "}  // namespace tetrad::embedded\n")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp")
  set(old "")
  if(EXISTS "${output}")
    file(READ "${output}" old)
  endif()
  if(NOT old STREQUAL source)
    file(WRITE "${output}" "${source}")
  endif()
  target_sources(${target} PRIVATE "${output}")
endfunction()
