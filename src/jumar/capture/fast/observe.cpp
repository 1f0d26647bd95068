// The observer's hot path: what `watch_operators` and `storages` do, over the same notes, without the interpreter.
//
// PyTorch hands every operator below autograd to the dispatch mode on top of the stack through its table of functions
// of the Python interpreter. Ours takes the place of that table, and passes on all but the operators whose mode is the
// observer's. Whatever is not plain (an argument of another kind than below, a tensor without strides, an operator
// that draws random numbers) goes the way through Python, which stays the definition of what is noted.
//
// Everything here happens with the interpreter's lock, but for the operator itself.
#include <Python.h>
#include <time.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/PyInterpreter.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/torch_dispatch_mode.h>

#include "objects.hpp"
#include "storages.hpp"

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

struct Watch {
  const c10::impl::PyInterpreterVTable* original = nullptr;
  PyObject* mode = nullptr;   // the observer's mode while operators are noted here, else null
  PyObject* calls = nullptr;  // the notes of the step under way
  int64_t step_start = 0;
  bool notes_optimizer_values = false;
  Object module_watch, autocast, clock, forward, backward, optimizer;
  Object describe, site_of, outside, of_parameter, find_origin, note_origin, text_of, is_users, line_of, fail;
  CallSlots call;
  Slot own, origin_of_frame, source_of_origin, tally_of_site, num_of_tally;
  PyTypeObject* call_type = nullptr;
  std::unordered_map<c10::OperatorHandle, Info> infos;
  std::unordered_map<SiteKey, PyObject*, SiteHash> sites;  // keeps origin and site
  std::unordered_map<std::string, PyObject*> texts;
  std::unordered_map<PyObject*, bool> codes;  // keeps the code
  std::unordered_map<LineKey, PyObject*, LineHash> lines;
  std::vector<PyObject*> output_names;
};

static Watch* watch = new Watch;  // outlives the interpreter: threads of PyTorch may still look

constexpr size_t MOST_TEXTS = 20000, MOST_NAMES = 256;

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

static bool find_place(Place& place) {
  Object stack(PyObject_GetAttrString(watch->module_watch.get(), "stack"));
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
    Object variable(THPVariable_Wrap(leaf->variable));
    if (!variable) return false;
    place.origin = Object(PyObject_CallOneArg(watch->of_parameter.get(), variable.get()));
    place.source = Object(PyUnicode_FromString(""));
    return static_cast<bool>(place.origin);
  }
  Object found(PyObject_CallFunction(watch->find_origin.get(), "K", static_cast<unsigned long long>(node->sequence_nr())));
  PyObject *origin, *source;
  if (!found || !PyArg_ParseTuple(found.get(), "OO", &origin, &source)) return false;
  place.origin = Object::borrowed(origin);
  if (PyUnicode_GET_LENGTH(source) == 0) source = watch->source_of_origin.of(origin);
  place.source = Object::borrowed(source);
  return true;
}

static PyObject* site_at(const Place& place, const Info& info) {
  const SiteKey key{place.origin.get(), &info, place.phase};
  auto known = watch->sites.find(key);
  if (known != watch->sites.end()) return known->second;
  PyObject* site = PyObject_CallFunctionObjArgs(watch->site_of.get(), place.origin.get(), place.phase, info.info, nullptr);
  if (!site) return nullptr;
  Py_INCREF(key.origin);
  watch->sites.emplace(key, site);
  return site;
}

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
  Object stack(PyObject_GetAttrString(watch->autocast.get(), "dtypes"));
  if (!stack || !place.source) return false;
  PyObject* tally = watch->tally_of_site.of(site);
  const int64_t occurrence = PyLong_AsLongLong(watch->num_of_tally.of(tally));
  watch->num_of_tally.put(tally, PyLong_FromLongLong(occurrence + 1));
  noted.call = watch->call.make(
      watch->call_type, site, occurrence, PyList_GET_ITEM(stack.get(), PyList_GET_SIZE(stack.get()) - 1), place.source.get(), text);
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
    const uint64_t number = at::sequence_number::peek() - 1;
    Object done(PyObject_CallFunction(watch->note_origin.get(), "LOO", static_cast<long long>(number), place.origin.get(), place.source.get()));
    if (!done) return false;
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

static bool is_busy() {
  Object busy(PyObject_GetAttrString(watch->module_watch.get(), "busy"));
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
    if (watch->texts.size() > MOST_TEXTS) {
      for (auto& [_, known] : watch->texts) Py_DECREF(known);
      watch->texts.clear();
    }
    if (!text)
      PyErr_Clear();
    else if (!watch->texts.emplace(key, text).second)
      Py_DECREF(text);
  }
  Py_DECREF(calls);
}

