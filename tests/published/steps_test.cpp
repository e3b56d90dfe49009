#include "bench/published/steps.h"

#include <gtest/gtest.h>

#include "tests/published/refusal.h"

namespace slimpack::bench {
namespace {

constexpr const char* kVtrain =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
    "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";
constexpr const char* kOther =
    "id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,ngpu,tp,pp,cp,dp,shard,vpp,mbs,gbs,"
    "recompute,precision,step_ms,tok_s_gpu,model_tflops_gpu,mem_gib,note,source\n";

TEST(Steps, OfVtrainNameTheirLayout) {
  const auto steps =
      vtrain_one_node(std::string(kVtrain) + "8,32,4,1024,16,24,1024,2,1,4,250.5\n", "v.csv");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].id, "h1024-L24-t2-p4-d1-m4-b32");
  EXPECT_EQ(steps[0].ffn, 4096);
  EXPECT_EQ(steps[0].tokens, Tokens(1024));
  EXPECT_DOUBLE_EQ(steps[0].seconds, 0.2505);
}

TEST(Steps, OfOthersMayLackFigures) {
  const auto steps = other_steps(std::string(kOther) +
                                     "K5-a,GPT,48,64,8,8,256,512,128,A100,8,8,,,,,3,4,4,\"full, "
                                     "no SP\",fp16,1420,,,55.5,,arXiv\n",
                                 "o.csv");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].set, "Megatron 2022");
  EXPECT_EQ(steps[0].pp, 1) << "not mentioned";
  EXPECT_EQ(steps[0].stages_per_rank, 3);
  EXPECT_EQ(steps[0].recompute, "full, no SP");
  EXPECT_DOUBLE_EQ(steps[0].seconds, 1.42);
  EXPECT_DOUBLE_EQ(steps[0].memory, 55.5 * 0x1p30);
}

template <class Read>
std::string refused(Read read, const char* header, const char* row) {
  return refusal([&] { static_cast<void>(read(std::string(header) + row, "t.csv")); });
}

TEST(Steps, RefuseRowsByPlaceColumnAndRule) {
  EXPECT_EQ(refused(vtrain_one_node, kVtrain, "8,32,4,1024,16,24,1024,2,1,4,0\n"),
            "t.csv:2: iteration time (ms) is \"0\", must be a number above 0; correct the cell");
  EXPECT_EQ(refused(vtrain_one_node, kVtrain, "8,32,,1024,16,24,1024,2,1,4,9\n"),
            "t.csv:2: micro batch is \"\", must be a whole number from 1 to 2147483647; correct "
            "the cell");
  EXPECT_EQ(refused(other_steps, kOther,
                    "X-1,GPT,48,64,8,8,256,512,128,A100,8,8,1,1,1,,,4,4,full,fp16,1,,,,,arXiv\n"),
            "t.csv:2: id is \"X-1\", must begin with a source's letters, such as \"K5-\"; correct "
            "it");
  EXPECT_EQ(refused(all_reduces, "ranks,bytes,us\n", "2,1048576,soon\n"),
            "t.csv:2: us is \"soon\", must be a number above 0; correct the cell");
}

TEST(Steps, AllFilesOfTheRepositoryAreRead) {
  const Published published =
      read_published(std::filesystem::path(SLIMPACK_SOURCE_DIR) / "bench/data/published");
  EXPECT_EQ(published.steps.size(), 1440U + 109U + 354U);
  EXPECT_FALSE(published.all_reduces.empty());
  EXPECT_NE(refusal([] { static_cast<void>(read_published("/nonexistent")); }), "accepted");
}

}  // namespace
}  // namespace slimpack::bench
