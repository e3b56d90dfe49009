#include "slimpack/packflow/device/device.h"

#include <gtest/gtest.h>

#include "slimpack/packflow/profile/profile.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

constexpr std::int64_t kKiB = 1024;

/// A machine with 1,000,000 KiB of which 800,000 are available.
void put_machine(const TempFolder& root) {
  put_file(
      root / "proc/meminfo",
      "MemTotal:        1000000 kB\nMemFree:          100000 kB\nMemAvailable:     800000 kB\n");
}

TEST(AvailableMemory, IsWhatTheMachineSaysWithoutALimit) {
  const TempFolder root;
  put_machine(root);
  EXPECT_EQ(available_memory(root.path()), Bytes(800'000 * kKiB));
  put_file(root / "proc/self/cgroup", "0::/job\n");
  put_file(root / "sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(800'000 * kKiB));
}

TEST(AvailableMemory, IsTheLeastLimitOfTheGroupAndThoseAroundIt) {
  const TempFolder root;
  put_machine(root);
  put_file(root / "proc/self/cgroup", "0::/user/job\n");
  put_file(root / "sys/fs/cgroup/user/job/memory.max", "3000000\n");
  put_file(root / "sys/fs/cgroup/user/memory.max", "2000000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(2'000'000));
  put_file(root / "sys/fs/cgroup/user/job/memory.max", "1000000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(1'000'000));
}

TEST(AvailableMemory, KnowsTheOlderControlGroups) {
  const TempFolder root;
  put_machine(root);
  put_file(root / "proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb,memory:/box/1\n0::/\n");
  put_file(root / "sys/fs/cgroup/memory/box/1/memory.limit_in_bytes", "4000000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(4'000'000));
  // In a container the group's own files lie where groups are mounted.
  put_file(root / "proc/self/cgroup", "4:memory:/elsewhere\n");
  put_file(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(5'000'000));
}

TEST(AvailableMemory, IsZeroWhereTheSystemDoesNotSay) {
  const TempFolder root;
  EXPECT_EQ(available_memory(root.path()), Bytes(0));
}

TEST(DeviceMemory, OfADeviceIsAllThatItHas) {
  EXPECT_EQ(device_memory(testing::kPretended),
            Bytes(static_cast<std::int64_t>(testing::kPretendedMemory)));
}

TEST(DeviceMemory, IsSharedByRanksInAProfile) {
  ProfileOptions options;
  options.shape = testing::small_shape(2, true);
  options.context = Tokens(64);
  options.budget = from_seconds(0.1);
  options.device = testing::kPretended;
  options.sharing = 3;
  EXPECT_EQ(profile_costs(options).device.memory, Bytes(8'000'000'000));
  options.device = c10::Device(c10::kCPU);
  const Bytes share = profile_costs(options).device.memory;
  EXPECT_GT(share, Bytes(0));
  // Within a factor of two of what is available now, whatever else the machine runs.
  EXPECT_LT(share, available_memory() * 2 / 3);
}

}  // namespace
}  // namespace slimpack
