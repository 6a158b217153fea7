// The values of a template, with Python's meaning of truth, equality and text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/jinja/marked_text.h"

namespace plait::jinja {

class Value;
struct Macro;  // a statement, owned by the template

struct Undefined {
  std::string reason;  // what an operation on it says
};
struct None {};

// Values nest at most this deep, so that walking and freeing them may recurse. Errors:
// kInvalidArgument where a value is put into another.
inline constexpr int64_t kValueDepthMax = 160;

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int64_t depth = 1;
};

// In order of insertion. Text keys are found by hash, others one by one.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  const Value* find(const Value& key) const;
  const Value* find(const std::string& key) const;
  void set(const Value& key, Value value);
  const std::vector<Entry>& entries() const { return entries_; }

  bool is_namespace = false;
  int64_t depth() const { return depth_; }

 private:
  int64_t depth_ = 1;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

// The variable `loop`.
struct Loop {
  std::shared_ptr<const List> items;
  int64_t index = 0;                     // from 0
  std::shared_ptr<const Value> changed;  // what loop.changed saw last
};

struct Callable {
  std::string name;                       // of a function, or of a method of `receiver`
  std::shared_ptr<const Value> receiver;  // null: a function
  const Macro* macro = nullptr;
};

class Value {
 public:
  using TextPtr = std::shared_ptr<const MarkedText>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<Dict>;  // changed only through set() of a namespace
  using LoopPtr = std::shared_ptr<Loop>;
  using CallablePtr = std::shared_ptr<const Callable>;

  Value() : data_(Undefined{}) {}
  static Value undefined(std::string reason) { return Value(Data(Undefined{std::move(reason)})); }
  static Value none() { return Value(Data(None{})); }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(int64_t value) { return Value(Data(value)); }
  static Value number(double value) { return Value(Data(value)); }
  static Value text(MarkedText text) {
    return Value(Data(std::make_shared<const MarkedText>(std::move(text))));
  }
  static Value text(std::string bytes) { return text(MarkedText(std::move(bytes))); }
  static Value list(std::vector<Value> items, bool is_tuple = false);
  static Value dict(Dict dict);
  static Value loop(LoopPtr loop) { return Value(Data(std::move(loop))); }
  static Value callable(Callable callable);

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  const MarkedText* as_text() const;
  const List* as_list() const;
  Dict* as_dict() const;
  // An int, or a bool as Python counts it.
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_number() const;

  bool truth() const;
  // Levels of lists and dicts. What could close a cycle or hide a level (a namespace, loop, a
  // function) counts as the most there may be, so that it cannot be put into another value.
  int64_t depth() const;
  // "str", "list", ... as Python names the type.
  const char* type_name() const;

 private:
  using Data = std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr,
                            LoopPtr, CallablePtr>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

bool equal(const Value& a, const Value& b);
// Python's str(): what {{ }} writes; an undefined value is empty.
MarkedText to_text(const Value& value);
// Strings come from a user if `from_user`.
Value from_json(const Json& json, bool from_user);

struct JsonStyle {
  int64_t indent = -1;  // < 0: one line
  bool sort_keys = false;
};
// json.dumps with ensure_ascii=False. All of it is the user's if a string in it is. Throws
// std::invalid_argument for a value that JSON does not have.
MarkedText to_json_text(const Value& value, const JsonStyle& style);

// repr() of a float.
std::string float_text(double value);

}  // namespace plait::jinja
