// The note of one operator: inputs before it runs, outputs after.
#pragma once

#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>

#include "arguments.hpp"
#include "places.hpp"
#include "storages.hpp"

namespace jumar {

enum class Way { see, outline, locate, view, copy };

static PyObject* look(Way way, const at::Tensor& tensor, int64_t version, PyObject* twin) {
  switch (way) {
    case Way::outline: return storages->outline(tensor);
    case Way::locate: return storages->locate(tensor);
    case Way::view: return storages->see(tensor, version, nullptr);
    case Way::copy: return storages->see(tensor, NO_VERSION, twin);
    default: return storages->see(tensor, NO_VERSION, nullptr);
  }
}

static bool add_named(PyObject* list, PyObject* name, PyObject* seen) {  // takes `seen`
  if (!seen) return false;
  const bool is_added = !PyList_Append(list, name) && !PyList_Append(list, seen);
  Py_DECREF(seen);
  return is_added;
}

// One operator under way.
struct Noted {
  Object call;
  Way way = Way::see;
  std::vector<c10::IValue> written;
  at::Tensor base;
};

static bool add_list(PyObject* list, PyObject* name, const c10::IValue& values, Way way) {
  size_t position = 0;
  for (const auto& item : values.toListRef()) {
    if (item.isTensor() && item.toTensor().defined()) {
      Object full(PyUnicode_FromFormat("%U.%zu", name, position));
      if (!full || !add_named(list, full.get(), look(way, item.toTensor(), NO_VERSION, nullptr))) return false;
    }
    position++;
  }
  return true;
}

static bool before(const Arguments& given, const Info& info, PyObject* text, Noted& noted) {
  Place place;
  if (!find_place(place)) return false;
  PyObject* site = site_at(place, info);
  if (!site) return false;
  if (PyUnicode_GET_LENGTH(place.source.get()) == 0) place.source = Object(line_here());
  if (!place.source) return false;
  noted.call = begin_call(site, place.source.get(), text);
  if (!noted.call) return false;
  const bool is_outlined = place.phase == watch->optimizer.get() && !watch->notes_optimizer_values;
  noted.way = is_outlined ? Way::outline : Way::see;
  PyObject* inputs = watch->call.inputs.of(noted.call.get());
  for (size_t i = 0; i < info.num_arguments; i++) {
    if (!given.is_given(i)) continue;
    const auto& value = given.values[i];
    if (is_tensor(value)) {
      if (!add_named(inputs, info.names[i], look(noted.way, value.toTensor(), NO_VERSION, nullptr))) return false;
    } else if (tensors_among(value) > 0 && !add_list(inputs, info.names[i], value, noted.way)) {
      return false;
    }
  }
  if (c10::GradMode::is_enabled()) {
    const auto number = static_cast<int64_t>(at::sequence_number::peek() - 1);
    if (!note_origin(number, place.origin.get(), place.source.get())) return false;
  }
  for (int64_t position : info.writes) noted.written.push_back(given.values[position]);
  if (info.is_view && info.num_arguments && given.values[0].isTensor()) noted.base = given.values[0].toTensor();
  return true;
}

static PyObject* output_name(size_t position) {
  while (watch->output_names.size() <= position)
    watch->output_names.push_back(PyUnicode_FromFormat("output.%zu", watch->output_names.size()));
  return watch->output_names[position];
}

static bool add_results(PyObject* list, const c10::IValue* values, size_t num, Way way, int64_t version, PyObject* twin) {
  for (size_t i = 0; i < num; i++) {
    if (values[i].isTensor()) {
      if (values[i].toTensor().defined() && !add_named(list, output_name(i), look(way, values[i].toTensor(), version, twin))) return false;
    } else if (values[i].isList() && num > 1) {
      if (!add_list(list, output_name(i), values[i], way)) return false;
    } else if (values[i].isList()) {  // one list is as good as many results
      const auto items = values[i].toListRef();
      for (size_t k = 0; k < items.size(); k++)
        if (items[k].isTensor() && items[k].toTensor().defined() &&
            !add_named(list, output_name(k), look(way, items[k].toTensor(), version, twin)))
          return false;
    }
  }
  return true;
}

template <class Do>
static void for_tensors(const std::vector<c10::IValue>& values, Do&& act) {
  for (const auto& value : values) {
    if (value.isTensor() && value.toTensor().defined()) act(value.toTensor());
    if (value.isList())
      for (const auto& item : value.toListRef())
        if (item.isTensor() && item.toTensor().defined()) act(item.toTensor());
  }
}

static bool after(const Info& info, Noted& noted, const torch::jit::Stack& stack) {
  PyObject* inputs = watch->call.inputs.of(noted.call.get());
  PyObject* outputs = watch->call.outputs.of(noted.call.get());
  if (!info.writes.empty()) {
    for_tensors(noted.written, [](const at::Tensor& tensor) { storages->note_write(tensor); });
    if (!info.returns_writes && !add_results(outputs, noted.written.data(), noted.written.size(), noted.way, NO_VERSION, nullptr)) return false;
  }
  Way way = noted.way;
  int64_t version = NO_VERSION;
  PyObject* twin = nullptr;
  if (info.is_view && way == Way::see) {
    if (noted.base.defined() && !noted.base.is_inference()) way = Way::view, version = noted.base._version();
  } else if (info.is_copy && way == Way::see && PyList_GET_SIZE(inputs) == 2) {
    way = Way::copy, twin = PyList_GET_ITEM(inputs, 1);
  } else if (info.is_uninitialised) {
    way = Way::locate;
  }
  if (!add_results(outputs, stack.data() + stack.size() - info.num_returns, info.num_returns, way, version, twin)) return false;
  for_tensors(noted.written, [](const at::Tensor& tensor) { storages->note_result(tensor); });
  return !PyList_Append(watch->calls, noted.call.get());
}

}  // namespace jumar
