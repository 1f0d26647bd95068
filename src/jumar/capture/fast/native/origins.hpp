// Where autograd's nodes come from: `note_at` and `find` of `capture.attribution`, on the same lists.
#pragma once

#include <Python.h>
#include <pythread.h>

#include "state.hpp"

namespace jumar {

// The origins of this thread, borrowed from the observer, which keeps them.
static PyObject* origins_here() {
  Object thread(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
  if (!thread) return nullptr;
  PyObject* known = PyDict_GetItemWithError(watch->origins_by_thread.get(), thread.get());
  if (known || PyErr_Occurred()) return known;
  Object made(PyObject_CallNoArgs(watch->origins_here.get()));
  return made.get();
}

// Says that the node with this number, and later ones, belong to `origin` and to a line of the user's code.
static bool note_origin(int64_t number, PyObject* origin, PyObject* source) {
  PyObject* here = origins_here();
  if (!here) return false;
  PyObject *numbers = watch->origins.numbers.of(here), *origins = watch->origins.origins.of(here);
  PyObject* sources = watch->origins.sources.of(here);
  const Py_ssize_t last = PyList_GET_SIZE(numbers) - 1;
  const int64_t latest = last < 0 ? -1 : PyLong_AsLongLong(PyList_GET_ITEM(numbers, last));
  if (last < 0 || number > latest) {
    Object value(PyLong_FromLongLong(number));
    return value && !PyList_Append(numbers, value.get()) && !PyList_Append(origins, origin) && !PyList_Append(sources, source);
  }
  if (number < latest || PyUnicode_GET_LENGTH(PyList_GET_ITEM(sources, last)) > 0) return true;
  return !PyList_SetItem(origins, last, Py_NewRef(origin)) && !PyList_SetItem(sources, last, Py_NewRef(source));
}

// Finds what was noted for a node that runs now, borrowed; false when it is older than all, or nobody knows who called.
static bool find_origin(int64_t number, PyObject*& origin, PyObject*& source) {
  PyObject* callers = watch->callers.get();
  if (!PyList_GET_SIZE(callers)) return false;
  PyObject* caller = PyList_GET_ITEM(callers, PyList_GET_SIZE(callers) - 1);
  PyObject* there = PyDict_GetItemWithError(watch->origins_by_thread.get(), caller);
  if (!there) return false;
  PyObject* numbers = watch->origins.numbers.of(there);
  Py_ssize_t low = 0, high = PyList_GET_SIZE(numbers);
  while (low < high) {
    const Py_ssize_t middle = (low + high) / 2;
    if (number < PyLong_AsLongLong(PyList_GET_ITEM(numbers, middle)))
      high = middle;
    else
      low = middle + 1;
  }
  if (!low) return false;
  origin = PyList_GET_ITEM(watch->origins.origins.of(there), low - 1);
  source = PyList_GET_ITEM(watch->origins.sources.of(there), low - 1);
  return true;
}

}  // namespace jumar
