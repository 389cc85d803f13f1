# Compiler settings shared by every target: C++20, a compiler cache and a fast linker where present,
# warnings, sanitisers.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  else()  # the other project's own choice stays as it is
    set(CMAKE_BUILD_TYPE Release)
  endif()
endif()

# Programs find libyoke.so, and that finds libyoke_cuda.so, in the build tree and wherever the
# installed tree is moved to; LibTorch and Arrow are found in their wheels.
set(CMAKE_BUILD_RPATH ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
file(RELATIVE_PATH _yoke_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/${_yoke_bin_to_lib}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

find_program(YOKE_CCACHE ccache)
if(YOKE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${YOKE_CCACHE})
endif()

find_program(YOKE_MOLD mold)
find_program(YOKE_LLD ld.lld)
if(YOKE_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(YOKE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_library(yoke_build_flags INTERFACE)
target_compile_options(yoke_build_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
                       -Wno-missing-field-initializers)  # designated initialisers leave defaults
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns falsely of overlapping copies inside its own std::string (GCC bug 105651) and of
  # empty std::optionals.
  target_compile_options(yoke_build_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(YOKE_WARNINGS_AS_ERRORS)
  target_compile_options(yoke_build_flags INTERFACE -Werror)
endif()
if(YOKE_SANITIZE)
  add_compile_options(-fsanitize=${YOKE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${YOKE_SANITIZE})
endif()
