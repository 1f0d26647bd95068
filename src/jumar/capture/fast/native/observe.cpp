// The observer's hot path: what `watch_operators` and `storages` do, over the same notes, without the interpreter.
//
// PyTorch hands every operator below autograd to the dispatch mode on top of the stack through its table of functions
// of the Python interpreter. Ours takes the place of that table, and passes on all but the operators whose mode is the
// observer's. Whatever is not plain (an argument of another kind than below, a tensor without strides, an operator
// that draws random numbers) goes the way through Python, which stays the definition of what is noted.
//
// Everything here happens with the interpreter's lock, but for the operator itself.
#include <Python.h>

#include <optional>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/utils/torch_dispatch_mode.h>

#include "modules.hpp"

namespace jumar {

// Lets Python note this call, and learns from it the text of arguments that were not met before.
static void learn(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& key) {
  const Py_ssize_t num_calls = PyList_GET_SIZE(watch->calls);
  PyObject* calls = Py_NewRef(watch->calls);
  try {
    Unlocked unlocked;
    watch->original->dispatch(op, stack);
  } catch (...) {
    Py_DECREF(calls);
    throw;
  }
  if (calls == watch->calls && PyList_GET_SIZE(calls) == num_calls + 1) {
    PyObject* text = PyObject_CallOneArg(watch->text_of.get(), PyList_GET_ITEM(calls, num_calls));
    if (watch->texts.size() > MOST_TEXTS) watch->texts.clear([](PyObject* known) { Py_DECREF(known); });
    if (!text)
      PyErr_Clear();
    else if (!watch->texts.emplace(key, text).second)
      Py_DECREF(text);
  }
  Py_DECREF(calls);
}

static bool is_ours_on_top() {
  using c10::impl::TorchDispatchModeTLS;
  const int64_t depth = TorchDispatchModeTLS::stack_len();
  return watch->mode && depth && TorchDispatchModeTLS::get_stack_at(depth - 1)->ptr(getPyInterpreter()) == watch->mode;
}

static void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!is_ours_on_top()) return watch->original->dispatch(op, stack);
  Noted noted;
  const Info* info;
  int64_t start, own;
  std::optional<torch::torch_dispatch_mode::StashTorchDispatchModeGuard> unwatched;  // what Python does in here, too
  {
    const int64_t began = now();
    Lock lock;
    if (!watch->mode || is_busy()) {
      Unlocked unlocked;
      return watch->original->dispatch(op, stack);
    }
    unwatched.emplace();
    std::string key;
    info = info_of(op);
    Object text;
    if (info && info->plain) {
      const Arguments given(op, *info, *stack);
      if (text_of(given, *info, key)) {
        PyObject** const known = watch->texts.find(key);
        if (!known) {
          unwatched.reset();
          return learn(op, stack, key);
        }
        text = Object::borrowed(*known);
        if (!attempt([&] { return before(given, *info, text.get(), noted); })) {
          tell_failure();
          noted.call = Object();
        }
      }
    }
    if (PyErr_Occurred()) tell_failure();
    if (!text) {
      unwatched.reset();
      Unlocked unlocked;
      return watch->original->dispatch(op, stack);
    }
    start = now();
    add_own_time(start - began);
    own = own_time();
  }
  try {
    op.callBoxed(stack);
  } catch (...) {
    Lock lock;
    noted.call = Object();
    throw;
  }
  const int64_t end = now();
  Lock lock;
  if (noted.call && watch->mode) {  // it may have been taken down meanwhile
    watch->call.start_us.put(noted.call.get(), PyFloat_FromDouble((start - own - watch->step_start) / 1000.0));
    watch->call.duration_us.put(noted.call.get(), PyFloat_FromDouble((end - start - (own_time() - own)) / 1000.0));
    if (!attempt([&] { return after(*info, noted, *stack); })) tell_failure();
  }
  noted.call = Object();
  noted.base.reset();
  noted.written.clear();
  if (watch->mode) add_own_time(now() - end);
}

// What PyTorch calls where it detaches without the dispatcher: an output that is saved for the backward pass.
static c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* itself) {
  if (!is_ours_on_top()) return watch->original->detach(itself);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  auto held = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::unsafe_reclaim_from_nonowning(
      const_cast<c10::TensorImpl*>(itself));
  torch::jit::Stack stack;
  stack.emplace_back(at::Tensor(std::move(held)));
  dispatch(op, &stack);
  return stack.back().toTensor().getIntrusivePtr();
}

#include "forward.hpp"

// -- what Python calls ------------------------------------------------------------------------

static void forget() {
  for (auto& [key, site] : watch->sites) {
    Py_DECREF(key.origin);
    Py_DECREF(site);
  }
  watch->sites.clear();
  watch->owners.clear();
  for (auto& [_, line] : watch->lines) Py_DECREF(line);
  watch->lines.clear();
  for (auto& [code, _] : watch->codes) Py_DECREF(code);
  watch->codes.clear();
}

