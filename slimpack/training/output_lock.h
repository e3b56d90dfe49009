// The lock of an output folder: one run at a time reads and writes there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/descriptor.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// Holds FOLDER/slimpack.lock, a file that says who holds it. The lock itself is the kernel's and
/// ends with the process, however that ends. The file goes with it; that of a run that was killed
/// stays, and keeps nobody out.
class OutputLock {
 public:
  /// Creates the folder where it is missing. Throws InvalidInput naming process, machine and time
  /// when another run holds the lock; nothing in the folder has changed then. Throws as
  /// output_failed when the file cannot be written. Where the file system has no locks it tells
  /// `warn` so, in one line, and goes on.
  OutputLock(const std::filesystem::path& folder,
             const std::function<void(const std::string&)>& warn);
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
  [[nodiscard]] bool take(const std::function<void(const std::string&)>& warn);
  [[noreturn]] void refuse() const;
  void write_holder() const;

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::optional<CreatedFolders> folders_;
  Descriptor file_;
};

/// Throws InvalidInput unless `folder` can be created, or written if it exists. Creates nothing.
void require_writable_folder(const std::filesystem::path& folder);

/// The lock of a run's output folder. In a job of several processes the first takes it; what keeps
/// it from that ends all of them with the same error.
[[nodiscard]] std::optional<OutputLock> lock_output(const std::filesystem::path& folder,
                                                    const JobAgreement& agreement,
                                                    TrainingListener& listener);

}  // namespace slimpack
