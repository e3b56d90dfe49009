#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "python/native/bindings.h"
#include "slimpack/base/checksum.h"
#include "slimpack/base/folders.h"
#include "slimpack/base/human.h"
#include "slimpack/base/output_lock.h"
#include "slimpack/base/threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {

void bind_base(nb::module_& m) {
  m.def(
      "checksum",
      [](const nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& bytes) {
        const std::span all(bytes.data(), bytes.size());
        const nb::gil_scoped_release unlocked;
        return checksum_of(std::as_bytes(all));
      },
      "bytes"_a, "XXH3 of some bytes: 16 hexadecimal digits, as in checkpoints.");
  m.def("checkpoint_name", &checkpoint_name, "steps"_a, "The name of a checkpoint's folder.");
  m.def("checkpoints_in", &checkpoints_in, "folder"_a,
        "Steps done at the checkpoints in a folder, ascending.");
  m.def("partial_folder", &partial_folder, "folder"_a, "steps"_a,
        "Where a checkpoint is written before it is complete.");
  m.def("publish_checkpoint", &publish_checkpoint, "folder"_a, "steps"_a,
        "Gives a complete checkpoint its name; one of that name is replaced.");
  m.def("prune_checkpoints", &prune_checkpoints, "folder"_a, "steps"_a, "keep"_a,
        "Leaves the newest checkpoints up to those steps, and none of later steps.");
  m.def(
      "set_aside_checkpoint", &set_aside_checkpoint, "folder"_a, "steps"_a,
      "Renames a checkpoint, so that no run goes on from it by itself. Returns its new path, None "
      "where there is no such checkpoint.");
  m.def("remove_partial_checkpoints", &remove_partial_checkpoints, "folder"_a,
        "Removes what is left of runs that ended while they wrote.");
  m.def(
      "human_bytes", [](std::int64_t bytes) { return human_bytes(Bytes(bytes)); }, "bytes"_a,
      "As people read it: 118 MiB.");
  m.def("human_count", &human_count, "count"_a, "As people read it: 12.3 k.");
  m.def(
      "human_duration", [](std::int64_t nanoseconds) { return human_duration(Nanos(nanoseconds)); },
      "nanoseconds"_a, "As people read it: 12.3 ms, 1 m 23 s.");
  m.def(
      "counted", [](std::int64_t count, const std::string& noun) { return counted(count, noun); },
      "count"_a, "noun"_a, "A count and what is counted: 1 document, 2,048 documents.");
  m.def("human_share", &human_share, "share"_a, "A share in [0, 1] as people read it: 12.3%.");
  m.def("thread_limits", &thread_limits,
        "How many threads this process may come to have, and what to do: part of a line.");
  m.def("require_writable_folder", &require_writable_folder, "folder"_a, "setting"_a,
        "Raises InvalidInput unless a folder can be created, or written if it exists.");
  nb::class_<OutputLock>(m, "OutputLock",
                         "Keeps other runs out of a folder, `slimpack train` among them, as long "
                         "as this object lives.")
      .def(nb::init<const std::filesystem::path&, std::string,
                    const std::function<void(const std::string&)>&>(),
           "folder"_a, "setting"_a, "warn"_a,
           "Raises InvalidInput naming the run that holds the lock, RuntimeError where the lock "
           "cannot be written. setting: what names the folder. warn: gets a line on a file system "
           "without locks.");
}

}  // namespace slimpack
