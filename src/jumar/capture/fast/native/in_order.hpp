// Values by key for look-ups that come in about the same order step after step: what followed the last one before is
// tried ahead of the hash table, whose chains are cold by then.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>

namespace jumar {

template <class Value>
class InOrder {
  struct Item {
    Value value;
    std::pair<const std::string, Item>* next = nullptr;
  };
  using Node = std::pair<const std::string, Item>;

 public:
  // Null for a key that is not there. Values stay where they are until `clear`.
  Value* find(const std::string& key) {
    if (last_) {
      if (last_->first == key) return &last_->second.value;
      Node* next = last_->second.next;
      if (next && next->first == key) return &(last_ = next)->second.value;
    }
    const auto known = items_.find(key);
    return known == items_.end() ? nullptr : reached(&*known);
  }

  // The value at a key, and whether it is the one that was given.
  std::pair<Value*, bool> emplace(std::string key, Value value) {
    const auto [place, is_new] = items_.emplace(std::move(key), Item{std::move(value)});
    return {reached(&*place), is_new};
  }

  template <class Do>
  void clear(Do&& drop) {
    for (auto& [_, item] : items_) drop(item.value);
    items_.clear();
    last_ = nullptr;
  }

  size_t size() const { return items_.size(); }

 private:
  Value* reached(Node* node) {
    if (last_) last_->second.next = node;
    last_ = node;
    return &node->second.value;
  }

  std::unordered_map<std::string, Item> items_;
  Node* last_ = nullptr;
};

}  // namespace jumar
