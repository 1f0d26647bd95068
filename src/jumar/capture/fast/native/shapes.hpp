// How a tensor lies in memory, and its elements in logical order.
#pragma once

#include <Python.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>

#include "values.hpp"

namespace jumar {

struct Lies {
  PyObject* layout;  // owned
  int64_t number, elements;
  bool is_contiguous, is_gapless, is_plain, is_repeated;
};

// Sizes and strides; without a sketch in mind elements that are repeated (`expand`) count once.
struct Shape {
  c10::SmallVector<int64_t, 6> sizes, steps;
  int64_t size = 1, repeats = 1;

  static Shape of(const at::Tensor& tensor, bool is_whole) {
    Shape shape;
    for (int64_t i = 0; i < tensor.dim(); i++) {
      const int64_t num = tensor.sizes()[i], step = tensor.strides()[i];
      if (step == 0 && !is_whole) {
        shape.repeats *= num;
        continue;
      }
      if (num == 1) continue;
      shape.sizes.push_back(num);
      shape.steps.push_back(step);
      shape.size *= num;
    }
    return shape;
  }
};

inline void gather(const float* from, const Shape& shape, size_t dimension, float*& to) {
  if (dimension == shape.sizes.size()) {
    *to++ = *from;
    return;
  }
  const int64_t num = shape.sizes[dimension], step = shape.steps[dimension];
  if (dimension + 1 < shape.sizes.size()) {
    for (int64_t i = 0; i < num; i++) gather(from + i * step, shape, dimension + 1, to);
  } else if (step == 1) {
    std::memcpy(to, from, sizeof(float) * num);
    to += num;
  } else {
    for (int64_t i = 0; i < num; i++) *to++ = from[i * step];
  }
}

// The elements in logical order, which are valid until the next call.
inline const float* gathered(const float* data, const Shape& shape, std::vector<float>& buffer) {
  if (buffer.size() < static_cast<size_t>(shape.size)) buffer.resize(shape.size);
  float* end = buffer.data();
  gather(data, shape, 0, end);
  return buffer.data();
}

// Statistics as a note has them, of elements each of which counts `repeats` times.
inline PyObject* packed(const Values& values, int64_t size, int64_t repeats) {
  const int64_t num_finite = size - values.num_nan - values.num_inf;
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double six[] = {unknown, unknown, unknown, unknown, static_cast<double>(values.num_nan * repeats), static_cast<double>(values.num_inf * repeats)};
  if (num_finite) {
    six[0] = values.minimum, six[1] = values.maximum, six[2] = values.sum / num_finite;
    six[3] = std::sqrt(values.squares * static_cast<double>(repeats));
  }
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(six), sizeof six);
}

}  // namespace jumar
