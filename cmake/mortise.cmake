# How the parts of mortise are built: the warnings, the flags of code that lives inside an allocator, and mortise_allocator().

add_library(mortise_headers INTERFACE)
target_include_directories(mortise_headers INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_features(mortise_headers INTERFACE cxx_std_20)

add_library(mortise_warnings INTERFACE)
target_compile_options(mortise_warnings INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers -Werror)

# Inside an allocator: no exceptions, no RTTI, no guard variables, no calls that the compiler would turn into malloc itself.
set(MORTISE_INSIDE_FLAGS
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-builtin-malloc -fno-stack-protector -fvisibility=hidden
  -fasynchronous-unwind-tables -ftls-model=initial-exec)
set(MORTISE_LINK_FLAGS -nodefaultlibs -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,initfirst -Wl,--no-undefined -Wl,--hash-style=gnu)
set(MORTISE_ABI_FILES malloc new start front next sandbox conf stats idle report trap snapshot resident profile)

# Files without a path of malloc or free, nor of threads and forks (start): all of a library's code is resident in each program, so these
# are compiled for size. And the one that catches what a program's operator new throws. mortise_options() says so to the folder whose
# targets are made of them.
set(MORTISE_SMALL_FILES front next sandbox conf stats idle report trap snapshot resident profile)
set(MORTISE_SMALL_FLAGS -Os)
set(MORTISE_CATCHING_FILES new)
set(MORTISE_CATCHING_FLAGS -fexceptions)
function(mortise_options)
  list(TRANSFORM MORTISE_SMALL_FILES REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/abi/\\1.cpp" OUTPUT_VARIABLE small)
  set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:${MORTISE_SMALL_FLAGS}>")
  list(TRANSFORM MORTISE_CATCHING_FILES REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/abi/\\1.cpp" OUTPUT_VARIABLE catching)
  set_source_files_properties(${catching} PROPERTIES COMPILE_OPTIONS ${MORTISE_CATCHING_FLAGS})
endfunction()

add_library(mortise_inside INTERFACE)
target_compile_options(mortise_inside INTERFACE ${MORTISE_INSIDE_FLAGS})
target_compile_definitions(mortise_inside INTERFACE MORTISE_INSIDE)
target_link_libraries(mortise_inside INTERFACE mortise_headers mortise_warnings)

if(MORTISE_SANITIZE)
  add_compile_options(-fsanitize=${MORTISE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MORTISE_SANITIZE})
endif()

# What is generated from the one table of the ABI.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(MORTISE_GENERATED ${CMAKE_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${MORTISE_GENERATED}/exports.map ${MORTISE_GENERATED}/exports.txt ${MORTISE_GENERATED}/functions.inc ${MORTISE_GENERATED}/keys.inc
         ${MORTISE_GENERATED}/variables.inc ${MORTISE_GENERATED}/conf.json ${MORTISE_GENERATED}/mortise_malloc.h
         ${CMAKE_BINARY_DIR}/share/mortise/conf.json
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/abi/generate.py ${PROJECT_SOURCE_DIR}/abi/abi.toml ${MORTISE_GENERATED} ${PROJECT_VERSION}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/mortise
  COMMAND ${CMAKE_COMMAND} -E copy ${MORTISE_GENERATED}/conf.json ${CMAKE_BINARY_DIR}/share/mortise/conf.json
  COMMAND ${CMAKE_COMMAND} -E touch ${MORTISE_GENERATED}/exports.map ${MORTISE_GENERATED}/exports.txt ${MORTISE_GENERATED}/functions.inc ${MORTISE_GENERATED}/keys.inc
          ${MORTISE_GENERATED}/variables.inc ${MORTISE_GENERATED}/mortise_malloc.h
  DEPENDS ${PROJECT_SOURCE_DIR}/abi/abi.toml ${PROJECT_SOURCE_DIR}/abi/generate.py VERBATIM)
add_custom_target(mortise_generated DEPENDS ${MORTISE_GENERATED}/exports.map)

# What `mortise build` compiles compositions with: from this tree, and from an installed copy, where paths are relative to the file.
function(mortise_kit file include sources generated)
  list(JOIN MORTISE_INSIDE_FLAGS "\", \"" inside)
  list(JOIN MORTISE_LINK_FLAGS "\", \"" link)
  list(JOIN MORTISE_ABI_FILES "\", \"" files)
  foreach(kind SMALL CATCHING)
    foreach(name ${MORTISE_${kind}_FILES})
      list(APPEND options "\"${name}\": [\"${MORTISE_${kind}_FLAGS}\"]")
    endforeach()
  endforeach()
  list(JOIN options ", " options)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
{"schema": "mortise.kit/1", "version": "@PROJECT_VERSION@", "compiler": "@CMAKE_CXX_COMPILER@",
 "include": "@include@", "sources": "@sources@", "generated": "@generated@",
 "compile": ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "@inside@"],
 "link": ["@link@"], "libraries": ["-lgcc_eh", "-lc", "-lgcc"], "files": ["@files@"],
 "options": {@options@}}
]])
endfunction()
mortise_kit(${CMAKE_BINARY_DIR}/share/mortise/kit.json ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR} ${MORTISE_GENERATED})
mortise_kit(${CMAKE_BINARY_DIR}/kit-installed.json ../../include kit kit/generated)

