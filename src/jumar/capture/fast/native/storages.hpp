// Which tensors of a step share memory, and whether a tensor is still as it was last seen: `capture.storages`, with
// the values of plain float32 tensors of the host taken on the way (`capture.probes`). What is not plain is looked at
// by Python.
#pragma once

#include <Python.h>

#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include "in_order.hpp"
#include "objects.hpp"
#include "shapes.hpp"
#include "values.hpp"

namespace jumar {

constexpr int64_t NO_VERSION = -1;
constexpr size_t MOST_LAYOUTS = 50000;

struct Note {
  int64_t layout, elements, version;
  PyObject* seen;  // borrowed from `held`
  bool is_first;
};

struct Memory {
  int64_t number = 0, num_writes = 0, era = 0;
  int64_t last = 0, largest = 0;  // state and greatest number of elements of what has a sketch
  c10::weak_intrusive_ptr<c10::StorageImpl> reference;
  std::vector<Note> notes;
  std::vector<std::pair<int64_t, PyObject*>> outlines;
  std::vector<Note> sketched;  // `layout` holds the number of writes
  explicit Memory(c10::weak_intrusive_ptr<c10::StorageImpl> storage) : reference(std::move(storage)) {}
};

struct Carried {
  PyObject* seen;  // owned
  int64_t version;
  c10::weak_intrusive_ptr<c10::StorageImpl> reference;
};

class Storages {
 public:
  bool set_up(PyObject* host) {
    take_down();
    auto get = [host](const char* name) { return Object(PyObject_GetAttrString(host, name)); };
    layout_of_ = get("layout_of"), look_ = get("look");
    Object type = get("Seen"), values = get("values"), tile = get("tile"), fold = get("fold");
    if (PyErr_Occurred()) return false;
    seen_type_ = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
    slots_.find(type.get());
    const long kind = PyLong_AsLong(values.get());  // 0: nothing, 1: statistics, 2: and a sketch, 3: Python's
    looks_ = kind != 0, takes_ = kind == 1 || kind == 2, sketches_ = kind == 2;
    signs_.tile = reinterpret_cast<const float*>(PyLong_AsLongLong(tile.get()));
    signs_.fold = reinterpret_cast<const int64_t*>(PyLong_AsLongLong(fold.get()));
    if (PyErr_Occurred()) return false;
    bits_.assign(TILE / 8 + 8, 0);
    for (int64_t i = 0; i < TILE; i++) bits_[i >> 3] |= static_cast<uint8_t>(signs_.tile[i] < 0) << (i & 7);
    signs_.bits = bits_.data();
    return true;
  }

  void take_down() {
    clear(false);
    drop_layouts();
    layout_of_ = Object(), look_ = Object();
  }

  // Looks at a tensor; new reference. `source` is what it was copied from.
  PyObject* see(const at::Tensor& tensor, int64_t version, PyObject* source) {
    bool is_new = false;
    PyObject* seen = find(tensor, version, is_new);
    if (!seen || !is_new || !looks_) return seen;
    if (source) {
      PyObject* twin = slots_.twin.of(source);
      slots_.twin.share(seen, twin == Py_None ? source : twin);
    }
    return take(seen, tensor) ? seen : (Py_DECREF(seen), nullptr);
  }

  PyObject* find(const at::Tensor& tensor, int64_t version, bool& is_new) {
    auto* itself = tensor.unsafeGetTensorImpl();
    if (!is_followed(tensor) || (version == NO_VERSION && itself->is_inference())) {
      is_new = true;
      return locate(tensor);
    }
    if (version == NO_VERSION) version = tensor._version();
    const Lies* lies = lies_of(tensor);
    if (!lies) return nullptr;
    Memory& memory = memory_of(tensor);
    if (memory.era != era_) memory.era = era_, memory.notes.clear();
    PyObject* first = nullptr;
    for (const Note& note : memory.notes) {
      if (note.version != version) continue;
      if (note.layout == lies->number) return Py_NewRef(note.seen);
      if (note.is_first && note.elements == lies->elements) first = note.seen;
    }
    PyObject* seen = slots_.make(seen_type_, lies->layout, memory.number, memory.num_writes, version);
    if (!seen) return nullptr;
    is_new = true;
    held_.push_back(Py_NewRef(seen));
    memory.notes.push_back({lies->number, lies->elements, version, seen, !first});
    if (first)
      slots_.twin.share(seen, first);
    else if (!carried_.empty())
      recall(seen, tensor.storage().unsafeGetStorageImpl(), version, lies->layout);
    return seen;
  }