static void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  using c10::impl::TorchDispatchModeTLS;
  const int64_t depth = TorchDispatchModeTLS::stack_len();
  if (!watch->mode || !depth || TorchDispatchModeTLS::get_stack_at(depth - 1)->ptr(getPyInterpreter()) != watch->mode)
    return watch->original->dispatch(op, stack);
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
    PyObject* text = nullptr;
    if (info && info->plain) {
      const Arguments given(op, *info, *stack);
      if (text_of(given, *info, key)) {
        const auto known = watch->texts.find(key);
        if (known == watch->texts.end()) {
          unwatched.reset();
          return learn(op, stack, key);
        }
        text = known->second;
        if (!before(given, *info, text, noted)) {
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
  op.callBoxed(stack);
  const int64_t end = now();
  Lock lock;
  if (noted.call) {
    watch->call.start_us.put(noted.call.get(), PyFloat_FromDouble((start - own - watch->step_start) / 1000.0));
    watch->call.duration_us.put(noted.call.get(), PyFloat_FromDouble((end - start - (own_time() - own)) / 1000.0));
    if (!after(*info, noted, *stack)) tell_failure();
    noted.call = Object();
  }
  noted.base.reset();
  noted.written.clear();
  add_own_time(now() - end);
}

#include "forward.hpp"

// -- what Python calls ------------------------------------------------------------------------

static PyObject* set_up(PyObject*, PyObject* host) {
  auto get = [host](const char* name) { return Object(PyObject_GetAttrString(host, name)); };
  Watch& w = *watch;
  w.module_watch = get("watch"), w.autocast = get("autocast"), w.clock = get("clock");
  w.describe = get("describe"), w.site_of = get("site_of"), w.outside = get("outside");
  w.of_parameter = get("of_parameter"), w.find_origin = get("find_origin"), w.note_origin = get("note_origin");
  w.text_of = get("text_of"), w.is_users = get("is_users"), w.line_of = get("line_of"), w.fail = get("fail");
  Object classes[] = {get("Call"), get("Clock"), get("Frame"), get("Origin"), get("Site"), get("Tally"), get("notes_optimizer_values")};
  if (PyErr_Occurred()) return nullptr;
  w.call_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(classes[0].get()));
  w.notes_optimizer_values = classes[6].get() == Py_True;
  w.forward = Object(PyUnicode_InternFromString("forward"));
  w.backward = Object(PyUnicode_InternFromString("backward"));
  w.optimizer = Object(PyUnicode_InternFromString("optimizer"));
  w.call.find(classes[0].get());
  w.own.find(classes[1].get(), "own");
  w.origin_of_frame.find(classes[2].get(), "origin");
  w.source_of_origin.find(classes[3].get(), "source");
  w.tally_of_site.find(classes[4].get(), "tally");
  w.num_of_tally.find(classes[5].get(), "num_calls");
  for (auto& [key, site] : w.sites) {
    Py_DECREF(key.origin);
    Py_DECREF(site);
  }
  w.sites.clear();
  for (auto& [_, line] : w.lines) Py_DECREF(line);
  w.lines.clear();
  for (auto& [code, _] : w.codes) Py_DECREF(code);
  w.codes.clear();
  if (PyErr_Occurred() || !storages->set_up(host)) return nullptr;
  auto* interpreter = getPyInterpreter();
  if (!w.original) {
    w.original = interpreter->vtable_;
    interpreter->vtable_ = new Forward(w.original);
  }
  Py_RETURN_NONE;
}

static PyObject* take_down(PyObject*, PyObject*) {
  if (watch->original) getPyInterpreter()->vtable_ = watch->original;  // ours is left alive: a thread may be in it
  watch->original = nullptr;
  Py_CLEAR(watch->mode);
  Py_CLEAR(watch->calls);
  Watch& w = *watch;
  for (Object* held : {&w.module_watch, &w.autocast, &w.clock, &w.describe, &w.site_of, &w.outside, &w.of_parameter,
                       &w.find_origin, &w.note_origin, &w.text_of, &w.is_users, &w.line_of, &w.fail})
    *held = Object();
  storages->take_down();
  Py_RETURN_NONE;
}

static PyObject* observe(PyObject*, PyObject* mode) {
  Py_XSETREF(watch->mode, mode == Py_None ? nullptr : Py_NewRef(mode));
  Py_RETURN_NONE;
}

static PyObject* begin_step(PyObject*, PyObject* arguments) {
  PyObject* calls;
  long long start;
  if (!PyArg_ParseTuple(arguments, "OL", &calls, &start)) return nullptr;
  Py_XSETREF(watch->calls, Py_NewRef(calls));
  watch->step_start = start;
  Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"set_up", set_up, METH_O, nullptr},
    {"take_down", take_down, METH_NOARGS, nullptr},
    {"observe", observe, METH_O, nullptr},
    {"begin_step", begin_step, METH_VARARGS, nullptr},
    {"see", see, METH_VARARGS, nullptr},
    {"find", find, METH_VARARGS, nullptr},
    {"locate", locate, METH_O, nullptr},
    {"outline", outline, METH_O, nullptr},
    {"note_write", note_write, METH_O, nullptr},
    {"note_result", note_result, METH_O, nullptr},
    {"carry", carry, METH_VARARGS, nullptr},
    {"clear", clear, METH_O, nullptr},
    {"forget_values", forget_values, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "observe", nullptr, -1, METHODS};

}  // namespace jumar

PyMODINIT_FUNC PyInit_observe() { return PyModule_Create(&jumar::MODULE); }
