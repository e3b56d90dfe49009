#include <cstdio>

#include "apps/slimpack/commands.h"
#include "slimpack/base/error.h"

namespace slimpack {

int run_program(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const InvalidInput& e) {
    fmt::print(stderr, "slimpack: {}\n", e.what());
    return 2;
  } catch (const Interrupted& e) {
    fmt::print(stderr, "slimpack: {}\n", e.what());
    return 130;
  } catch (const std::exception& e) {
    fmt::print(stderr, "slimpack: failed: {}\n", e.what());
    return 1;
  }
}

}  // namespace slimpack
