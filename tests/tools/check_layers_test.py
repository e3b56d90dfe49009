"""tools/check_layers.py finds every kind of violation, and nothing in files that are in order."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
from cpp_functions import functions_in  # noqa: E402


def run(root):
    """Exit code and output lines of the script."""
    done = subprocess.run([sys.executable, str(TOOLS / "check_layers.py"), str(root)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def tree(root, files):
    (root / "slimpack").mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_files_in_order_pass(tmp_path):
    root = tree(tmp_path, {
        "slimpack/base/error.h": "// Errors.\n",
        "slimpack/sim/sim.cpp": '#include "slimpack/schedule/s.h"\n#include <vector>\n',
        "slimpack/packflow/step/stage.cpp": "#include <ATen/ATen.h>\n",
        "slimpack/packflow/layer/l.cpp": '#include "slimpack/packflow/kernels/k.h"\n',
        "slimpack/milp/solve.cpp": "#include <highs/Highs.h>\n",
        "tests/sim/sim_test.cpp": '#include "slimpack/planner/planner.h"\n#include <torch/x.h>\n',
        "apps/slimpack/main.cpp": '#include "apps/slimpack/commands.h"\n',
        "python/native.cpp": '#include "slimpack/training/train.h"\n',
    })
    assert run(root) == (0, [])


@pytest.mark.parametrize("path, line, rule", [
    ("slimpack/plan/p.cpp", '#include "slimpack/solver/cut.h"', "includes lower layers only"),
    ("slimpack/plan/p.cpp", "  #  include <slimpack/sim/s.h>", "includes lower layers only"),
    ("slimpack/solver/p.cpp", '#include "slimpack/baselines/x.h"', "includes lower layers only"),
    ("slimpack/packflow/step/p.cpp", '#include "slimpack/solver/cut.h"', "does not see solver"),
    ("slimpack/packflow/step/p.cpp", '#include "slimpack/sim/s.h"', "does not see sim"),
    ("slimpack/planner/p.cpp", '#include "slimpack/packflow/step/s.h"', "does not see packflow"),
    ("slimpack/packflow/layer/p.cpp", '#include "slimpack/packflow/step/s.h"', "lower layers only"),
    ("slimpack/packflow/profile/p.cpp", '#include "slimpack/packflow/checkpoint/c.h"',
     "lower layers only"),
    ("slimpack/plan/p.cpp", '#include "slimpack/nowhere/x.h"', "room 'nowhere' has no layer"),
    ("slimpack/other/p.cpp", '#include "slimpack/base/x.h"', "room 'other' has no layer"),
    ("slimpack/plan/p.cpp", "#include <ATen/ATen.h>", "torch is included in"),
    ("slimpack/plan/p.cpp", "#include <c10/util/Half.h>", "torch is included in"),
    ("slimpack/plan/p.cpp", "#include <torch/torch.h>", "torch is included in"),
    ("slimpack/solver/p.cpp", "#include <highs/Highs.h>", "HiGHS is included in"),
    ("tests/solver/p.cpp", '#include "Highs.h"', "HiGHS is included in"),
    ("slimpack/plan/p.cpp", '#include "../solver/cut.h"', "path from the repository root"),
    ("slimpack/plan/p.cpp", '#include "apps/slimpack/commands.h"', "does not include apps/"),
    ("slimpack/training/p.cpp", '#include "apps/slimpack/commands.h"', "does not include apps/"),
    ("slimpack/job/p.cpp", '#include "slimpack/packflow/step/s.h"', "does not see packflow"),
    ("slimpack/job/p.cpp", '#include "slimpack/training/t.h"', "includes lower layers only"),
    ("python/p.cpp", '#include "apps/slimpack/commands.h"', "python/ does not include apps/"),
])
def test_a_forbidden_include_is_named_with_its_line(tmp_path, path, line, rule):
    code, output = run(tree(tmp_path, {path: "// First.\n" + line + "\n"}))
    assert code == 1
    assert any(error.startswith(f"{path}:2: ") and rule in error for error in output), output


def test_a_file_beside_the_rooms_of_packflow_is_named(tmp_path):
    root = tree(tmp_path, {"slimpack/packflow/engine.cpp": "int x;\n"})
    assert run(root) == (1, ["slimpack/packflow/engine.cpp:1: files of slimpack/packflow lie in its"
                             " rooms, never beside them"])


def test_a_file_of_500_lines_passes_and_one_of_501_does_not(tmp_path):
    root = tree(tmp_path, {"slimpack/base/a.cpp": "//\n" * 500, "tools/b.py": "#\n" * 501})
    assert run(root) == (1, ["tools/b.py:501: 501 lines, a file has at most 500"])


def test_a_header_without_an_opening_comment_is_named(tmp_path):
    code, output = run(tree(tmp_path, {"slimpack/base/a.h": "#pragma once\n// Late.\n"}))
    assert code == 1
    assert output == ["slimpack/base/a.h:1: a header starts with a comment that says what it is for"]


def test_a_function_of_60_lines_passes_and_one_of_61_does_not(tmp_path):
    # Signature and closing brace count: 58 and 59 lines between them.
    text = "void fits() {\n" + "  f();\n" * 58 + "}\n\nvoid long_one() {\n" + "  f();\n" * 59 + "}\n"
    code, output = run(tree(tmp_path, {"slimpack/base/a.cpp": text}))
    assert (code, output) == (
        1, ["slimpack/base/a.cpp:62: long_one has 61 lines, a function has at most 60"])


def test_a_folder_without_sources_is_refused(tmp_path):
    assert run(tmp_path)[0] == 2


def found(text):
    return [(function.name, function.begin, function.end) for function in functions_in(text)]


def test_functions_are_found_in_namespaces_classes_and_templates():
    assert found("""namespace a {
template <class T, class = std::vector<struct X>>
T Class<T>::method(const T& t)
    const {
  if (t) { return {}; }
  auto lambda = [&] { return 1; };
  struct Local { int f() { return 1; } };
}
class C final : public B {
 public:
  explicit C(int a) : a_{a}, b_(a) {
    use();
  }
  bool operator()(int) const { return true; }
 private:
  int a_ = 0;
  std::vector<int> v_{1, 2};
};
TEST(Suite, does_this) {
}
}  // namespace a
""") == [("method", 2, 8), ("C", 11, 13), ("operator()", 14, 14), ("TEST", 19, 20)]


def test_braces_that_are_not_code_are_not_counted():
    assert found('''#define OPEN { \\
  {
// {
/* { */ const char* text = "{\\"{";
const char* raw = R"x({ " })")x";
int f(char c = '{') {
  return 1'000 + c + '\\'';
}
''') == [("f", 6, 8)]


def test_braced_values_are_no_functions():
    assert found("""const int table[] = {1, 2};
const std::vector<int> made = make({1, 2});
enum class Kind : std::uint8_t { kA, kB };
Kind g();
""") == []
