// The fused kernels as loops of the host's compiler.
#include "slimpack/packflow/fused/launchers.cu"
