#include "tests/packflow/support/mail_processes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "tests/packflow/support/pretended_device.h"

namespace slimpack::testing {
namespace {

/// The tensor's memory. Work that its queue has put off is done first.
at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor : seen_by_cpu(tensor);
}

struct Sent final : c10d::Work {
  explicit Sent(Mail& with) : mail(with) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    if (std::this_thread::get_id() != sender) mail.note_foreign_wait();
    return true;
  }
  Mail& mail;
  std::thread::id sender = std::this_thread::get_id();
};

struct Received final : c10d::Work {
  Received(Mail& from, const Mail::Address& at, at::Tensor to)
      : mail(from), address(at), tensor(std::move(to)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    on_cpu(tensor).copy_(mail.take(address));
    return true;
  }
  Mail& mail;
  Mail::Address address;
  at::Tensor tensor;
};

class MailBackend final : public c10d::Backend {
 public:
  MailBackend(int member, int size, Mail& mail) : Backend(member, size), mail_(mail) {}

  void setTimeout(std::chrono::milliseconds timeout) override { mail_.note_timeout(timeout); }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    mail_.put({getRank(), to, tag}, on_cpu(tensors.front()).clone());
    return c10::make_intrusive<Sent>(mail_);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from,
                                      int tag) override {
    return c10::make_intrusive<Received>(mail_, Mail::Address(from, getRank(), tag),
                                         tensors.front());
  }

 private:
  Mail& mail_;
};

}  // namespace

void Mail::put(const Address& address, at::Tensor tensor) {
  const std::chrono::nanoseconds time(nanos_per_byte_ * static_cast<std::int64_t>(tensor.nbytes()));
  const std::lock_guard lock(mutex_);
  ++sent_;
  messages_[address] = {std::move(tensor), std::chrono::steady_clock::now() + time};
  partners_[std::get<0>(address)].insert(std::get<1>(address));
  partners_[std::get<1>(address)].insert(std::get<0>(address));
  changed_.notify_all();
}

at::Tensor Mail::take(const Address& address) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return messages_.contains(address); });
  const Message message = std::move(messages_[address]);
  messages_.erase(address);
  lock.unlock();
  std::this_thread::sleep_until(message.arrives);
  return message.tensor;
}

std::size_t Mail::partners(int member) {
  const std::lock_guard lock(mutex_);
  return partners_[member].size();
}

bool Mail::empty() {
  const std::lock_guard lock(mutex_);
  return messages_.empty();
}

struct MailGroup::Group {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

MailGroup::MailGroup(std::string name, int member, int size, Mail& mail)
    : name_(std::move(name)),
      group_(new Group{c10::make_intrusive<c10d::ProcessGroup>(member, size)}) {
  for (const at::DeviceType device : {at::kCPU, kPretended.type()})
    group_->group->setBackend(device, c10d::ProcessGroup::BackendType::CUSTOM,
                              c10::make_intrusive<MailBackend>(member, size, mail));
  c10d::register_process_group(name_, group_->group);
}

MailGroup::~MailGroup() {
  c10d::unregister_process_group(name_);
}

MailJob::MailJob(const RankGrid& grid, std::int64_t nanos_per_byte, Nanos timeout) : grid_(grid) {
  static std::atomic<int> jobs = 0;  // names are the program's
  const int job = ++jobs;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    std::map<RankGroup, std::string> names;
    for (const RankGroup& group : process_groups(grid, rank)) {
      if (group.size == 1) continue;
      auto& mail = mail_[group];
      if (!mail) mail = std::make_unique<Mail>(nanos_per_byte);
      const std::string name = fmt::format("job {}, rank {}, {}", job, rank, group.name());
      groups_.push_back(std::make_unique<MailGroup>(name, group.member(rank), group.size, *mail));
      names[group] = name;
    }
    processes_.push_back(std::make_unique<ProcessJob>(
        grid, rank, names, [] { return false; }, timeout));
  }
}

MailJob::~MailJob() = default;

int MailJob::messages(const RankGroup& group) const {
  return mail_.at(group)->messages();
}

std::chrono::milliseconds MailJob::timeout(const RankGroup& group) const {
  return mail_.at(group)->timeout();
}

int MailJob::foreign_waits() const {
  int waits = 0;
  for (const auto& [group, mail] : mail_) waits += mail->foreign_waits();
  return waits;
}

JobProcess& MailJob::process(std::int32_t rank) {
  return *processes_.at(static_cast<std::size_t>(rank));
}

}  // namespace slimpack::testing
