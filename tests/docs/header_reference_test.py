"""The C++ reference: what headers declare, without what their users do not need."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from header_reference import HEADER, reference  # noqa: E402

PAGE = (ROOT / "docs" / "reference-cpp.md").read_text(encoding="utf-8")
INVENTED = """\
// Boxes, and
// what they hold.
#pragma once

#include <vector>

namespace slimpack {

struct Elsewhere;  // elsewhere.h

/// The rules:
///  - at most 2 * limit_of(box), kAlways,
///    and [a][b] < b;
/// REQUIRES: `one_box`.
[[nodiscard]] std::vector<int> sizes(int a,
                                     int b);
/// Another.
inline bool any() { return true; }
inline bool none() {
  if (any()) return false;

  return true;
}

class Box {
 public:
  /// A brace in a comment { opens nothing.
  explicit Box(int size) : size_(size) {}
  [[nodiscard]] int size() const { return size_; }

 private:
  int size_ = 0;
};

using Boxes = std::vector<Box>;

}  // namespace slimpack
"""
SHOWN = """\
## `slimpack/box.h`

Boxes, and
what they hold.

### sizes

The rules:

 - at most 2 \\* `limit_of`(box), `kAlways`,
   and [a]\\[b] &lt; b;

REQUIRES: `one_box`.

```cpp
std::vector<int> sizes(int a,
                       int b);
```

### any, none

Another.

```cpp
inline bool any();
inline bool none();
```

### Box

```cpp
class Box {
 public:
  /// A brace in a comment { opens nothing.
  explicit Box(int size);
  int size() const;
};
```

### Boxes

```cpp
using Boxes = std::vector<Box>;
```"""


def blocks(text):
    return re.findall(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_declarations_stand_under_their_comments():
    assert reference("slimpack/box.h", INVENTED) == SHOWN


@pytest.mark.parametrize("path", HEADER.findall(PAGE))
def test_no_body_and_no_private_member_of_a_header_is_shown(path):
    inner = re.compile(r"^ *return |private:|\w_;$", re.MULTILINE)
    shown = blocks(reference(path, (ROOT / path).read_text(encoding="utf-8")))
    assert shown
    assert [code for code in shown if inner.search(code)] == []


@pytest.mark.parametrize("path", HEADER.findall(PAGE))
def test_every_type_of_a_header_is_shown(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    types = re.findall(r"^(?:struct|class|enum class|using) (\w+)(?![\w;])", text, re.MULTILINE)
    shown = "\n".join(blocks(reference(path, text)))
    assert [name for name in types if not re.search(rf"^(?:struct|class|enum class|using) {name}\b",
                                                    shown, re.MULTILINE)] == []
