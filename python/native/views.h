// NumPy views of C++ values: no copies, read-only, alive as long as their owner.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <type_traits>
#include <vector>

namespace slimpack {

template <class T>
using View = nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>>;

/// Column of a field of `items`: the field's address in the first item, seen as numbers of type T.
template <class T, class Item, class Field>
View<T> field_view(const std::vector<Item>& items, Field Item::*field, nanobind::handle owner) {
  static_assert(sizeof(Field) == sizeof(T) && std::is_standard_layout_v<Field>);
  static_assert(sizeof(Item) % sizeof(T) == 0, "a stride is a number of elements");
  const void* first = items.empty() ? nullptr : &(items.front().*field);
  return View<T>(static_cast<const T*>(first), {items.size()}, owner,
                 {static_cast<std::int64_t>(sizeof(Item) / sizeof(T))});
}

/// All of them, where an item is but a number.
template <class T, class Item>
View<T> view(const std::vector<Item>& items, nanobind::handle owner) {
  static_assert(sizeof(Item) == sizeof(T) && std::is_standard_layout_v<Item>);
  const void* first = items.data();
  return View<T>(static_cast<const T*>(first), {items.size()}, owner);
}

/// The array takes the values over.
template <class T, class Item>
View<T> owning_view(std::vector<Item> items) {
  auto* kept = new std::vector<Item>(std::move(items));
  const nanobind::capsule owner(
      kept, [](void* p) noexcept { delete static_cast<std::vector<Item>*>(p); });
  return view<T>(*kept, owner);
}

}  // namespace slimpack
