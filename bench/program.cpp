#include "bench/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "slimpack/base/error.h"

namespace slimpack {

int run_benchmark(CLI::App& app, int argc, char** argv, const std::function<void()>& run) {
  try {
    app.parse(argc, argv);
    run();
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const InvalidInput& e) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), e.what());
    return 1;
  }
}

}  // namespace slimpack
