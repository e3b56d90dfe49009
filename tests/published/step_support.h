// A step to change in tests: GPT 22B of arXiv:2205.05198 on one node.
#pragma once

#include "bench/published/job.h"

namespace slimpack::bench {

inline PublishedStep gpt_22b() {
  PublishedStep step;
  step.set = "Megatron 2022";
  step.id = "22B";
  step.gpu = "A100-80G SXM";
  step.gpus = 8;
  step.layers = 48;
  step.hidden = 6144;
  step.heads = step.kv_heads = 64;
  step.ffn = 24576;
  step.vocabulary = 51200;
  step.tokens = Tokens(2048);
  step.tp = 8;
  step.micro_batch = 4;
  step.batch = 4;
  step.recompute = "none, no SP";
  step.precision = "fp16";
  step.seconds = 1;
  return step;
}

inline PublishedJob job_of(const PublishedStep& step, const Machines& machines) {
  return std::get<PublishedJob>(express(step, machines));
}

}  // namespace slimpack::bench
