#include "slimpack/base/output_error.h"

#include <cerrno>
#include <cstring>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

bool path_is_wrong(int cause) {
  switch (cause) {
    case EACCES:
    case EBADF:  // a closed descriptor, or one for reading only
    case EBUSY:
    case EEXIST:
    case EINVAL:  // a name that the file system does not allow
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENODEV:
    case ENOENT:
    case ENOTDIR:
    case ENOTEMPTY:
    case ENXIO:
    case EPERM:
    case EROFS:
    case ETXTBSY:
    case EXDEV:
      return true;
    default:
      return false;
  }
}

const char* remedy(int cause) {
  if (cause == ENOSPC || cause == EDQUOT) return "free some space";
  return cause == EFBIG ? "raise the limit of file sizes (ulimit -f)" : "check the disk";
}

}  // namespace

void output_failed(std::string_view doing, const std::filesystem::path& path, int cause,
                   std::string_view elsewhere) {
  if (path_is_wrong(cause))
    invalid_input("cannot {} '{}': {}; {}", doing, path.string(), std::strerror(cause), elsewhere);
  run_failed("cannot {} '{}': {}; {} or {}", doing, path.string(), std::strerror(cause),
             remedy(cause), elsewhere);
}

}  // namespace slimpack
