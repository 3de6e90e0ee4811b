# Install rules and the package files: find_package(tetrad) gives tetrad::tetrad.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tetrad EXPORT tetradTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tetrad_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tetrad DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tetrad)
install(EXPORT tetradTargets NAMESPACE tetrad:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tetradConfig.cmake.in ${PROJECT_BINARY_DIR}/tetradConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tetradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tetradConfig.cmake ${PROJECT_BINARY_DIR}/tetradConfigVersion.cmake
        DESTINATION ${package_folder})
