// What the hot path knows between two operators: the objects of the observer, and what was looked up once.
#pragma once

#include <Python.h>
#include <time.h>

#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>

#include "in_order.hpp"
#include "objects.hpp"

namespace jumar {

// One operator, as `capture.operators` describes it; `plain` when it can be noted here.
struct Info {
  PyObject* info = nullptr;
  bool plain = false, is_view = false, is_copy = false, is_uninitialised = false, returns_writes = true;
  std::vector<int64_t> writes;
  std::vector<PyObject*> names;  // of inputs: `input.0`, `input.weight`
  size_t num_arguments = 0, num_positional = 0, num_returns = 0;
};

struct SiteKey {
  PyObject* origin;
  const Info* info;
  PyObject* phase;
  bool operator==(const SiteKey& other) const {
    return origin == other.origin && info == other.info && phase == other.phase;
  }
};
struct SiteHash {
  size_t operator()(const SiteKey& key) const {
    return (reinterpret_cast<size_t>(key.origin) * 31 + reinterpret_cast<size_t>(key.info)) * 31 +
           reinterpret_cast<size_t>(key.phase);
  }
};
struct LineKey {
  PyObject* code;
  int place;
  bool operator==(const LineKey& other) const { return code == other.code && place == other.place; }
};
struct LineHash {
  size_t operator()(const LineKey& key) const { return reinterpret_cast<size_t>(key.code) * 31 + key.place; }
};

// The module of a parameter, which may be gone, and another tensor in its place.
struct Owner {
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> parameter;
  Object origin;
};

struct Watch {
  const c10::impl::PyInterpreterVTable *original = nullptr, *ours = nullptr;
  PyObject* mode = nullptr;   // the observer's mode while operators are noted here, else null
  PyObject* calls = nullptr;  // the notes of the step under way
  PyObject* unfinished = nullptr;  // those of modules that wait for gradients; null: Python notes these
  int64_t step_start = 0;
  bool notes_optimizer_values = false;
  Object module_watch, autocast, clock, empty, forward, backward, optimizer, pending_type;
  Object describe, site_of, outside, of_parameter, find_origin, origins_by_thread, origins_here, callers, notebook;
  Object module_site_of, on_gradient, hook_leaf, text_of, is_users, line_of, fail;
  CallSlots call;
  OriginsSlots origins;
  PendingSlots pending;
  Slot own, origin_of_frame, source_of_origin, tally_of_site, num_of_tally;
  PyTypeObject* call_type = nullptr;
  std::unordered_map<c10::OperatorHandle, Info> infos;
  std::unordered_map<SiteKey, PyObject*, SiteHash> sites;  // keeps origin and site
  InOrder<PyObject*> texts;
  std::unordered_map<const c10::TensorImpl*, Owner> owners;  // of parameters
  std::unordered_map<PyObject*, bool> codes;  // keeps the code
  std::unordered_map<LineKey, PyObject*, LineHash> lines;
  std::vector<PyObject*> output_names;
};

static Watch* watch = new Watch;  // outlives the interpreter: threads of PyTorch may still look

constexpr size_t MOST_TEXTS = 20000;

// Whether the observer itself works on this thread.
static bool is_busy() {
  static PyObject* name = PyUnicode_InternFromString("busy");
  Object busy(PyObject_GetAttr(watch->module_watch.get(), name));
  if (!busy) PyErr_Clear();
  return !busy || busy.get() == Py_True;
}

struct Lock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Lock() { PyGILState_Release(state); }
};

struct Unlocked {
  PyThreadState* state = PyEval_SaveThread();
  ~Unlocked() { PyEval_RestoreThread(state); }
};

static int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t own_time() { return PyLong_AsLongLong(watch->own.of(watch->clock.get())); }

static void add_own_time(int64_t ns) { watch->own.put(watch->clock.get(), PyLong_FromLongLong(own_time() + ns)); }

// Tells the observer of the error that is set; the run goes on.
static void tell_failure() {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  Object told(PyObject_CallOneArg(watch->fail.get(), error ? error : Py_None));
  if (!told) PyErr_Clear();
  Py_XDECREF(kind);
  Py_XDECREF(error);
  Py_XDECREF(trace);
}

// Does something of the observer's; an error of PyTorch's becomes one of Python's, and false.
template <class Do>
static bool attempt(Do&& act) {
  try {
    return act();
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

// A function of the module, which raises what PyTorch throws.
template <PyObject* (*act)(PyObject*, PyObject*)>
static PyObject* raising(PyObject* self, PyObject* arguments) {
  PyObject* result = nullptr;
  attempt([&] { return (result = act(self, arguments)) != nullptr; });
  return result;
}

static const Info* info_of(const c10::OperatorHandle& op) {
  auto known = watch->infos.find(op);
  if (known != watch->infos.end()) return &known->second;
  Info info;
  const auto& schema = op.schema();
  Object found(PyObject_CallFunction(watch->describe.get(), "ss", schema.name().c_str(), schema.overload_name().c_str()));
  if (!found) return nullptr;
  if (found.get() != Py_None) {
    int is_view, is_copy, is_uninitialised, returns_writes;
    PyObject *itself, *writes;
    if (!PyArg_ParseTuple(found.get(), "OppppO", &itself, &is_view, &is_copy, &is_uninitialised, &returns_writes, &writes))
      return nullptr;
    info.info = Py_NewRef(itself);
    info.plain = true;
    info.is_view = is_view, info.is_copy = is_copy, info.is_uninitialised = is_uninitialised;
    info.returns_writes = returns_writes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); i++)
      info.writes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(writes, i)));
    info.num_arguments = info.num_positional = schema.arguments().size();
    info.num_returns = schema.returns().size();
    while (info.num_positional && schema.arguments()[info.num_positional - 1].kwarg_only()) info.num_positional--;
    for (size_t i = 0; i < info.num_arguments; i++) {
      const auto name = "input." + (i < info.num_positional ? std::to_string(i) : schema.arguments()[i].name());
      info.names.push_back(PyUnicode_InternFromString(name.c_str()));
    }
  }
  return &watch->infos.emplace(op, std::move(info)).first->second;
}

}  // namespace jumar
