// The lock of an output folder: one run at a time reads and writes there.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "slimpack/base/descriptor.h"

namespace slimpack {

class JobProcess;

/// Holds FOLDER/slimpack.lock, a file that says who holds it. The lock itself is the kernel's and
/// ends with the process, however that ends. The file goes with it; that of a run that was killed
/// stays, and keeps nobody out.
class OutputLock {
 public:
  /// Creates the folder where it is missing. Throws InvalidInput naming process, machine and time
  /// when another run holds the lock; nothing in the folder has changed then. Throws as
  /// output_failed when the file cannot be written. Warns on stderr where the file system has no
  /// locks, and goes on.
  explicit OutputLock(const std::filesystem::path& folder);
  OutputLock(OutputLock&&) = default;
  /// Also removes the folders that were created, where nothing was written to them.
  ~OutputLock();

 private:
  /// Folders that were missing. Those still empty go with this.
  class CreatedFolders {
   public:
    explicit CreatedFolders(const std::filesystem::path& folder);
    CreatedFolders(CreatedFolders&&) = default;
    ~CreatedFolders();

   private:
    std::vector<std::filesystem::path> created_;  ///< the deepest first
  };

  /// False when the file has gone meanwhile, because the run that held it has ended.
  [[nodiscard]] bool take();
  [[noreturn]] void refuse() const;
  void write_holder() const;

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::optional<CreatedFolders> folders_;
  Descriptor file_;
};

/// The lock of a run's output folder. In a job of several processes (`process`) the first takes it;
/// what keeps it from that ends all of them with the same error.
[[nodiscard]] std::optional<OutputLock> lock_output(const std::filesystem::path& folder,
                                                    JobProcess* process);

}  // namespace slimpack
