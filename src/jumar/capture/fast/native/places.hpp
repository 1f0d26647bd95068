// Where an operator belongs: module, phase, line of the user's code, and the site that its calls are counted at.
#pragma once

#include <Python.h>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/python_variable.h>

#include "origins.hpp"

namespace jumar {

// The line of the user's code, new reference.
static PyObject* line_here() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    auto known = watch->codes.find(code);
    if (known == watch->codes.end()) {
      Object is_users(PyObject_CallOneArg(watch->is_users.get(), code));
      if (!is_users) {
        Py_DECREF(code);
        Py_DECREF(frame);
        return nullptr;
      }
      known = watch->codes.emplace(Py_NewRef(code), is_users.get() == Py_True).first;
    }
    Py_DECREF(code);  // `codes` keeps it
    if (known->second) {
      const LineKey place{code, PyFrame_GetLasti(frame)};
      auto line = watch->lines.find(place);
      if (line == watch->lines.end()) {
        PyObject* found = PyObject_CallOneArg(watch->line_of.get(), reinterpret_cast<PyObject*>(frame));
        if (found) line = watch->lines.emplace(place, found).first;
      }
      Py_DECREF(frame);
      return line == watch->lines.end() ? nullptr : Py_NewRef(line->second);
    }
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return PyUnicode_FromString("");
}

// Where an operator belongs.
struct Place {
  Object origin, source;
  PyObject* phase = nullptr;  // borrowed
};

// The origin of a parameter's module. Once that is known it stays.
static Object owner_of(const at::Tensor& parameter) {
  const auto* itself = parameter.unsafeGetTensorImpl();
  const auto known = watch->owners.find(itself);
  if (known != watch->owners.end() && !known->second.parameter.expired()) return Object::borrowed(known->second.origin.get());
  Object variable(THPVariable_Wrap(parameter));
  if (!variable) return Object();
  Object origin(PyObject_CallOneArg(watch->of_parameter.get(), variable.get()));
  Object kind(origin ? PyObject_GetAttrString(origin.get(), "module_type") : nullptr);
  if (!kind) return Object();
  if (PyUnicode_GET_LENGTH(kind.get()) > 0)
    watch->owners.insert_or_assign(itself, Owner{c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(parameter.getIntrusivePtr()), Object::borrowed(origin.get())});
  return origin;
}

static bool find_place(Place& place) {
  static PyObject* name = PyUnicode_InternFromString("stack");
  Object stack(PyObject_GetAttr(watch->module_watch.get(), name));
  if (!stack) return false;
  const auto node = torch::autograd::get_current_node();
  const Py_ssize_t depth = PyList_Size(stack.get());
  if (depth > 0) {
    PyObject* frame = PyList_GET_ITEM(stack.get(), depth - 1);
    place.origin = Object::borrowed(watch->origin_of_frame.of(frame));
    place.source = Object::borrowed(watch->source_of_origin.of(place.origin.get()));
    place.phase = (node ? watch->backward : watch->forward).get();
    return true;
  }
  if (!node) {
    Object found(PyObject_CallNoArgs(watch->outside.get()));
    PyObject *origin, *phase, *source;
    if (!found || !PyArg_ParseTuple(found.get(), "OOO", &origin, &phase, &source)) return false;
    place.origin = Object::borrowed(origin);
    place.source = Object::borrowed(source);
    place.phase = PyUnicode_CompareWithASCIIString(phase, "optimizer") == 0 ? watch->optimizer.get() : watch->forward.get();
    return true;
  }
  place.phase = watch->backward.get();
  if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get())) {
    place.origin = owner_of(leaf->variable);
    place.source = Object(PyUnicode_FromString(""));
    return static_cast<bool>(place.origin);
  }
  Object found;
  PyObject *origin, *source;
  if (!find_origin(static_cast<int64_t>(node->sequence_nr()), origin, source)) {
    if (PyErr_Occurred()) return false;
    found = Object(PyObject_CallFunction(watch->find_origin.get(), "K", static_cast<unsigned long long>(node->sequence_nr())));
    if (!found || !PyArg_ParseTuple(found.get(), "OO", &origin, &source)) return false;
  }
  place.origin = Object::borrowed(origin);
  if (PyUnicode_GET_LENGTH(source) == 0) source = watch->source_of_origin.of(origin);
  place.source = Object::borrowed(source);
  return true;
}

// The site that `key` stands for, borrowed; `make` asks Python for one that was not met before.
template <class Make>
static PyObject* kept_site(const SiteKey& key, Make&& make) {
  auto known = watch->sites.find(key);
  if (known != watch->sites.end()) return known->second;
  PyObject* site = make();
  if (!site) return nullptr;
  Py_INCREF(key.origin);
  watch->sites.emplace(key, site);
  return site;
}

static PyObject* site_at(const Place& place, const Info& info) {
  return kept_site({place.origin.get(), &info, place.phase}, [&] {
    return PyObject_CallFunctionObjArgs(watch->site_of.get(), place.origin.get(), place.phase, info.info, nullptr);
  });
}

// The note of a call at `site` that begins now.
static Object begin_call(PyObject* site, PyObject* source, PyObject* arguments) {
  static PyObject* name = PyUnicode_InternFromString("dtypes");
  Object stack(PyObject_GetAttr(watch->autocast.get(), name));
  if (!stack) return Object();
  PyObject* dtype = PyList_GET_ITEM(stack.get(), PyList_GET_SIZE(stack.get()) - 1);
  PyObject* tally = watch->tally_of_site.of(site);
  const int64_t occurrence = PyLong_AsLongLong(watch->num_of_tally.of(tally));
  watch->num_of_tally.put(tally, PyLong_FromLongLong(occurrence + 1));
  return watch->call.make(watch->call_type, site, occurrence, dtype, source, arguments);
}

}  // namespace jumar
