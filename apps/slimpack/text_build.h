// 'data build' with a tokenizer, which the Python package does: its libraries are Python's.
#pragma once

namespace slimpack {

/// Whether the command line is a 'data build' with a tokenizer.
[[nodiscard]] bool builds_with_tokenizer(int argc, char** argv);

/// Continues as `python -m slimpack.data_build` with the arguments after 'data build', in the
/// Python of $SLIMPACK_PYTHON (which `python -m slimpack` sets) or else python3. Returns 2, after
/// one line on stderr, when that cannot be started. REQUIRES: builds_with_tokenizer.
[[nodiscard]] int become_text_build(int argc, char** argv);

}  // namespace slimpack
