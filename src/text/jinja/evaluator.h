// Runs a parsed template.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace plait::jinja {

using Variables = std::unordered_map<std::string, Value>;

// One rendering. The template must outlive it. Errors: kInvalidArgument with origin and line.
class Evaluator {
 public:
  Evaluator(Runtime& runtime, Variables globals);
  MarkedText render(const Body& body);

 private:
  struct Scope {
    Variables variables;
    Scope* outer = nullptr;
  };
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class Nest;

  Flow run(const Body& body, Scope& scope, MarkedText& out);
  Flow run_statement(const Stmt& stmt, Scope& scope, MarkedText& out);
  Flow run_if(const Stmt& stmt, Scope& scope, MarkedText& out);
  void run_for(const Stmt& stmt, Scope& scope, MarkedText& out);
  void run_set_item(const Stmt& stmt, Scope& scope);
  void run_set_block(const Stmt& stmt, Scope& scope);
  void assign(const std::vector<std::string>& names, const Value& value, Scope& scope);
  void write(const MarkedText& text, MarkedText& out);
  MarkedText body_text(const Body& body, Scope& scope);

  Value evaluate(const Expr& expr, Scope& scope);
  Value evaluate_or_undefined(const ExprPtr& expr, Scope& scope);
  Value look_up(const std::string& name, Scope& scope);
  Value evaluate_dict(const Expr& expr, Scope& scope);
  Value evaluate_slice(const Expr& expr, Scope& scope);
  Value evaluate_call(const Expr& expr, Scope& scope);
  Value evaluate_binary(const Expr& expr, Scope& scope);
  Value evaluate_compare(const Expr& expr, Scope& scope);
  Value evaluate_negate(const Expr& expr, Scope& scope);
  std::vector<Value> evaluate_parts(const Expr& expr, size_t first, Scope& scope);
  Arguments evaluate_arguments(const Expr& expr, Scope& scope);
  // A chain of filters; `input` stands for the innermost null input.
  Value apply_chain(const Expr& filter, const Value& input, Scope& scope);
  Value call_macro(const Macro& macro, const Arguments& arguments);

  Runtime* runtime_;
  Scope globals_;  // what the caller gave
  Scope top_;      // what the template set
  int64_t depth_ = 0;
};

// Jinja's and HF's global functions. Null if there is none of that name.
using Function = Value (*)(Runtime& runtime, const Arguments& arguments);
Function find_function(const std::string& name);

// + - * / // % ** of numbers, texts and lists, and ~. Errors: through `runtime`.
Value apply_operator(Runtime& runtime, const std::string& name, const Value& left,
                     const Value& right);

}  // namespace plait::jinja
