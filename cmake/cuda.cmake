# GPU code: found nvcc turns it on (TETRAD_HAS_CUDA); without it the same options build everything else.
include_guard(GLOBAL)
option(TETRAD_CUDA "Build the GPU kernels where nvcc is found" OFF)
set(TETRAD_HAS_CUDA OFF)
if(TETRAD_CUDA)
  find_program(TETRAD_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(TETRAD_NVCC)
    set(CMAKE_CUDA_COMPILER ${TETRAD_NVCC} CACHE FILEPATH "")
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # every target names its own
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CMake 3.25 does not know the flag of this nvcc.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA_STANDARD 20)
    find_package(CUDAToolkit REQUIRED)
    set(TETRAD_HAS_CUDA ON)
  else()
    message(STATUS "TETRAD_CUDA: no nvcc here; the GPU kernels stay declared")
  endif()
endif()

# What the folders of src/kernels are compiled for. Machine code for every device that CUDA 13 lists and that the unit
# names as its own, family code where the family exists, and PTX of the oldest, so that a device of no list still runs.
# (Machine code of 8.0 also loads on 8.6 and 8.9; they get their own for their shared-memory pipes.)
set(TETRAD_CUDA_sm80 80-real 86-real 89-real 90-real 100f-real 120f-real 80-virtual)
set(TETRAD_CUDA_sm90 90a-real)

# tetrad_cuda_module(NAME UNIT sm80|sm90 SOURCES a.cu ...): as tetrad_module, compiled for the unit's devices.
function(tetrad_cuda_module NAME)
  cmake_parse_arguments(ARG "" "UNIT" "SOURCES" ${ARGN})
  add_library(tetrad_${NAME} OBJECT ${ARG_SOURCES})
  tetrad_cuda_flags(tetrad_${NAME} ${ARG_UNIT})
  set_property(GLOBAL APPEND PROPERTY TETRAD_MODULES tetrad_${NAME})
endfunction()

# CMake 3.25 knows no family targets; the flags are written out.
function(tetrad_cuda_flags TARGET UNIT)
  foreach(arch IN LISTS TETRAD_CUDA_${UNIT})
    string(REGEX MATCH "^([0-9]+[af]?)-(real|virtual)$" found ${arch})
    set(code $<IF:$<STREQUAL:${CMAKE_MATCH_2},real>,sm_${CMAKE_MATCH_1},compute_${CMAKE_MATCH_1}>)
    target_compile_options(${TARGET} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode arch=compute_${CMAKE_MATCH_1},code=${code}>")
  endforeach()
  target_compile_options(${TARGET} PRIVATE

    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TETRAD_WERROR}>>:-Werror$<SEMICOLON>all-warnings>)
  target_include_directories(${TARGET} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${TARGET} PROPERTIES CUDA_ARCHITECTURES OFF)
endfunction()
