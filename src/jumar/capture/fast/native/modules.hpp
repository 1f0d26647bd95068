// Rows of module calls: what `CallWatch.on_enter` and `on_leave` do.
#pragma once

#include <Python.h>

#include "gradients.hpp"

namespace jumar {

constexpr int MOST_NESTED = 4;

static bool add_tensors(PyObject* found, PyObject* prefix, PyObject* value, int depth);

static bool add_below(PyObject* found, PyObject* prefix, PyObject* key, PyObject* value, int depth) {
  Object name(PyUnicode_FromFormat("%U.%S", prefix, key));
  return name && add_tensors(found, name.get(), value, depth);
}

// Appends (name, tensor) of the tensors in nested tuples, lists and dictionaries, as `named_tensors` yields them.
static bool add_tensors(PyObject* found, PyObject* prefix, PyObject* value, int depth) {
  if (THPVariable_Check(value)) {
    Object pair(PyTuple_Pack(2, prefix, value));
    return pair && !PyList_Append(found, pair.get());
  }
  if (!depth) return true;
  if (PyTuple_Check(value) || PyList_Check(value)) {
    Object items(PySequence_Fast(value, "a tuple or list"));
    for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items.get()); i++) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
      if (!THPVariable_Check(item) && !PyTuple_Check(item) && !PyList_Check(item) && !PyDict_Check(item)) continue;
      Object place(PyLong_FromSsize_t(i));
      if (!place || !add_below(found, prefix, place.get(), item, depth - 1)) return false;
    }
    return static_cast<bool>(items);
  }
  if (!PyDict_Check(value)) return true;
  Object items(PyMapping_Items(value));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); i++) {
    PyObject* pair = PyList_GET_ITEM(items.get(), i);
    if (!add_below(found, prefix, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), depth - 1)) return false;
  }
  return static_cast<bool>(items);
}

static bool see_all(PyObject* pairs, PyObject* named) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); i++) {
    PyObject* pair = PyList_GET_ITEM(pairs, i);
    PyObject* seen = storages->see(THPVariable_Unpack(PyTuple_GET_ITEM(pair, 1)), NO_VERSION, nullptr);
    if (!add_named(named, PyTuple_GET_ITEM(pair, 0), seen)) return false;
  }
  return true;
}

static PyObject* module_site(PyObject* origin, PyObject* phase) {
  return kept_site({origin, nullptr, phase}, [&] {
    return PyObject_CallFunctionObjArgs(watch->module_site_of.get(), origin, phase, nullptr);
  });
}

// Says that nodes made from now on belong to `origin`, where nodes are made.
static bool enter_origin(PyObject* origin) {
  return !c10::GradMode::is_enabled() ||
         note_origin(static_cast<int64_t>(at::sequence_number::peek()), origin, watch->empty.get());
}

static Object enter_now(PyObject* origin, PyObject* args) {
  static PyObject* prefix = PyUnicode_InternFromString("input");
  PyObject* phase = (torch::autograd::get_current_node() ? watch->backward : watch->forward).get();
  const OwnWork work;
  PyObject* site = module_site(origin, phase);
  Object line(site ? line_here() : nullptr);
  Object call = line ? begin_call(site, line.get(), Py_None) : Object();
  Object tensors(PyList_New(0));
  if (!call || !tensors || !add_tensors(tensors.get(), prefix, args, MOST_NESTED)) return Object();
  if (!see_all(tensors.get(), watch->call.inputs.of(call.get()))) return Object();
  watch->call.start_us.put(call.get(), PyFloat_FromDouble(work.at_us()));
  return Object(PyTuple_Pack(2, call.get(), tensors.get()));
}

// Notes a module that is about to run its forward; returns its call and the tensors among its arguments.
static PyObject* enter_module(PyObject*, PyObject* arguments) {
  PyObject *origin, *args;
  if (!PyArg_ParseTuple(arguments, "OO", &origin, &args)) return nullptr;
  Object entered;
  const bool is_noted = attempt([&] { return enter_origin(origin) && (entered = enter_now(origin, args)); });
  if (is_noted) return Py_NewRef(entered.get());
  tell_failure();
  Py_RETURN_NONE;
}