  PyObject* locate(const at::Tensor& whole) {
    const at::Tensor tensor = local_part(whole);
    const Lies* lies = is_followed(tensor) ? lies_of(tensor) : nullptr;
    if (PyErr_Occurred()) return nullptr;
    if (lies) return slots_.make(seen_type_, lies->layout, memory_of(tensor).number, 0, -1);
    Object itself(THPVariable_Wrap(tensor));
    Object layout(itself ? PyObject_CallOneArg(layout_of_.get(), itself.get()) : nullptr);
    const int64_t number = tensor.has_storage() ? memory_of(tensor).number : 0;
    return layout ? slots_.make(seen_type_, layout.get(), number, 0, -1) : nullptr;
  }

  PyObject* outline(const at::Tensor& whole) {
    const at::Tensor tensor = local_part(whole);
    if (!is_followed(tensor)) return locate(tensor);
    const Lies* lies = lies_of(tensor);
    if (!lies) return nullptr;
    Memory& memory = memory_of(tensor);
    for (const auto& [layout, seen] : memory.outlines)
      if (layout == lies->number) return Py_NewRef(seen);
    PyObject* seen = slots_.make(seen_type_, lies->layout, memory.number, 0, -1);
    if (!seen) return nullptr;
    held_.push_back(Py_NewRef(seen));
    memory.outlines.emplace_back(lies->number, seen);
    return seen;
  }

  void note_write(const at::Tensor& whole) {
    const at::Tensor tensor = local_part(whole);
    if (!tensor.has_storage()) return;
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto carried = carried_.find(storage);
    if (carried != carried_.end()) carried->second.version = NO_VERSION;
    const auto memory = memories_.find(storage);
    if (memory == memories_.end()) return;
    memory->second.num_writes++;
    memory->second.notes.clear();
  }

  // Autograd counts the write once the operator has returned: what was seen of it holds then, too.
  void note_result(const at::Tensor& tensor) {
    if (!tensor.has_storage()) return;
    const auto memory = memories_.find(tensor.storage().unsafeGetStorageImpl());
    if (memory == memories_.end()) return;
    auto& notes = memory->second.notes;
    const auto old = notes;
    for (Note note : old) {
      note.version++;
      std::erase_if(notes, [&note](const Note& other) {
        return other.version == note.version && (other.layout == note.layout || (note.is_first && other.is_first && other.elements == note.elements));
      });
      notes.push_back(note);
    }
  }

  void carry(const at::Tensor& tensor, PyObject* seen) {
    if (!is_followed(tensor) || tensor.unsafeGetTensorImpl()->is_inference()) return;
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    if (to_carry_.count(storage)) return;
    to_carry_.emplace(storage, Carried{Py_NewRef(seen), tensor._version(), tensor.storage().getWeakStorageImpl()});
  }

  void clear(bool carries) {
    memories_.clear();
    for (PyObject* seen : held_) Py_DECREF(seen);
    held_.clear();
    drop(carried_);
    if (!carries) drop(to_carry_);
    carried_ = std::move(to_carry_);
    to_carry_.clear();
    if (layouts_.size() > MOST_LAYOUTS) drop_layouts();
  }

  void forget_values() { era_++; }

