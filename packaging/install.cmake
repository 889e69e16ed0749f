# install.cmake -- run by `cmake --install` and by cpack, with CMAKE_INSTALL_PREFIX as it will be.
#
# Below /usr the configuration lies in /etc, below any other prefix in PREFIX/etc.  A DESTDIR of the
# environment is heeded by file(INSTALL).

if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(TARN_ETC /etc)
else()
  set(TARN_ETC "${CMAKE_INSTALL_PREFIX}/etc")
endif()
set(TARN_SBINDIR "${CMAKE_INSTALL_PREFIX}/sbin")

# Packs FILE as TO below the prefix; always the same bytes for the same bytes.
function(tarn_install_packed file to)
  get_filename_component(name "${to}" NAME)
  get_filename_component(folder "${to}" DIRECTORY)
  execute_process(COMMAND gzip -9nc "${file}" OUTPUT_FILE "${TARN_BINARY}/${name}"
    COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL "${TARN_BINARY}/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
endfunction()

foreach(unit tarn tarn-acme)
  configure_file("${TARN_SOURCE}/${unit}.service.in" "${TARN_BINARY}/${unit}.service" @ONLY)
  file(INSTALL "${TARN_BINARY}/${unit}.service"
    DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
endforeach()

file(GLOB pages "${TARN_BINARY}/man/*")
foreach(page IN LISTS pages)
  string(REGEX MATCH "[^/]+([0-9])$" name "${page}")
  tarn_install_packed("${page}" share/man/man${CMAKE_MATCH_1}/${name}.gz)
endforeach()

configure_file("${TARN_SOURCE}/debian/changelog.in" "${TARN_BINARY}/changelog" @ONLY)
tarn_install_packed("${TARN_BINARY}/changelog" share/doc/tarn/changelog.gz)
# llhttp is part of tarnd, and wants that to be said.
file(READ "${TARN_SOURCE}/../LICENSE" ours)
file(READ "${TARN_LLHTTP_LICENSE}" theirs)
file(WRITE "${TARN_BINARY}/copyright" "Tarn\n====\n\n${ours}\n\nllhttp, which is part of tarnd\n"
  "==============================\n\n${theirs}")
file(INSTALL "${TARN_BINARY}/copyright" DESTINATION "${CMAKE_INSTALL_PREFIX}/share/doc/tarn")
file(GLOB guide "${TARN_SOURCE}/../docs/*.md")
file(INSTALL ${guide} DESTINATION "${CMAKE_INSTALL_PREFIX}/share/doc/tarn/guide")

# Configuration that is there is its owner's.
foreach(file tarn.yaml:tarn/tarn.yaml tarn.logrotate:logrotate.d/tarn)
  string(REPLACE ":" ";" file "${file}")
  list(POP_FRONT file from to)
  get_filename_component(folder "${to}" DIRECTORY)
  get_filename_component(name "${to}" NAME)
  if(NOT EXISTS "$ENV{DESTDIR}${TARN_ETC}/${to}")
    file(INSTALL "${TARN_SOURCE}/${from}" DESTINATION "${TARN_ETC}/${folder}" RENAME "${name}")
  endif()
endforeach()