# mortise_allocator(NAME): build/lib/libmortise-NAME.so from include/mortise/allocators/NAME.hpp, and its description in
# build/share/mortise/NAME.json. HEADER and CARD name another header and card; LIBRARIES are linked into it.
# FOR_MEASURING: only the shared object, only when asked for, and not among those that ship.
function(mortise_allocator name)
  cmake_parse_arguments(ARG "FOR_MEASURING" "HEADER;CARD" "LIBRARIES" ${ARGN})
  if(NOT ARG_HEADER)
    set(ARG_HEADER "mortise/allocators/${name}.hpp")
    set(ARG_CARD ${name})
  endif()
  set(facts MORTISE_HEADER="${ARG_HEADER}" MORTISE_ALLOCATOR=${ARG_CARD} MORTISE_FILE_NAME="${name}" MORTISE_VERSION="${PROJECT_VERSION}")
  list(TRANSFORM MORTISE_ABI_FILES REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/abi/\\1.cpp" OUTPUT_VARIABLE sources)
  mortise_options()
  add_library(mortise-${name} SHARED ${sources})
  add_dependencies(mortise-${name} mortise_generated)
  target_compile_definitions(mortise-${name} PRIVATE ${facts})
  target_include_directories(mortise-${name} PRIVATE ${MORTISE_GENERATED})
  target_link_libraries(mortise-${name} PRIVATE mortise_inside ${ARG_LIBRARIES})
  target_link_options(mortise-${name} PRIVATE -Wl,--version-script=${MORTISE_GENERATED}/exports.map ${MORTISE_LINK_FLAGS})
  target_link_libraries(mortise-${name} PRIVATE gcc_eh c gcc)  # gcc: its static helpers, such as population counts
  set_target_properties(mortise-${name} PROPERTIES LINK_DEPENDS ${MORTISE_GENERATED}/exports.map LINKER_LANGUAGE CXX)

  if(ARG_FOR_MEASURING)
    set_target_properties(mortise-${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY MORTISE_ALLOCATORS ${name})
  if(MORTISE_MUSL)  # the description is a program with a C++ library
    return()
  endif()
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  add_executable(describe-${name} ${PROJECT_SOURCE_DIR}/abi/describe.cpp)
  target_compile_definitions(describe-${name} PRIVATE ${facts})
  target_link_libraries(describe-${name} PRIVATE mortise_headers)
  add_custom_command(TARGET describe-${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/mortise
    COMMAND sh -c "${emulator} $<TARGET_FILE:describe-${name}> > ${CMAKE_BINARY_DIR}/share/mortise/${name}.json" VERBATIM)
endfunction()

# mortise_annotated(NAME): libmortise-NAME_annotated.so, the same allocator for running programs under valgrind. Its free blocks
# must lie untouched: stacks over Slab.
function(mortise_annotated name)
  get_target_property(sources mortise-${name} SOURCES)
  mortise_options()
  add_library(mortise-${name}_annotated SHARED EXCLUDE_FROM_ALL ${sources})
  add_dependencies(mortise-${name}_annotated mortise_generated)
  get_target_property(facts mortise-${name} COMPILE_DEFINITIONS)
  target_compile_definitions(mortise-${name}_annotated PRIVATE ${facts} MORTISE_ANNOTATE)
  target_include_directories(mortise-${name}_annotated PRIVATE ${MORTISE_GENERATED})
  target_link_libraries(mortise-${name}_annotated PRIVATE mortise_inside gcc_eh c gcc)
  get_target_property(options mortise-${name} LINK_OPTIONS)
  target_link_options(mortise-${name}_annotated PRIVATE ${options})
  set_target_properties(mortise-${name}_annotated PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# mortise_archive(TARGET SHARED KEEP): the objects of a shared library as an archive that holds one of them, in which only what KEEP
# (objcopy's option) says is visible: two archives can be linked into one program.
function(mortise_archive target shared keep)
  get_target_property(output ${shared} OUTPUT_NAME)
  if(NOT output)
    set(output ${shared})
  endif()
  set(whole ${CMAKE_BINARY_DIR}/archives/${output}.o)
  add_custom_command(OUTPUT ${whole}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/archives
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation $<TARGET_OBJECTS:${shared}> -o ${whole}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --weaken-symbol=_ZN7mortise* ${whole}  # tables that templates made: objcopy keeps unique symbols
    COMMAND ${CMAKE_OBJCOPY} --wildcard ${keep} ${whole}
    DEPENDS ${shared} COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${target} STATIC ${whole})
  set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  target_link_libraries(${target} INTERFACE ${CMAKE_DL_LIBS} pthread)
  target_link_options(${target} INTERFACE -Wl,-z,nodelete)  # a plug-in stays with what is in it, as our libraries do (mortise_versioned)
endfunction()

# mortise_versioned(TARGET NODE PATTERN...): a library with an interface of its own. Its file carries the whole version, its SONAME
# the part that changes when programs must be linked anew, its symbols the version that they came with. It stays when it is closed:
# the kernel still reads the descriptor of the restartable sequence that each thread ran last.
function(mortise_versioned target node)
  list(JOIN ARGN ";\n    " patterns)
  set(map ${CMAKE_BINARY_DIR}/generated/${target}.map)
  file(CONFIGURE OUTPUT ${map} @ONLY CONTENT "${node} {\n  global:\n    ${patterns};\n  local: *;\n};\n")
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE -nodefaultlibs -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,--no-undefined -Wl,--hash-style=gnu
    -Wl,--version-script=${map})
  target_link_libraries(${target} PRIVATE c gcc)
endfunction()
