# Flags that every target of the project shares, and the helpers that declare its parts.
option(TETRAD_WERROR "Treat warnings as errors" OFF)
add_library(tetrad_options INTERFACE)
# GCC 12 reports overlaps in std::string that are not there (GCC bug 105651).
target_compile_options(tetrad_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_options(tetrad_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                                -fno-math-errno -ffp-contract=off)
if(TETRAD_WERROR)
  target_compile_options(tetrad_options INTERFACE -Werror)
endif()
if(TETRAD_SANITIZE)
  target_compile_options(tetrad_options INTERFACE -fsanitize=${TETRAD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tetrad_options INTERFACE -fsanitize=${TETRAD_SANITIZE})
endif()
if(TETRAD_FUZZ)
  target_compile_options(tetrad_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tetrad_module(NAME SOURCES a.cpp ... [LINK other modules or private packages])
# One folder of src/ is one static library, tetrad_<NAME>; src/ is on the private include path, so a module names another's
# internal header as "format/x.hpp". scripts/check_layers.py checks who may include whom.
function(tetrad_module NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(tetrad_${NAME} OBJECT ${ARG_SOURCES})
  target_include_directories(tetrad_${NAME} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tetrad_${NAME} PRIVATE tetrad_options fmt::fmt ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY TETRAD_MODULES tetrad_${NAME})
endfunction()

# tetrad_test(NAME SOURCES ... [LINK ...]): a GoogleTest program over the library; may include internal headers of src/.
function(tetrad_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${NAME} PRIVATE TETRAD_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             TETRAD_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${NAME} PRIVATE tetrad tetrad_options fmt::fmt GTest::gtest_main ${ARG_LINK})
  gtest_discover_tests(${NAME} DISCOVERY_TIMEOUT 120)
endfunction()