// Appends (`grad_` and the name, tensor) of those that have a gradient.
static bool add_watched(PyObject* watched, PyObject* pairs) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); i++) {
    PyObject* pair = PyList_GET_ITEM(pairs, i);
    PyObject* tensor = PyTuple_GET_ITEM(pair, 1);
    if (!THPVariable_Unpack(tensor).requires_grad()) continue;
    Object name(PyUnicode_FromFormat("grad_%U", PyTuple_GET_ITEM(pair, 0)));
    Object found(name ? PyTuple_Pack(2, name.get(), tensor) : nullptr);
    if (!found || PyList_Append(watched, found.get())) return false;
  }
  return true;
}

static bool attach(PyObject* origin, PyObject* inputs, PyObject* outputs) {
  Object watched(PyList_New(0)), names(PySet_New(nullptr));
  if (!watched || !names || !add_watched(watched.get(), outputs)) return false;
  if (!PyList_GET_SIZE(watched.get())) return true;  // without an output that has a gradient there is no backward
  if (!add_watched(watched.get(), inputs)) return false;
  const Py_ssize_t num = PyList_GET_SIZE(watched.get());
  for (Py_ssize_t i = 0; i < num; i++)
    if (PySet_Add(names.get(), PyTuple_GET_ITEM(PyList_GET_ITEM(watched.get(), i), 0))) return false;
  PyObject* site = module_site(origin, watch->backward.get());
  Object pending(site ? PyObject_CallFunctionObjArgs(watch->pending_type.get(), site, names.get(), nullptr) : nullptr);
  for (Py_ssize_t i = 0; pending && i < num; i++) {
    PyObject* pair = PyList_GET_ITEM(watched.get(), i);
    PyObject *name = PyTuple_GET_ITEM(pair, 0), *tensor = PyTuple_GET_ITEM(pair, 1);
    const at::Tensor& itself = THPVariable_Unpack(tensor);
    if (!itself.is_leaf()) {
      hook(itself, pending.get(), name, watch->on_gradient.get());
      continue;
    }
    Object done(PyObject_CallFunctionObjArgs(watch->hook_leaf.get(), pending.get(), name, tensor, nullptr));
    if (!done) return false;
  }
  return static_cast<bool>(pending);
}

static bool leave_now(PyObject* origin, PyObject* call, PyObject* inputs, PyObject* kwargs, PyObject* output) {
  static PyObject *input = PyUnicode_InternFromString("input"), *result = PyUnicode_InternFromString("output");
  const OwnWork work;
  const auto& slots = watch->call;
  slots.duration_us.put(call, PyFloat_FromDouble(work.at_us() - PyFloat_AsDouble(slots.start_us.of(call))));
  const bool is_many = PyTuple_Check(output) || PyList_Check(output) || PyDict_Check(output);
  Object several(is_many ? Py_NewRef(output) : PyTuple_Pack(1, output)), outputs(PyList_New(0));
  const Py_ssize_t num_positional = PyList_GET_SIZE(inputs);
  if (!several || !outputs || !add_tensors(inputs, input, kwargs, MOST_NESTED)) return false;
  if (!add_tensors(outputs.get(), result, several.get(), MOST_NESTED)) return false;
  Object keywords(PyList_GetSlice(inputs, num_positional, PyList_GET_SIZE(inputs)));
  if (!keywords || !see_all(keywords.get(), slots.inputs.of(call)) || !see_all(outputs.get(), slots.outputs.of(call)))
    return false;
  return !PyList_Append(watch->calls, call) && attach(origin, inputs, outputs.get());
}

// Notes what a module's forward has returned; `parent` is the origin of the module around it, or None.
static PyObject* leave_module(PyObject*, PyObject* arguments) {
  PyObject *origin, *parent, *call, *inputs, *kwargs, *output;
  if (!PyArg_ParseTuple(arguments, "OOOO!OO", &origin, &parent, &call, &PyList_Type, &inputs, &kwargs, &output)) return nullptr;
  const bool is_noted = attempt([&] {
    return (parent == Py_None || enter_origin(parent)) && leave_now(origin, call, inputs, kwargs, output);
  });
  if (!is_noted) tell_failure();
  Py_RETURN_NONE;
}

}  // namespace jumar
