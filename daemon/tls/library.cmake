# library.cmake -- the target tarn_tls_library: what daemon/tls calls, as -DTARN_TLS says.
#
# openssl: the system's, shared: its security updates need a restart of tarnd and no build.
# aws-lc:  AWS-LC, static (scripts/fetch-aws-lc builds it).  It has OpenSSL's names, so that no program may have
#          both: those with libcurl, which brings the system's OpenSSL into the process, stay with that one
#          (tarn-acme, tarnctl).  In tarnd the names are hidden from what is loaded at run time, as modules of
#          glibc's name service that have an OpenSSL of their own.
add_library(tarn_tls_library INTERFACE)

if(TARN_TLS STREQUAL "openssl")
  set(tls_library_crypto PkgConfig::CRYPTO)
  set(tls_library_bare PkgConfig::SSL ${tls_library_crypto})
  target_link_libraries(tarn_tls_library INTERFACE ${tls_library_bare})
elseif(TARN_TLS STREQUAL "aws-lc")
  # Where scripts/fetch-aws-lc puts it; before that, CMAKE_PREFIX_PATH or crypto_DIR and ssl_DIR.
  file(STRINGS scripts/fetch-aws-lc version REGEX "^aws_lc_version=")
  string(REGEX REPLACE "^[^=]*=" "" version "${version}")
  set(fetched $ENV{HOME}/.cache/tarn/aws-lc-${version})
  if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(fetched $ENV{XDG_CACHE_HOME}/tarn/aws-lc-${version})
  endif()
  # Its packages have these bare names, so another library's could be found: the header says who it is.
  foreach(part crypto ssl)
    find_package(${part} CONFIG QUIET HINTS ${fetched})
    if(NOT TARGET AWS::${part})
      message(FATAL_ERROR "-DTARN_TLS=aws-lc: no AWS-LC with lib${part} and its CMake package was found.\n"
        "`scripts/fetch-aws-lc` builds version ${version} into ${fetched}, where it is found; of one that is "
        "installed elsewhere name the folder: -DCMAKE_PREFIX_PATH=DIR.")
    endif()
    get_target_property(type AWS::${part} TYPE)
    if(NOT type STREQUAL "STATIC_LIBRARY")
      message(FATAL_ERROR "-DTARN_TLS=aws-lc: lib${part} in ${${part}_DIR} is shared.  A static one is needed "
        "(-DBUILD_SHARED_LIBS=OFF when it is built): its names are those of OpenSSL, and have to be hidden.")
    endif()
  endforeach()
  # What its package says of this is a generator expression, which is not known yet.
  find_path(include openssl/base.h NO_CACHE NO_DEFAULT_PATH
    PATHS ${crypto_DIR}/../../../include ${crypto_DIR}/../../../../include)
  set(found "")
  if(EXISTS ${include}/openssl/base.h)
    file(STRINGS ${include}/openssl/base.h found REGEX "^#define AWSLC_VERSION_NUMBER_STRING ")
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" found "${found}")
  endif()
  if(found VERSION_LESS version)
    message(FATAL_ERROR "-DTARN_TLS=aws-lc: AWS-LC in ${include} is version ${found}: ${version} or later is needed")
  endif()
  message(STATUS "TLS of tarnd: AWS-LC ${found}, ${include}")

  # libssl takes the buffers of records from malloc() itself, past CRYPTO_set_mem_functions(): up to 16 KiB for each
  # record that has come in part, of which the storage would know nothing.  So a copy asks tls_memory.c.
  set(counted ${CMAKE_BINARY_DIR}/lib/libssl.a)
  add_custom_command(OUTPUT ${counted}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym malloc=tls_lib_malloc --redefine-sym free=tls_lib_free
      $<TARGET_FILE:AWS::ssl> ${counted}
    DEPENDS $<TARGET_FILE:AWS::ssl> VERBATIM)
  add_custom_target(tls_library_counted DEPENDS ${counted})
  add_dependencies(tarn_tls_library tls_library_counted)

  set(tls_library_crypto AWS::crypto)
  set(tls_library_bare AWS::ssl ${tls_library_crypto})
  target_link_libraries(tarn_tls_library INTERFACE ${counted} tarn_tls_memory ${tls_library_crypto})
  target_link_options(tarn_tls_library INTERFACE
    LINKER:--exclude-libs,libssl.a:libcrypto.a)
else()
  message(FATAL_ERROR "TARN_TLS is '${TARN_TLS}': it has to be openssl or aws-lc")
endif()
