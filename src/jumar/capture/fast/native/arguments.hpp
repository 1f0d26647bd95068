// The arguments of a call as a row has them: which are given, which are tensors, and what the others are.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "state.hpp"

namespace jumar {

// A tensor as the program knows it: not a number that PyTorch has wrapped (`x / 2`), nor none at all.
static bool is_tensor(const c10::IValue& value) {
  if (!value.isTensor()) return false;
  const auto* itself = value.unsafeToTensorImpl();
  return value.toTensor().defined() && !itself->is_wrapped_number();
}

// Adds what a value that is no tensor is to `text`; false for a kind that is not known here.
static bool add_value(std::string& text, const c10::IValue& value) {
  auto add = [&text](char kind, const void* data, size_t size) {
    text.push_back(kind);
    text.append(static_cast<const char*>(data), size);
  };
  if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) {
    text.push_back('n');
  } else if (value.isTensor()) {  // a wrapped number, always the host's
    const auto& number = value.toTensor();
    if (!number.unsafeGetTensorImpl()->is_wrapped_number() || !number.is_cpu()) return false;
    text.push_back(static_cast<char>(number.scalar_type()));
    add('w', number.const_data_ptr(), number.itemsize());
  } else if (value.isInt()) {
    const int64_t number = value.toInt();
    add('i', &number, sizeof number);
  } else if (value.isDouble()) {
    const double number = value.toDouble();
    add('d', &number, sizeof number);
  } else if (value.isBool()) {
    text.push_back(value.toBool() ? 't' : 'f');
  } else if (value.isString()) {
    const auto& words = value.toStringRef();
    const size_t size = words.size();
    add('s', &size, sizeof size);
    text += words;
  } else if (value.isDevice()) {
    const auto device = value.toDevice();
    const int64_t number = static_cast<int64_t>(device.type()) * 1000 + device.index();
    add('v', &number, sizeof number);
  } else if (value.isList()) {
    const auto items = value.toListRef();
    const size_t size = items.size();
    add('l', &size, sizeof size);
    for (const auto& item : items)
      if (!add_value(text, item)) return false;
  } else {
    return false;
  }
  return true;
}

static bool is_plain_tensor(const at::Tensor& tensor) {
  const auto keys = tensor.key_set();
  return tensor.layout() == c10::kStrided && !keys.has(c10::DispatchKey::Python) && !keys.has(c10::DispatchKey::FuncTorchGradWrapper) &&
         !keys.has(c10::DispatchKey::FuncTorchBatched) && !tensor.is_nested() && !tensor.is_quantized() && tensor.has_storage() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// 1: a list with tensors, 0: none among it, -1: one that is not plain.
static int tensors_among(const c10::IValue& value) {
  if (!value.isList()) return 0;
  bool has_tensor = false, has_other = false;
  for (const auto& item : value.toListRef()) {
    if (!item.isTensor() || !item.toTensor().defined()) {
      has_other |= !item.isNone() && !item.isTensor();
      continue;
    }
    if (!is_plain_tensor(item.toTensor())) return -1;
    has_tensor = true;
  }
  return has_tensor && has_other ? -1 : has_tensor;
}

// How arguments are handed to Python: what is at its default is left out, of positional ones at the end only.
struct Arguments {
  const c10::OperatorHandle& op;
  const Info& info;
  const c10::IValue* values;
  size_t num_positional;

  Arguments(const c10::OperatorHandle& op, const Info& info, const torch::jit::Stack& stack)
      : op(op), info(info), values(stack.data() + stack.size() - info.num_arguments), num_positional(info.num_positional) {
    while (num_positional && is_default(num_positional - 1)) num_positional--;
  }
  bool is_default(size_t i) const {
    const auto& usual = op.schema().arguments()[i].default_value();
    if (!usual.has_value() || values[i].isTensor()) return false;
    if (usual->isNone() || values[i].isNone()) return usual->isNone() && values[i].isNone();
    return *usual == values[i];
  }
  bool is_given(size_t i) const { return i < info.num_positional ? i < num_positional : !is_default(i); }
};

// The text of what is no tensor; false when something is not plain, empty where the text is not known yet.
static bool text_of(const Arguments& given, const Info& info, std::string& key) {
  const void* which = &info;
  key.assign(reinterpret_cast<const char*>(&which), sizeof which);
  for (size_t i = 0; i < info.num_arguments; i++) {
    if (!given.is_given(i)) continue;
    const auto& value = given.values[i];
    if (is_tensor(value)) {
      if (!is_plain_tensor(value.toTensor())) return false;
      continue;
    }
    const int among = tensors_among(value);
    if (among < 0) return false;
    if (among) continue;
    key.push_back(static_cast<char>(i));
    if (!add_value(key, value)) return false;
  }
  return true;
}

}  // namespace jumar
