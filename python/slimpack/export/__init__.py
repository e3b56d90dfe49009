"""Plans for the tools that people train with, one module for each tool.

    torch_pipelining   a schedule for torch.distributed.pipelining, as CSV
    megatron           Megatron-Core: a packing scheduler, PackedSeqParams, an execution plan
    verl               micro-batches for verl's dynamic batches
    torchtitan         a data loader for torchtitan

No module imports the tool itself before it is called. docs/adopting.md says which one to take.
"""
