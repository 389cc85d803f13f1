# Apache Arrow C++ (with Parquet) from the PyPI wheel "pyarrow", beside the torch wheel or in
# YOKE_ARROW_DIR (the folder "pyarrow" itself).
#
# Target: ArrowWheel::arrow
set(YOKE_ARROW_DIR "" CACHE PATH "Folder of the pyarrow package (…/site-packages/pyarrow)")
if(NOT YOKE_ARROW_DIR)
  get_filename_component(_yoke_site "${YOKE_TORCH_DIR}" DIRECTORY)
  if(EXISTS ${_yoke_site}/pyarrow/include/arrow/api.h)
    set(YOKE_ARROW_DIR ${_yoke_site}/pyarrow CACHE PATH "" FORCE)
  endif()
endif()
find_path(ArrowWheel_INCLUDE_DIR arrow/api.h PATHS ${YOKE_ARROW_DIR}/include NO_DEFAULT_PATH)
file(GLOB _yoke_arrow ${YOKE_ARROW_DIR}/libarrow.so.*)
file(GLOB _yoke_parquet ${YOKE_ARROW_DIR}/libparquet.so.*)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowWheel REQUIRED_VARS ArrowWheel_INCLUDE_DIR _yoke_arrow _yoke_parquet)
if(ArrowWheel_FOUND AND NOT TARGET ArrowWheel::arrow)
  add_library(ArrowWheel::arrow INTERFACE IMPORTED)
  set_target_properties(
    ArrowWheel::arrow
    PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${ArrowWheel_INCLUDE_DIR}
               INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ArrowWheel_INCLUDE_DIR}
               INTERFACE_LINK_LIBRARIES "${_yoke_arrow};${_yoke_parquet}"
               INTERFACE_LINK_OPTIONS "-Wl,-rpath,${YOKE_ARROW_DIR}")
endif()