 private:
  // Of a DTensor this rank's part, which is what its memory holds; any other tensor as it is.
  static at::Tensor local_part(const at::Tensor& tensor) {
    if (!tensor.key_set().has(c10::DispatchKey::Python)) return tensor;
    Object itself(THPVariable_Wrap(tensor));
    Object part(itself ? PyObject_GetAttrString(itself.get(), "_local_tensor") : nullptr);
    if (!part) PyErr_Clear();
    return part && THPVariable_Check(part.get()) ? at::Tensor(THPVariable_Unpack(part.get())) : tensor;
  }

  static bool is_followed(const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_nested() && tensor.has_storage() &&
           !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !tensor.key_set().has(c10::DispatchKey::Python);
  }

  // Its memory was given back (FSDP), or never was (tangents of zero).
  static bool is_without_memory(const at::Tensor& tensor) {
    return tensor.numel() && (tensor._is_zerotensor() || !tensor.storage().unsafeGetStorageImpl()->nbytes());
  }

  static void drop(std::unordered_map<const void*, Carried>& carried) {
    for (auto& [_, one] : carried) Py_DECREF(one.seen);
    carried.clear();
  }

  void drop_layouts() {
    layouts_.clear([](Lies& lies) { Py_DECREF(lies.layout); });
  }

  Memory& memory_of(const at::Tensor& tensor) {
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto known = memories_.find(storage);
    if (known != memories_.end()) return known->second;
    Memory& memory = memories_.emplace(storage, Memory(tensor.storage().getWeakStorageImpl())).first->second;
    memory.number = static_cast<int64_t>(memories_.size());
    memory.era = era_;
    return memory;
  }

  // Null with an error set when Python could not describe it.
  const Lies* lies_of(const at::Tensor& tensor) {
    auto& key = key_;
    key.clear();
    auto add = [&key](const void* data, size_t size) { key.append(static_cast<const char*>(data), size); };
    const auto sizes = tensor.sizes(), strides = tensor.strides();
    const int64_t offset = tensor.storage_offset();
    const auto device = tensor.device();
    const int8_t rest[] = {static_cast<int8_t>(tensor.scalar_type()), static_cast<int8_t>(device.type()),
                           static_cast<int8_t>(device.index()), static_cast<int8_t>(tensor.is_conj() * 2 + tensor.is_neg())};
    add(rest, sizeof rest);
    add(&offset, sizeof offset);
    add(sizes.data(), sizes.size() * sizeof(int64_t));
    add(strides.data(), strides.size() * sizeof(int64_t));
    if (const Lies* known = layouts_.find(key)) return known;
    std::string own_key = key;  // Python may come back here
    Object itself(THPVariable_Wrap(tensor));
    Object layout(itself ? PyObject_CallOneArg(layout_of_.get(), itself.get()) : nullptr);
    Object elements(layout ? PyObject_GetAttrString(layout.get(), "elements") : nullptr);
    if (!elements) return nullptr;
    const bool is_plain = tensor.is_cpu() && tensor.scalar_type() == c10::kFloat && !tensor.is_neg() && tensor.numel() > 0 && !tensor.is_quantized();
    bool is_repeated = false;
    for (const int64_t step : strides) is_repeated |= step == 0;
    return layouts_
                .emplace(std::move(own_key), Lies{Py_NewRef(layout.get()), ++num_layouts_, PyLong_AsLongLong(elements.get()),
                                                  tensor.is_contiguous(), tensor.is_non_overlapping_and_dense(), is_plain, is_repeated})
                .first;
  }

  void recall(PyObject* seen, const void* storage, int64_t version, PyObject* layout) {
    const auto known = carried_.find(storage);
    if (known == carried_.end() || known->second.version != version) return;
    PyObject* before = known->second.seen;
    if (slots_.layout.of(before) != layout) return;
    slots_.statistics.share(seen, slots_.statistics.of(before));
    slots_.sketch.share(seen, slots_.sketch.of(before));
  }

  bool look_by_python(PyObject* seen, const at::Tensor& tensor) {
    Object itself(THPVariable_Wrap(tensor));
    Object done(itself ? PyObject_CallFunctionObjArgs(look_.get(), seen, itself.get(), nullptr) : nullptr);
    return static_cast<bool>(done);
  }