static PyObject* set_up(PyObject*, PyObject* host) {
  auto get = [host](const char* name) { return Object(PyObject_GetAttrString(host, name)); };
  Watch& w = *watch;
  w.module_watch = get("watch"), w.autocast = get("autocast"), w.clock = get("clock");
  w.describe = get("describe"), w.site_of = get("site_of"), w.outside = get("outside");
  w.of_parameter = get("of_parameter"), w.find_origin = get("find_origin"), w.origins_here = get("origins_here");
  w.origins_by_thread = get("origins_by_thread"), w.callers = get("callers");
  w.module_site_of = get("module_site_of"), w.on_gradient = get("on_gradient"), w.hook_leaf = get("hook_leaf");
  w.notebook = get("notebook"), w.text_of = get("text_of"), w.is_users = get("is_users"), w.line_of = get("line_of"), w.fail = get("fail");
  Object classes[] = {get("Call"), get("Clock"), get("Frame"), get("Origin"), get("Site"), get("Tally"), get("notes_optimizer_values"), get("Origins"), get("Pending")};
  if (PyErr_Occurred()) return nullptr;
  w.call_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(classes[0].get()));
  w.notes_optimizer_values = classes[6].get() == Py_True;
  w.empty = Object(PyUnicode_InternFromString("")), w.pending_type = Object::borrowed(classes[8].get());
  w.forward = Object(PyUnicode_InternFromString("forward"));
  w.backward = Object(PyUnicode_InternFromString("backward"));
  w.optimizer = Object(PyUnicode_InternFromString("optimizer"));
  w.call.find(classes[0].get());
  w.origins.find(classes[7].get());
  w.pending.find(classes[8].get());
  w.own.find(classes[1].get(), "own");
  w.origin_of_frame.find(classes[2].get(), "origin");
  w.source_of_origin.find(classes[3].get(), "source");
  w.tally_of_site.find(classes[4].get(), "tally");
  w.num_of_tally.find(classes[5].get(), "num_calls");
  forget();
  if (PyErr_Occurred() || !storages->set_up(host)) return nullptr;
  auto* interpreter = getPyInterpreter();
  if (!w.ours) {  // both tables live for ever: a thread may be in one of them
    w.original = interpreter->vtable_;
    w.ours = new Forward(w.original);
  }
  interpreter->vtable_ = w.ours;
  Py_RETURN_NONE;
}

static PyObject* take_down(PyObject*, PyObject*) {
  if (watch->original) getPyInterpreter()->vtable_ = watch->original;
  Py_CLEAR(watch->mode);
  Py_CLEAR(watch->calls);
  Py_CLEAR(watch->unfinished);
  Watch& w = *watch;
  for (Object* held : {&w.module_watch, &w.autocast, &w.clock, &w.describe, &w.site_of, &w.outside, &w.of_parameter,
                       &w.find_origin, &w.origins_by_thread, &w.origins_here, &w.callers, &w.module_site_of, &w.on_gradient, &w.hook_leaf, &w.notebook, &w.text_of, &w.is_users, &w.line_of, &w.fail})
    *held = Object();
  forget();
  storages->take_down();
  Py_RETURN_NONE;
}

static PyObject* observe(PyObject*, PyObject* mode) {
  Py_XSETREF(watch->mode, mode == Py_None ? nullptr : Py_NewRef(mode));
  Py_RETURN_NONE;
}

static PyObject* begin_step(PyObject*, PyObject* arguments) {
  PyObject *calls, *unfinished;
  long long start;
  if (!PyArg_ParseTuple(arguments, "OLO", &calls, &start, &unfinished)) return nullptr;
  Py_XSETREF(watch->calls, Py_NewRef(calls));
  Py_XSETREF(watch->unfinished, unfinished == Py_None ? nullptr : Py_NewRef(unfinished));
  watch->step_start = start;
  Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"set_up", raising<set_up>, METH_O, nullptr},
    {"take_down", raising<take_down>, METH_NOARGS, nullptr},
    {"observe", raising<observe>, METH_O, nullptr},
    {"begin_step", raising<begin_step>, METH_VARARGS, nullptr},
    {"enter_module", raising<enter_module>, METH_VARARGS, nullptr},
    {"leave_module", raising<leave_module>, METH_VARARGS, nullptr},
    {"see", raising<see>, METH_VARARGS, nullptr},
    {"find", raising<find>, METH_VARARGS, nullptr},
    {"locate", raising<locate>, METH_O, nullptr},
    {"outline", raising<outline>, METH_O, nullptr},
    {"note_write", raising<note_write>, METH_O, nullptr},
    {"note_result", raising<note_result>, METH_O, nullptr},
    {"carry", raising<carry>, METH_VARARGS, nullptr},
    {"clear", raising<clear>, METH_O, nullptr},
    {"forget_values", raising<forget_values>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "observe", nullptr, -1, METHODS};

}  // namespace jumar

PyMODINIT_FUNC PyInit_observe() { return PyModule_Create(&jumar::MODULE); }
