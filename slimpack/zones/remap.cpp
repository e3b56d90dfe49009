#include "slimpack/zones/remap.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace slimpack {
namespace {

/// Rows that a rank has too many (or too few, below 0).
struct Surplus {
  std::int32_t rank = 0;
  double rows = 0;
};

/// Gives rows of those that have too many to those that have too few, both in their order, until
/// one side is done.
void match(std::vector<Surplus>& ranks, std::vector<RowTransfer>& transfers) {
  auto from = ranks.begin(), to = ranks.begin();
  while (true) {
    from = std::find_if(from, ranks.end(), [](const Surplus& s) { return s.rows > 0; });
    to = std::find_if(to, ranks.end(), [](const Surplus& s) { return s.rows < 0; });
    if (from == ranks.end() || to == ranks.end()) return;
    const double rows = std::min(from->rows, -to->rows);
    transfers.push_back({from->rank, to->rank, rows});
    from->rows -= rows;
    to->rows += rows;
  }
}

}  // namespace

std::vector<RowTransfer> remapping(const LinkMap& links, const std::vector<double>& rows) {
  const double mean =
      std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
  std::map<std::int32_t, std::vector<Surplus>> nodes;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    nodes[links.node(rank)].push_back({rank, rows[r] - mean});
  }
  std::vector<RowTransfer> transfers;
  std::vector<Surplus> left;
  for (auto& [node, ranks] : nodes) {
    match(ranks, transfers);
    left.insert(left.end(), ranks.begin(), ranks.end());
  }
  match(left, transfers);
  return transfers;
}

double remap_time(const LinkMap& links, const std::vector<RowTransfer>& transfers, double bytes) {
  if (transfers.empty()) return 0;
  std::map<std::int32_t, double> sent, received, node_sent, node_received;
  for (const RowTransfer& transfer : transfers) {
    const std::int32_t from = links.node(transfer.from), to = links.node(transfer.to);
    (from == to ? sent[transfer.from] : node_sent[from]) += transfer.rows;
    (from == to ? received[transfer.to] : node_received[to]) += transfer.rows;
  }
  const auto most = [](const auto& a, const auto& b) {
    double rows = 0;
    for (const auto* const side : {&a, &b})
      for (const auto& [place, of_place] : *side) rows = std::max(rows, of_place);
    return rows;
  };
  const double inside = most(sent, received) * bytes * links.node_per_byte;
  const double across =
      most(node_sent, node_received) * bytes / links.nics_per_node * links.nic_per_byte;
  const double latency = node_sent.empty() ? links.node_latency : links.nic_latency;
  return 2 * latency + std::max(inside, across);
}

}  // namespace slimpack
