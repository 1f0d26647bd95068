// `storages.hpp` as Python calls it.
#pragma once

#include <Python.h>

#include <torch/csrc/autograd/python_variable.h>

#include "storages.hpp"

namespace jumar {

static const at::Tensor* tensor_of(PyObject* object) {
  if (THPVariable_Check(object)) return &THPVariable_Unpack(object);
  PyErr_SetString(PyExc_TypeError, "a tensor is needed");
  return nullptr;
}

static PyObject* see(PyObject*, PyObject* arguments) {
  PyObject *object, *version = Py_None, *source = Py_None;
  if (!PyArg_ParseTuple(arguments, "O|OO", &object, &version, &source)) return nullptr;
  const at::Tensor* tensor = tensor_of(object);
  if (!tensor) return nullptr;
  return storages->see(*tensor, version == Py_None ? NO_VERSION : PyLong_AsLongLong(version), source == Py_None ? nullptr : source);
}

static PyObject* find(PyObject*, PyObject* arguments) {
  PyObject *object, *version = Py_None;
  if (!PyArg_ParseTuple(arguments, "O|O", &object, &version)) return nullptr;
  const at::Tensor* tensor = tensor_of(object);
  if (!tensor) return nullptr;
  bool is_new = false;
  PyObject* seen = storages->find(*tensor, version == Py_None ? NO_VERSION : PyLong_AsLongLong(version), is_new);
  return seen ? Py_BuildValue("NO", seen, is_new ? Py_True : Py_False) : nullptr;
}

static PyObject* locate(PyObject*, PyObject* object) {
  const at::Tensor* tensor = tensor_of(object);
  return tensor ? storages->locate(*tensor) : nullptr;
}

static PyObject* outline(PyObject*, PyObject* object) {
  const at::Tensor* tensor = tensor_of(object);
  return tensor ? storages->outline(*tensor) : nullptr;
}

static PyObject* note_write(PyObject*, PyObject* object) {
  const at::Tensor* tensor = tensor_of(object);
  if (!tensor) return nullptr;
  storages->note_write(*tensor);
  Py_RETURN_NONE;
}

static PyObject* note_result(PyObject*, PyObject* object) {
  const at::Tensor* tensor = tensor_of(object);
  if (!tensor) return nullptr;
  storages->note_result(*tensor);
  Py_RETURN_NONE;
}

static PyObject* carry(PyObject*, PyObject* arguments) {
  PyObject *object, *seen;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &seen)) return nullptr;
  const at::Tensor* tensor = tensor_of(object);
  if (!tensor) return nullptr;
  storages->carry(*tensor, seen);
  Py_RETURN_NONE;
}

static PyObject* clear(PyObject*, PyObject* carries) {
  storages->clear(carries == Py_True);
  Py_RETURN_NONE;
}

static PyObject* forget_values(PyObject*, PyObject*) {
  storages->forget_values();
  Py_RETURN_NONE;
}

}  // namespace jumar
