# The package files of the installed tree, so that find_package(yoke) gives the target yoke::yoke.
include(CMakePackageConfigHelpers)

set(_yoke_package ${CMAKE_INSTALL_LIBDIR}/cmake/yoke)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/yoke-config.cmake.in ${PROJECT_BINARY_DIR}/yoke-config.cmake
  INSTALL_DESTINATION ${_yoke_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/yoke-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)

install(EXPORT yoke-targets NAMESPACE yoke:: DESTINATION ${_yoke_package})
install(FILES ${PROJECT_BINARY_DIR}/yoke-config.cmake
              ${PROJECT_BINARY_DIR}/yoke-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindTorchWheel.cmake
        DESTINATION ${_yoke_package})
