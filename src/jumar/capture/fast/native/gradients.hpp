// Backward rows of modules: what `CallWatch` does with each gradient as it arrives.
#pragma once

#include <Python.h>

#include <memory>

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>

#include "notes.hpp"
#include "storages_python.hpp"

namespace jumar {

// While this lives, nothing is differentiated and no mode sees what runs: it is no part of the run.
struct OwnWork {
  const int64_t began = now();
  const c10::AutoGradMode undifferentiated{false};
  const c10::impl::ExcludeDispatchKeyGuard undispatched{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PreDispatch})};
  const c10::impl::ExcludeDispatchKeyGuard unseen{c10::DispatchKey::PythonTLSSnapshot};
  ~OwnWork() { add_own_time(now() - began); }
  double at_us() const { return (began - own_time() - watch->step_start) / 1000.0; }
};

static bool takes_gradients() {
  if (!watch->unfinished || is_busy()) return false;
  static PyObject* name = PyUnicode_InternFromString("is_open");
  Object is_open(PyObject_GetAttr(watch->notebook.get(), name));
  if (!is_open) PyErr_Clear();
  return is_open.get() == Py_True;
}

// The row that waits for a gradient, borrowed from `pending`; a new one when it is the first of another backward pass.
static PyObject* waiting_call(PyObject* pending, PyObject* name, double at_us) {
  const auto& slots = watch->pending;
  PyObject* call = slots.call.of(pending);
  if (call != Py_None && PySet_Contains(slots.missing.of(pending), name) == 1) {
    Object number(PyLong_FromVoidPtr(call));
    if (!number || PyDict_Contains(watch->unfinished, number.get()) == 1) return number ? call : nullptr;
  }
  Object line(line_here());
  Object made = line ? begin_call(slots.site.of(pending), line.get(), Py_None) : Object();
  Object missing(PySet_New(slots.names.of(pending))), number(PyLong_FromVoidPtr(made.get()));
  if (!made || !missing || !number || PyDict_SetItem(watch->unfinished, number.get(), made.get())) return nullptr;
  watch->call.start_us.put(made.get(), PyFloat_FromDouble(at_us));
  slots.missing.share(pending, missing.get());
  slots.call.share(pending, made.get());
  return made.get();
}

static bool add_gradient(PyObject* pending, PyObject* name, const at::Tensor& gradient, double at_us) {
  PyObject* call = waiting_call(pending, name, at_us);
  if (!call) return false;
  const auto& slots = watch->call;
  slots.duration_us.put(call, PyFloat_FromDouble(at_us - PyFloat_AsDouble(slots.start_us.of(call))));
  static PyObject* prefix = PyUnicode_InternFromString("grad_output");
  const bool is_output = PyUnicode_Tailmatch(name, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
  // Undefined: the loss does not depend on this output.
  if (gradient.defined() && !add_named((is_output ? slots.inputs : slots.outputs).of(call), name,
                                       storages->see(gradient, NO_VERSION, nullptr)))
    return false;
  PyObject* missing = watch->pending.missing.of(pending);
  if (PySet_Discard(missing, name) < 0) return false;
  if (PySet_GET_SIZE(missing)) return true;
  Object number(PyLong_FromVoidPtr(call));
  return number && !PyList_Append(watch->calls, call) && !PyDict_DelItem(watch->unfinished, number.get());
}

// Called with the interpreter's lock.
static void note_now(PyObject* pending, PyObject* name, const at::Tensor& gradient) {
  const OwnWork work;
  if (!attempt([&] { return add_gradient(pending, name, gradient, work.at_us()); })) tell_failure();
}

// What a hook holds; it goes with its graph, on whatever thread that is freed.
struct Awaited {
  Object pending, name, by_python;
  static void release(Awaited* awaited) {
    if (!Py_IsInitialized()) return;  // at the end of the process nothing is left to be given back to
    const Lock lock;
    delete awaited;
  }
};

// Hooks a tensor whose gradient belongs to a module's call; Python's hook takes over where nothing is noted here.
static void hook(const at::Tensor& tensor, PyObject* pending, PyObject* name, PyObject* by_python) {
  const std::shared_ptr<Awaited> awaited(
      new Awaited{Object::borrowed(pending), Object::borrowed(name), Object::borrowed(by_python)}, Awaited::release);
  tensor.register_hook([awaited](const at::Tensor& gradient) {
    const Lock lock;
    if (takes_gradients()) return note_now(awaited->pending.get(), awaited->name.get(), gradient);
    Object itself(THPVariable_Wrap(gradient));
    Object done(itself ? PyObject_CallFunctionObjArgs(
                             awaited->by_python.get(), awaited->pending.get(), awaited->name.get(), itself.get(), nullptr)
                       : nullptr);
    if (!done) {  // an interrupt: what goes wrong in the observer itself is told elsewhere
      python_error error;
      error.persist();
      throw error;
    }
  });
}

}  // namespace jumar
