# SPDX-License-Identifier: Apache-2.0
# Warnings, hardening, sanitizers and profiles for all targets, and the project's two kinds of targets.

set(NFSRDMA_WARNINGS
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports uses inside inlined coroutine frames and std::variant that do not exist (PR 105562, 107138).
  list(APPEND NFSRDMA_WARNINGS -Wno-maybe-uninitialized -Wno-restrict)
  if(CMAKE_UNITY_BUILD)
    # g++ takes types in unnamed namespaces of joined files for types of a header.
    list(APPEND NFSRDMA_WARNINGS -Wno-subobject-linkage)
  endif()
endif()

# Hardening: a memory error ends the program, instead of letting a peer exploit it. Checked bounds in libc and
# libstdc++, guarded stacks, tables that are read-only after loading, and branches that only reach their targets. See
# "Program Instrumentation Options" in the manual of gcc. Not with sanitizers, which check more; debug builds have no
# _FORTIFY_SOURCE, because it needs the optimiser.
set(NFSRDMA_HARDENING -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
  list(APPEND NFSRDMA_HARDENING -fcf-protection=full)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  set(NFSRDMA_FORTIFY 3)
else()
  set(NFSRDMA_FORTIFY 2)
endif()

function(nfsrdma_harden name)
  target_compile_options(${name} PRIVATE ${NFSRDMA_HARDENING}
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${NFSRDMA_FORTIFY}>)
  target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS)
  target_link_options(${name} PRIVATE -Wl,-z,relro,-z,now)
endfunction()

function(nfsrdma_target name)
  target_compile_options(${name} PRIVATE ${NFSRDMA_WARNINGS})
  if(NOT NFSRDMA_SANITIZE)
    nfsrdma_harden(${name})
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  if(NFSRDMA_FUZZ)
    # Coverage feedback for libFuzzer, in the libraries too; see tests/fuzz.
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(NFSRDMA_PROFILE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "NFSRDMA_PROFILE: with g++ only")
  elseif(NFSRDMA_PROFILE STREQUAL "generate")
    target_compile_options(${name} PRIVATE -fprofile-generate -fprofile-update=atomic)
    target_link_options(${name} PUBLIC -fprofile-generate)
  elseif(NFSRDMA_PROFILE STREQUAL "use")
    # Code without a recorded profile, and code changed since, is compiled as without a profile. No warnings: those of
    # the release build are known, and the additional inlining here causes false ones.
    target_compile_options(${name} PRIVATE -fprofile-use -fprofile-partial-training -w -Wno-coverage-mismatch)
  elseif(NFSRDMA_PROFILE)
    message(FATAL_ERROR "NFSRDMA_PROFILE: generate or use, not ${NFSRDMA_PROFILE}")
  endif()
  if(NFSRDMA_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${NFSRDMA_SANITIZE} -fno-omit-frame-pointer)
    target_compile_definitions(${name} PRIVATE NFSRDMA_SANITIZED)
    target_link_options(${name} PUBLIC -fsanitize=${NFSRDMA_SANITIZE})
    if(NFSRDMA_SANITIZE MATCHES "undefined")
      target_compile_options(${name} PRIVATE -fno-sanitize-recover=undefined)
      if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        # clang 14 cannot place this check's data before the parts into which it splits coroutines.
        target_compile_options(${name} PRIVATE -fno-sanitize=function)
      endif()
    endif()
    if(NFSRDMA_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${name} PRIVATE -Wno-tsan)
    endif()
  endif()
endfunction()

# nfsrdma_library(NAME SOURCES...): one static library per folder.
# In a unity build (CMAKE_UNITY_BUILD) at most eight files of one folder are compiled as one. So names in unnamed
# namespaces differ within a folder.
function(nfsrdma_library name)
  add_library(${name} STATIC ${ARGN})
  nfsrdma_target(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} ABSOLUTE)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    get_filename_component(folder ${folder} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} folder)
    if(NOT DEFINED count_${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR group "${count_${folder}} / 8")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()

# nfsrdma_test(NAME SOURCES file... LIBS lib... [LABELS label...] [TIMEOUT seconds])
# One GoogleTest binary; every TEST becomes a ctest entry.
function(nfsrdma_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(NOT TARGET nfsrdma_strict)
    add_library(nfsrdma_strict OBJECT ${PROJECT_SOURCE_DIR}/tests/unit/strict.cc)
    nfsrdma_target(nfsrdma_strict)
    target_link_libraries(nfsrdma_strict PUBLIC spdlog::spdlog GTest::gtest)
  endif()
  add_executable(${name} ${T_SOURCES})
  nfsrdma_target(${name})
  target_link_libraries(${name} PRIVATE nfsrdma_strict ${T_LIBS} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
