// Python's objects from C++: references that let go by themselves, and the fields of classes with `__slots__`.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <utility>

namespace jumar {

class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : held_(owned) {}
  static Object borrowed(PyObject* object) { return Object(Py_XNewRef(object)); }
  Object(Object&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    Py_XDECREF(std::exchange(held_, std::exchange(other.held_, nullptr)));
    return *this;
  }
  ~Object() { Py_XDECREF(held_); }
  PyObject* get() const { return held_; }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  PyObject* held_ = nullptr;
};

// A field in `__slots__`, by its place in the object.
class Slot {
 public:
  void find(PyObject* type, const char* name) {  // leaves an error set when there is none
    Object field(PyObject_GetAttrString(type, name));
    if (!field) return;
    if (Py_TYPE(field.get()) != &PyMemberDescr_Type) {
      PyErr_Format(PyExc_TypeError, "%s is not a slot", name);
      return;
    }
    offset_ = reinterpret_cast<PyMemberDescrObject*>(field.get())->d_member->offset;
  }
  PyObject* of(PyObject* object) const { return *at(object); }  // borrowed
  void put(PyObject* object, PyObject* owned) const {
    PyObject* old = std::exchange(*at(object), owned);
    Py_XDECREF(old);
  }
  void share(PyObject* object, PyObject* value) const { put(object, Py_NewRef(value)); }

 private:
  PyObject** at(PyObject* object) const {
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset_);
  }
  Py_ssize_t offset_ = 0;
};

// Takes an object that can be part of no cycle from the garbage collector's lists, which it goes through again and
// again: with a thousand notes a step that takes as long as making them does (measured).
inline PyObject* uncollected(PyObject* object) {
  if (object) PyObject_GC_UnTrack(object);
  return object;
}

// The fields of `capture.calls.Call`.
struct CallSlots {
  Slot site, occurrence, autocast, source, arguments, rng, wanted, start_us, duration_us, inputs, outputs;

  void find(PyObject* type) {
    site.find(type, "site"), occurrence.find(type, "occurrence"), autocast.find(type, "autocast");
    source.find(type, "source"), arguments.find(type, "arguments"), rng.find(type, "rng"), wanted.find(type, "wanted");
    start_us.find(type, "start_us"), duration_us.find(type, "duration_us");
    inputs.find(type, "inputs"), outputs.find(type, "outputs");
  }

  Object make(PyTypeObject* type, PyObject* at, long long number, PyObject* dtype, PyObject* line, PyObject* text) const {
    Object call(uncollected(type->tp_alloc(type, 0)));
    PyObject* itself = call.get();
    if (!itself) return call;
    static PyObject* empty = PyUnicode_InternFromString("");
    static PyObject* zero = PyFloat_FromDouble(0.0);
    site.share(itself, at), occurrence.put(itself, PyLong_FromLongLong(number)), autocast.share(itself, dtype);
    source.share(itself, line), arguments.share(itself, text), rng.share(itself, empty), wanted.share(itself, Py_False);
    start_us.share(itself, zero), duration_us.share(itself, zero);
    inputs.put(itself, uncollected(PyList_New(0))), outputs.put(itself, uncollected(PyList_New(0)));
    return call;
  }
};

// The fields of `capture.gradients.Pending`.
struct PendingSlots {
  Slot call, missing, names, site;

  void find(PyObject* type) {
    call.find(type, "call"), missing.find(type, "missing"), names.find(type, "names"), site.find(type, "site");
  }
};

// The fields of `capture.attribution.Origins`: lists.
struct OriginsSlots {
  Slot numbers, origins, sources;

  void find(PyObject* type) { numbers.find(type, "numbers"), origins.find(type, "origins"), sources.find(type, "sources"); }
};

// The fields of `capture.calls.Seen`.
struct SeenSlots {
  Slot array, hash, index, layout, num_writes, sketch, statistics, storage, twin, version;

  void find(PyObject* type) {
    array.find(type, "array"), hash.find(type, "hash"), index.find(type, "index"), layout.find(type, "layout");
    num_writes.find(type, "num_writes"), sketch.find(type, "sketch"), statistics.find(type, "statistics");
    storage.find(type, "storage"), twin.find(type, "twin"), version.find(type, "version");
  }

  PyObject* make(PyTypeObject* type, PyObject* lies, long long memory, long long writes, long long state) const {
    PyObject* seen = uncollected(type->tp_alloc(type, 0));
    if (!seen) return nullptr;
    static PyObject* empty = PyUnicode_InternFromString("");
    array.share(seen, Py_None), hash.share(seen, empty), index.put(seen, PyLong_FromLong(-1)), layout.share(seen, lies);
    num_writes.put(seen, PyLong_FromLongLong(writes)), sketch.share(seen, Py_None), statistics.share(seen, Py_None);
    storage.put(seen, PyLong_FromLongLong(memory)), twin.share(seen, Py_None), version.put(seen, PyLong_FromLongLong(state));
    return seen;
  }
};

}  // namespace jumar
