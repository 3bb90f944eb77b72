# What `cmake --install` lays down, in three components that are also the Debian packages (cmake/packages.cmake):
#   runtime  the shared libraries: heaps, pools, and every allocator
#   dev      headers, archives, CMake and pkg-config files, and what `mortise build` compiles with
#   tool     the command line, its helpers, the descriptions of the allocators, manual pages, completion
# Everything is found relative to itself: an installed tree may be moved.
if(CMAKE_LIBRARY_ARCHITECTURE AND NOT DEFINED CMAKE_INSTALL_LIBDIR)  # one place for every prefix, also /usr of a package
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Where libraries are installed, below the prefix")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mortise)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH MORTISE_UP_FROM_PKGCONFIG /${pkgconfig_dir} /)  # ../../.. to the prefix
string(REGEX REPLACE "/$" "" MORTISE_UP_FROM_PKGCONFIG "${MORTISE_UP_FROM_PKGCONFIG}")

# mortise_export(TARGET NAME): TARGET is installed and other projects' CMake knows it as mortise::NAME.
function(mortise_export target name)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${target} EXPORT mortise
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
endfunction()

# mortise_pkgconfig(NAME TEMPLATE): NAME.pc.
function(mortise_pkgconfig name template)
  set(MORTISE_NAME ${name})
  string(REGEX REPLACE "^mortise-" "" MORTISE_ALLOCATOR_NAME ${name})
  configure_file(${PROJECT_SOURCE_DIR}/packaging/pkgconfig/${template} ${CMAKE_BINARY_DIR}/pkgconfig/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${pkgconfig_dir} COMPONENT dev)
endfunction()

# mortise::core: the headers, for stacks of one's own.
add_library(mortise_core INTERFACE)
target_compile_features(mortise_core INTERFACE cxx_std_20)
mortise_export(mortise_core core)

# mortise::NAME is the library of an allocator. mortise::NAME_override makes it the program's malloc for certain, also where the
# program itself never calls malloc; _static does so without a shared library.
# What operator new without memory calls is in the program also where its C++ library is an archive.
set(throws "$<$<LINK_LANGUAGE:CXX>:-Wl,-u,_ZSt17__throw_bad_allocv>")
get_property(allocators GLOBAL PROPERTY MORTISE_ALLOCATORS)
foreach(name ${allocators})
  target_link_options(mortise-${name} INTERFACE ${throws})
  mortise_export(mortise-${name} ${name})
  add_library(mortise-${name}_override INTERFACE)
  target_link_libraries(mortise-${name}_override INTERFACE -Wl,--push-state,--no-as-needed mortise-${name} -Wl,--pop-state)
  mortise_export(mortise-${name}_override ${name}_override)
  mortise_pkgconfig(mortise-${name} allocator.pc.in)
  get_target_property(libraries mortise-${name} LINK_LIBRARIES)
  if(libraries MATCHES mortise_affinity)  # reads machine code with a library that programs would have to link as well
    continue()
  endif()
  mortise_archive(mortise-${name}_static mortise-${name} --keep-global-symbols=${MORTISE_GENERATED}/exports.txt)
  target_link_options(mortise-${name}_static INTERFACE ${throws})
  mortise_export(mortise-${name}_static ${name}_static)
  add_library(mortise-${name}_override_static INTERFACE)
  target_link_libraries(mortise-${name}_override_static INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,mortise::${name}_static>)
  mortise_export(mortise-${name}_override_static ${name}_override_static)
endforeach()

