# nvcc for the .cu files of libyoke_cuda.so, without CMake's language CUDA, which stops a build that has
# no whole toolkit. Looked for in the wheel nvidia-cuda-nvcc beside torch, on the PATH and in
# /usr/local/cuda*; YOKE_NVCC names another, or OFF. It has to be of the torch wheel's CUDA (the major
# version) and has to compile a file with this build's C++ compiler.
#
# Variable: YOKE_NVCC_WORKS
# yoke_cuda_objects(OUT SOURCES…): compiles each .cu; OUT receives the object files.
get_filename_component(_yoke_site "${YOKE_TORCH_DIR}" DIRECTORY)
file(GLOB _yoke_nvcc_wheel ${_yoke_site}/nvidia/cu[0-9]*/bin)
file(GLOB _yoke_nvcc_system /usr/local/cuda/bin /usr/local/cuda-[0-9]*/bin)
find_program(YOKE_NVCC nvcc HINTS ${_yoke_nvcc_wheel} PATHS ${_yoke_nvcc_system}
             DOC "CUDA compiler for yoke's own kernels; OFF: none")

# Machine code for what the wheel supports and is common, and PTX for whatever comes later. A fused
# multiply-add is written where it is wanted: left to nvcc, the bits would not be the CPU's.
set(_yoke_nvcc_flags
    -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -Xcompiler=-fPIC,-Wall -ccbin
    ${CMAKE_CXX_COMPILER} -gencode=arch=compute_75,code=sm_75 -gencode=arch=compute_80,code=sm_80
    -gencode=arch=compute_90,code=[sm_90,compute_90])

function(_yoke_try_nvcc)
  set(why "")
  if(NOT YOKE_NVCC)
    set(why "no nvcc")
  else()
    execute_process(COMMAND ${YOKE_NVCC} --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
    string(REGEX MATCH "release ([0-9]+)\\.[0-9]+" release "${said}")
    set(major ${CMAKE_MATCH_1})
    if(NOT release)
      set(why "${YOKE_NVCC} does not run")
    elseif(NOT EXISTS ${_yoke_site}/nvidia/cu${major})
      set(why "${YOKE_NVCC} is of CUDA ${major}, the torch wheel is not")
    else()
      set(probe ${CMAKE_CURRENT_BINARY_DIR}/nvcc_probe)
      file(WRITE ${probe}.cu "#include <array>\n__global__ void probe(int* x) { *x = 1; }\n")
      execute_process(
        COMMAND ${YOKE_NVCC} ${_yoke_nvcc_flags} -c ${probe}.cu -o ${probe}.o
        RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
      if(NOT status EQUAL 0)
        string(STRIP "${said}" said)
        set(why "${YOKE_NVCC} cannot compile with ${CMAKE_CXX_COMPILER}: ${said}")
      endif()
    endif()
  endif()
  if(why)
    message(STATUS "CUDA kernels: not built, ${why}")
    set(YOKE_NVCC_WORKS OFF CACHE INTERNAL "")
  else()
    message(STATUS "CUDA kernels: ${YOKE_NVCC} (${release})")
    set(YOKE_NVCC_WORKS ON CACHE INTERNAL "")
  endif()
  set(YOKE_NVCC_TRIED "${YOKE_NVCC} ${_yoke_nvcc_flags}" CACHE INTERNAL "")
endfunction()

if(NOT YOKE_NVCC_WORKS OR NOT YOKE_NVCC_TRIED STREQUAL "${YOKE_NVCC} ${_yoke_nvcc_flags}")
  _yoke_try_nvcc()
endif()

function(yoke_cuda_objects out)
  set(strict)
  if(YOKE_WARNINGS_AS_ERRORS)
    set(strict -Werror=all-warnings)
  endif()
  set(objects)
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${YOKE_NVCC} ${_yoke_nvcc_flags} ${strict} -I${PROJECT_SOURCE_DIR} -MD -MF ${object}.d
              -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${source}.o"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