  // Takes the values of a tensor that is new.
  bool take(PyObject* seen, const at::Tensor& tensor) {
    const Lies* lies = takes_ && is_followed(tensor) ? lies_of(tensor) : nullptr;
    if (PyErr_Occurred()) return false;
    if (!lies || !lies->is_plain) return look_by_python(seen, tensor);
    if (is_without_memory(tensor)) return true;
    PyObject* twin = slots_.twin.of(seen);
    if (twin != Py_None) {
      PyObject* known = slots_.statistics.of(twin);
      if (known == Py_None) return look_by_python(seen, tensor);
      slots_.statistics.share(seen, known);
    }
    PyObject* sketch_twin = nullptr;
    const bool wants_sketch = sketches_ && !has_sketch(seen, tensor, *lies, sketch_twin) && slots_.sketch.of(seen) == Py_None;
    if (sketch_twin) {
      if (slots_.sketch.of(sketch_twin) == Py_None) return look_by_python(seen, tensor);
      slots_.sketch.share(seen, slots_.sketch.of(sketch_twin));
    }
    const bool wants_statistics = slots_.statistics.of(seen) == Py_None;
    if (!wants_sketch && !wants_statistics) return true;
    const auto* data = static_cast<const float*>(tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get()) + tensor.storage_offset();
    const auto shape = Shape::of(tensor, wants_sketch);
    if (!lies->is_contiguous && (wants_sketch || !lies->is_gapless)) data = gathered(data, shape, buffer_);
    Values values;
    float numbers[BUCKETS];
    if (wants_sketch) {
      if (!statistics_and_sketch(data, shape.size, signs_, values, numbers)) return look_by_python(seen, tensor);
      PyObject* bytes = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(numbers), sizeof numbers);
      if (!bytes) return false;
      slots_.sketch.put(seen, bytes);
    } else {
      values = statistics(data, shape.size);
    }
    if (!wants_statistics) return true;
    PyObject* found = packed(values, shape.size, shape.repeats);
    if (found) slots_.statistics.put(seen, found);
    return found;
  }

  // Whether the elements have a sketch, in this order or in another; `twin` is whose it is where it is the same one.
  bool has_sketch(PyObject* seen, const at::Tensor& tensor, const Lies& lies, PyObject*& twin) {
    auto* itself = tensor.unsafeGetTensorImpl();
    if (itself->is_inference()) return false;
    const auto known = memories_.find(tensor.storage().unsafeGetStorageImpl());
    if (known == memories_.end()) return false;
    Memory& memory = known->second;
    const int64_t version = tensor._version(), size = tensor.numel();
    if (version != memory.last && version != 0) memory.last = version, memory.largest = 0;
    if (!lies.is_contiguous && (size <= memory.largest || (memory.largest && lies.is_repeated))) return true;
    memory.largest = size > memory.largest ? size : memory.largest;
    const int64_t state = PyLong_AsLongLong(slots_.version.of(seen));
    if (!lies.is_contiguous || state < 0) return false;
    for (const Note& note : memory.sketched)
      if (note.elements == lies.elements && note.layout == memory.num_writes && note.version == state) {
        twin = note.seen == seen ? nullptr : note.seen;
        return twin;
      }
    memory.sketched.push_back({memory.num_writes, lies.elements, state, seen, true});
    return false;
  }

  bool looks_ = false, takes_ = false, sketches_ = false;
  Object layout_of_, look_;
  SeenSlots slots_;
  PyTypeObject* seen_type_ = nullptr;
  Signs signs_{};
  int64_t era_ = 0, num_layouts_ = 0;
  std::string key_;
  InOrder<Lies> layouts_;
  std::unordered_map<const void*, Memory> memories_;
  std::unordered_map<const void*, Carried> carried_, to_carry_;
  std::vector<PyObject*> held_;
  std::vector<float> buffer_;
  std::vector<uint8_t> bits_;
};

static Storages* storages = new Storages;

}  // namespace jumar
