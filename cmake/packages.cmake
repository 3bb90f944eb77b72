# Debian packages, `cpack` in the build tree or `make deb`: libmortise0 libmortise-dev mortise, from the components of install.cmake.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mortise)
set(CPACK_PACKAGE_VENDOR mortise)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "memory allocators made out of layers")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime dev tool)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "mortise <mortise@localhost.localdomain>")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libmortise0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers ${PROJECT_SOURCE_DIR}/packaging/debian/shlibs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Allocators that replace a program's malloc, by LD_PRELOAD or linked in:
hslab for throughput and small memory, wfslab for a bounded worst case,
tlsf for real-time programs, and hardened variants. libmortise has heaps
that any thread uses and that are given back at once, libmortise_pool
typed object pools.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmortise-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libmortise0 (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "g++, cmake, pkgconf")
set(CPACK_DEBIAN_DEV_DESCRIPTION "Headers, archives, CMake and pkg-config files of libmortise, libmortise_pool
and of every allocator, and the layers to compose allocators of one's own.")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME mortise)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "libmortise0 (= ${PROJECT_VERSION}-1), python3 (>= 3.11), python3-typer, python3-rich, python3-numpy, python3-scipy, python3-psutil, python3-pyelftools, python3-jinja2, python3-plotly")
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS "libmortise-dev, g++")
set(CPACK_DEBIAN_TOOL_DESCRIPTION "Says which allocator a program should run on, by interleaved runs with
confidence intervals, and runs it there. Shows the layers of an allocator,
heap profiles, the latency of single calls, and builds allocators out of
layers.")

# What every Debian package has: its terms, what changed, and why its checker is wrong where it is.
set(changelog ${CMAKE_BINARY_DIR}/changelog.Debian)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${changelog} "mortise (${PROJECT_VERSION}-1) unstable; urgency=medium

  * Built from the project's tree. Its CHANGELOG.md says what changed.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${now}
")
execute_process(COMMAND gzip -9nf ${changelog} COMMAND_ERROR_IS_FATAL ANY)
foreach(pair runtime:libmortise0 dev:libmortise-dev tool:mortise)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/${package} COMPONENT ${component} RENAME copyright)
  install(FILES ${changelog}.gz DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)  # packages only
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/overrides/${package} DESTINATION share/lintian/overrides COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