# mortise::mortise: heaps (mortise.h, mortise/heap.hpp). mortise::pool: object pools (pool.h, mortise/pool.hpp).
# What their C++ headers need, pool.hpp and heap.hpp; projects in C alone do not see it.
target_compile_features(mortise_pool_shared INTERFACE cxx_std_20)
target_compile_features(mortise_pool_static INTERFACE cxx_std_20)
target_compile_features(mortise_heaps_shared INTERFACE cxx_std_17)
target_compile_features(mortise_heaps_static INTERFACE cxx_std_17)
mortise_export(mortise_heaps_shared mortise)
mortise_export(mortise_heaps_static mortise_static)
mortise_pkgconfig(mortise library.pc.in)
mortise_export(mortise_pool_shared pool)
mortise_export(mortise_pool_static pool_static)
mortise_pkgconfig(mortise_pool library.pc.in)

install(EXPORT mortise NAMESPACE mortise:: DESTINATION ${cmake_dir} FILE mortise-targets.cmake COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/cmake/mortise-config.cmake.in
  ${CMAKE_BINARY_DIR}/mortise-config.cmake INSTALL_DESTINATION ${cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mortise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/mortise-config.cmake ${CMAKE_BINARY_DIR}/mortise-config-version.cmake
  DESTINATION ${cmake_dir} COMPONENT dev)

# Headers, and the sources that `mortise build` compiles compositions with.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/mortise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${MORTISE_GENERATED}/mortise_malloc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mortise COMPONENT dev RENAME malloc.h)
install(FILES ${CMAKE_BINARY_DIR}/kit-installed.json DESTINATION share/mortise COMPONENT dev RENAME kit.json)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/abi DESTINATION share/mortise/kit COMPONENT dev FILES_MATCHING PATTERN "*.[ch]pp")
install(DIRECTORY ${MORTISE_GENERATED} DESTINATION share/mortise/kit COMPONENT dev)

# The command line.
foreach(helper mortise-launcher mortise-calls mortise-peek mortise-clock)
  install(TARGETS ${helper} RUNTIME DESTINATION lib/mortise COMPONENT tool)
endforeach()
install(TARGETS mortise-probe mortise-trace mortise-latency LIBRARY DESTINATION lib/mortise COMPONENT tool)
if(TARGET mortise_isolate)
  install(TARGETS mortise_isolate mortise_isolate_sites mortise_mapcache LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
foreach(name ${allocators})
  install(FILES ${CMAKE_BINARY_DIR}/share/mortise/${name}.json DESTINATION share/mortise COMPONENT tool)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/share/mortise/conf.json DESTINATION share/mortise COMPONENT tool)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/exceptions DESTINATION share/mortise COMPONENT tool)
if(SKBUILD)  # a wheel brings the Python package and its command itself
  return()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/cli/mortise DESTINATION lib/python3/dist-packages COMPONENT tool
  PATTERN __pycache__ EXCLUDE)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/cli/launcher/mortise_installed.py DESTINATION bin COMPONENT tool RENAME mortise)

# Manual pages, compressed as systems keep them, and completion; packaging/manual.py and completion.py wrote them.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/man/*.[137])
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
foreach(page ${pages})
  get_filename_component(name ${page} NAME)
  string(REGEX REPLACE ".*[.]" "" section ${name})
  set(packed ${CMAKE_BINARY_DIR}/man/${name}.gz)
  add_custom_command(OUTPUT ${packed} COMMAND sh -c "gzip -9nc '${page}' > '${packed}'" DEPENDS ${page} VERBATIM)
  list(APPEND packed_pages ${packed})
  set(component tool)
  if(section EQUAL 3)
    set(component dev)
  endif()
  install(FILES ${packed} DESTINATION share/man/man${section} COMPONENT ${component})
endforeach()
add_custom_target(mortise_manual ALL DEPENDS ${packed_pages})
set(completion ${PROJECT_SOURCE_DIR}/packaging/completion)
install(FILES ${completion}/mortise.bash DESTINATION share/bash-completion/completions COMPONENT tool RENAME mortise)
install(FILES ${completion}/_mortise DESTINATION share/zsh/vendor-completions COMPONENT tool)
install(FILES ${completion}/mortise.fish DESTINATION share/fish/vendor_completions.d COMPONENT tool)
