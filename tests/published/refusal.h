// The message with which a reader refuses its input.
#pragma once

#include <string>

#include "slimpack/base/error.h"

namespace slimpack::bench {

template <class Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace slimpack::bench
