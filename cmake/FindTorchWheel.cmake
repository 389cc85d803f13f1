# LibTorch from the PyPI wheel "torch", without the wheel's own TorchConfig.cmake (which demands a CUDA
# toolkit that suits its CMake dialect). Looks in YOKE_TORCH_DIR (the folder "torch" itself) or in the
# virtual environment of this checkout, or in the Python that is first on the PATH.
#
# Targets: TorchWheel::torch      libtorch_cpu and libc10, all that a program needs at start
#          TorchWheel::torch_cuda libtorch_cuda and libc10_cuda, only where NVIDIA headers are found
# Variables: TorchWheel_VERSION, TorchWheel_DIR, TorchWheel_HAS_CUDA
set(YOKE_TORCH_DIR "" CACHE PATH "Folder of the torch package (…/site-packages/torch)")
if(NOT YOKE_TORCH_DIR)
  set(_yoke_python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  if(NOT EXISTS ${_yoke_python})
    find_program(_yoke_python_found NAMES python3)
    set(_yoke_python ${_yoke_python_found})
  endif()
  execute_process(
    COMMAND ${_yoke_python} -c
            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE _yoke_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_yoke_torch)
    set(YOKE_TORCH_DIR ${_yoke_torch} CACHE PATH "" FORCE)
  endif()
endif()

set(TorchWheel_DIR ${YOKE_TORCH_DIR})
get_filename_component(_yoke_site "${YOKE_TORCH_DIR}" DIRECTORY)
find_file(TorchWheel_CPU_LIBRARY libtorch_cpu.so PATHS ${YOKE_TORCH_DIR}/lib NO_DEFAULT_PATH)
find_file(TorchWheel_C10_LIBRARY libc10.so PATHS ${YOKE_TORCH_DIR}/lib NO_DEFAULT_PATH)
find_path(TorchWheel_INCLUDE_DIR ATen/ATen.h PATHS ${YOKE_TORCH_DIR}/include NO_DEFAULT_PATH)
if(EXISTS ${YOKE_TORCH_DIR}/version.py)
  file(STRINGS ${YOKE_TORCH_DIR}/version.py _yoke_version_line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TorchWheel_VERSION "${_yoke_version_line}")
endif()

# libtorch_cpu of a CUDA wheel needs these two even where no GPU is.
file(GLOB _yoke_nvidia ${_yoke_site}/nvidia/cu[0-9]*/lib)
set(_yoke_needed)
foreach(_name cudart cupti)
  file(GLOB _yoke_found ${_yoke_site}/nvidia/cu[0-9]*/lib/lib${_name}.so.*)
  list(FILTER _yoke_found EXCLUDE REGEX "_static|\\.alt")
  if(_yoke_found)
    list(SORT _yoke_found)
    list(GET _yoke_found 0 _yoke_first)
    list(APPEND _yoke_needed ${_yoke_first})
  endif()
endforeach()

# at::parallel_for is inline and runs on one thread where OpenMP is off; the runtime is the wheel's.
file(GLOB _yoke_openmp ${YOKE_TORCH_DIR}/lib/libgomp*.so*)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TorchWheel
  REQUIRED_VARS TorchWheel_CPU_LIBRARY TorchWheel_C10_LIBRARY TorchWheel_INCLUDE_DIR
  VERSION_VAR TorchWheel_VERSION
  REASON_FAILURE_MESSAGE "install the wheel (./dev build does) or set YOKE_TORCH_DIR")

if(TorchWheel_FOUND AND NOT TARGET TorchWheel::torch)
  add_library(TorchWheel::torch INTERFACE IMPORTED)
  set_target_properties(
    TorchWheel::torch
    PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
               "${TorchWheel_INCLUDE_DIR};${TorchWheel_INCLUDE_DIR}/torch/csrc/api/include"
               INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
               "${TorchWheel_INCLUDE_DIR};${TorchWheel_INCLUDE_DIR}/torch/csrc/api/include"
               INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1;USE_DISTRIBUTED;USE_C10D_GLOO"
               INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>"
               INTERFACE_LINK_LIBRARIES
               "${TorchWheel_CPU_LIBRARY};${TorchWheel_C10_LIBRARY};${_yoke_openmp};${_yoke_needed}"
               INTERFACE_LINK_OPTIONS
               "-Wl,-rpath,${YOKE_TORCH_DIR}/lib;-Wl,-rpath,${_yoke_nvidia}")
endif()

find_path(TorchWheel_CUDA_INCLUDE_DIR cuda_runtime.h
          PATHS ${_yoke_site}/nvidia/cu13/include NO_DEFAULT_PATH)
find_path(TorchWheel_NCCL_INCLUDE_DIR nccl.h
          PATHS ${_yoke_site}/nvidia/nccl/include NO_DEFAULT_PATH)
if(TorchWheel_CUDA_INCLUDE_DIR
   AND TorchWheel_NCCL_INCLUDE_DIR
   AND EXISTS ${YOKE_TORCH_DIR}/lib/libtorch_cuda.so)
  set(TorchWheel_HAS_CUDA ON)
  if(TorchWheel_FOUND AND NOT TARGET TorchWheel::torch_cuda)
    set(_yoke_cuda_include "${TorchWheel_CUDA_INCLUDE_DIR};${TorchWheel_NCCL_INCLUDE_DIR}")
    add_library(TorchWheel::torch_cuda INTERFACE IMPORTED)
    set_target_properties(
      TorchWheel::torch_cuda
      PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_yoke_cuda_include}"
                 INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_yoke_cuda_include}"
                 INTERFACE_COMPILE_DEFINITIONS USE_C10D_NCCL
                 # not dropped, although it registers itself and little of it is called by name
                 INTERFACE_LINK_OPTIONS "LINKER:--no-as-needed"
                 INTERFACE_LINK_LIBRARIES
                 "${YOKE_TORCH_DIR}/lib/libtorch_cuda.so;${YOKE_TORCH_DIR}/lib/libc10_cuda.so;TorchWheel::torch"
    )
  endif()
else()
  set(TorchWheel_HAS_CUDA OFF)
endif()
