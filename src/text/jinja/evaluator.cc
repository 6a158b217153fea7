#include "text/jinja/evaluator.h"

#include <utility>

namespace plait::jinja {

class Evaluator::Nest {
 public:
  explicit Nest(Evaluator& evaluator) : evaluator_(&evaluator) {
    if (++evaluator_->depth_ > evaluator_->runtime_->limits().depth) {
      --evaluator_->depth_;
      evaluator_->runtime_->fail(fmt::format("evaluation nests deeper than {} levels",
                                             evaluator_->runtime_->limits().depth));
    }
  }
  ~Nest() { --evaluator_->depth_; }
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;

 private:
  Evaluator* evaluator_;
};

Evaluator::Evaluator(Runtime& runtime, Variables globals) : runtime_(&runtime) {
  globals_.variables = std::move(globals);
  top_.outer = &globals_;
}

MarkedText Evaluator::render(const Body& body) {
  MarkedText out;
  run(body, top_, out);
  return out;
}

Evaluator::Flow Evaluator::run(const Body& body, Scope& scope, MarkedText& out) {
  for (const auto& stmt : body) {
    const Flow flow = run_statement(*stmt, scope, out);
    if (flow != Flow::kNext) {
      return flow;
    }
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const Stmt& stmt, Scope& scope, MarkedText& out) {
  const Nest nest(*this);
  runtime_->line = stmt.line;
  runtime_->charge(1);
  switch (stmt.kind) {
    case StmtKind::kText:
      write(*stmt.text.as_text(), out);
      break;
    case StmtKind::kPrint:
      write(to_text(evaluate(*stmt.expr, scope)), out);
      break;
    case StmtKind::kIf:
      return run_if(stmt, scope, out);
    case StmtKind::kFor:
      run_for(stmt, scope, out);
      break;
    case StmtKind::kSet:
      assign(stmt.names, evaluate(*stmt.expr, scope), scope);
      break;
    case StmtKind::kSetItem:
      run_set_item(stmt, scope);
      break;
    case StmtKind::kSetBlock:
      run_set_block(stmt, scope);
      break;
    case StmtKind::kMacro:
      scope.variables[stmt.macro->name] =
          Value::callable({stmt.macro->name, nullptr, stmt.macro.get()});
      break;
    case StmtKind::kFilterBlock:
      write(to_text(apply_chain(*stmt.expr, Value::text(body_text(stmt.body, scope)), scope)), out);
      break;
    case StmtKind::kGroup:
      return run(stmt.body, scope, out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_if(const Stmt& stmt, Scope& scope, MarkedText& out) {
  for (const Branch& branch : stmt.branches) {
    if (evaluate(*branch.condition, scope).truth()) {
      return run(branch.body, scope, out);
    }
  }
  return run(stmt.body, scope, out);
}

void Evaluator::run_for(const Stmt& stmt, Scope& scope, MarkedText& out) {
  std::vector<Value> items = items_of(*runtime_, evaluate(*stmt.expr, scope));
  if (stmt.filter) {
    std::vector<Value> kept;
    for (Value& item : items) {
      Scope inner;
      inner.outer = &scope;
      assign(stmt.names, item, inner);
      if (evaluate(*stmt.filter, inner).truth()) {
        kept.push_back(std::move(item));
      }
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    Scope inner;
    inner.outer = &scope;
    run(stmt.otherwise, inner, out);
    return;
  }
  auto loop = std::make_shared<Loop>();
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  loop->items = list;
  const auto count = static_cast<int64_t>(list->items.size());
  for (loop->index = 0; loop->index < count; ++loop->index) {
    Scope inner;
    inner.outer = &scope;
    inner.variables["loop"] = Value::loop(loop);
    assign(stmt.names, list->items[static_cast<size_t>(loop->index)], inner);
    if (run(stmt.body, inner, out) == Flow::kBreak) {
      break;
    }
  }
}

void Evaluator::assign(const std::vector<std::string>& names, const Value& value, Scope& scope) {
  if (names.size() == 1) {
    scope.variables[names.front()] = value;
    return;
  }
  const std::vector<Value> items = items_of(*runtime_, value);
  if (items.size() != names.size()) {
    runtime_->fail(
        fmt::format("{} values cannot be unpacked into {} names", items.size(), names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    scope.variables[names[i]] = items[i];
  }
}

void Evaluator::run_set_item(const Stmt& stmt, Scope& scope) {
  const Value target = look_up(stmt.names[0], scope);
  Dict* dict = target.as_dict();
  if (dict == nullptr || !dict->is_namespace) {
    runtime_->fail(fmt::format("cannot assign to attribute '{}' of '{}', which is no namespace",
                               stmt.names[1], stmt.names[0]));
  }
  dict->set(Value::text(stmt.names[1]), evaluate(*stmt.expr, scope));
}

void Evaluator::run_set_block(const Stmt& stmt, Scope& scope) {
  Value value = Value::text(body_text(stmt.body, scope));
  if (stmt.filter) {
    value = apply_chain(*stmt.filter, value, scope);
  }
  scope.variables[stmt.names.front()] = std::move(value);
}

MarkedText Evaluator::body_text(const Body& body, Scope& scope) {
  MarkedText text;
  Scope inner;
  inner.outer = &scope;
  run(body, inner, text);
  return text;
}

void Evaluator::write(const MarkedText& text, MarkedText& out) {
  runtime_->charge_text(text.size());
  out.append(text);
  if (out.size() > static_cast<size_t>(runtime_->limits().text_bytes)) {
    runtime_->fail(fmt::format("the output grows beyond {} bytes", runtime_->limits().text_bytes));
  }
}

Value Evaluator::evaluate_or_undefined(const ExprPtr& expr, Scope& scope) {
  return expr ? evaluate(*expr, scope) : Value();
}

Value Evaluator::evaluate(const Expr& expr, Scope& scope) {
  const Nest nest(*this);
  runtime_->line = expr.line;
  runtime_->charge(1);
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.value;
    case ExprKind::kName:
      return look_up(expr.name, scope);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return Value::list(evaluate_parts(expr, 0, scope), expr.kind == ExprKind::kTuple);
    case ExprKind::kDict:
      return evaluate_dict(expr, scope);
    case ExprKind::kAttribute:
      return get_attribute(*runtime_, evaluate(*expr.parts[0], scope), expr.name);
    case ExprKind::kItem: {
      const Value object = evaluate(*expr.parts[0], scope);
      return get_item(*runtime_, object, evaluate(*expr.parts[1], scope));
    }
    case ExprKind::kSlice:
      return evaluate_slice(expr, scope);
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
      return apply_chain(expr, Value(), scope);
    case ExprKind::kTest: {
      const Value input = evaluate(*expr.parts[0], scope);
      return Value::boolean(
          apply_test(*runtime_, expr.name, input, evaluate_arguments(expr, scope)));
    }
    case ExprKind::kNegate:
      return evaluate_negate(expr, scope);
    case ExprKind::kNot:
      return Value::boolean(!evaluate(*expr.parts[0], scope).truth());
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = evaluate(*expr.parts[0], scope);
      return left.truth() == (expr.kind == ExprKind::kOr) ? left : evaluate(*expr.parts[1], scope);
    }
    case ExprKind::kBinary:
      return evaluate_binary(expr, scope);
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kConditional:
      return evaluate(*expr.parts[1], scope).truth() ? evaluate(*expr.parts[0], scope)
                                                     : evaluate_or_undefined(expr.parts[2], scope);
  }
  return {};
}

Value Evaluator::look_up(const std::string& name, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->variables.find(name);
    if (found != at->variables.end()) {
      return found->second;
    }
  }
  if (find_function(name) != nullptr) {
    return Value::callable({name, nullptr, nullptr});
  }
  return Value::undefined("'" + name + "' is undefined");
}

std::vector<Value> Evaluator::evaluate_parts(const Expr& expr, size_t first, Scope& scope) {
  std::vector<Value> values;
  for (size_t i = first; i < expr.parts.size(); ++i) {
    values.push_back(evaluate(*expr.parts[i], scope));
  }
  return values;
}

Arguments Evaluator::evaluate_arguments(const Expr& expr, Scope& scope) {
  Arguments arguments;
  arguments.positional = evaluate_parts(expr, 1, scope);
  for (const auto& [name, value] : expr.keywords) {
    arguments.keywords.emplace_back(name, evaluate(*value, scope));
  }
  runtime_->line = expr.line;
  return arguments;
}

Value Evaluator::evaluate_dict(const Expr& expr, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    const Value key = evaluate(*expr.parts[i], scope);
    dict.set(key, evaluate(*expr.parts[i + 1], scope));
  }
  return Value::dict(std::move(dict));
}

Value Evaluator::evaluate_slice(const Expr& expr, Scope& scope) {
  const Value object = evaluate(*expr.parts[0], scope);
  const auto bound = [&](const ExprPtr& part) -> std::optional<int64_t> {
    const Value value = part ? evaluate(*part, scope) : Value::none();
    return value.is_none()
               ? std::nullopt
               : std::optional<int64_t>(integer_argument(*runtime_, value, "a slice's bound"));
  };
  const SliceBounds bounds{bound(expr.parts[1]), bound(expr.parts[2]), bound(expr.parts[3])};
  runtime_->line = expr.line;
  return get_slice(*runtime_, object, bounds);
}

Value Evaluator::evaluate_call(const Expr& expr, Scope& scope) {
  const Value callee = evaluate(*expr.parts[0], scope);
  const Arguments arguments = evaluate_arguments(expr, scope);
  const auto* callable = callee.get<Value::CallablePtr>();
  if (callable == nullptr) {
    require_defined(*runtime_, callee);
    runtime_->fail(fmt::format("'{}' object is not callable", callee.type_name()));
  }
  if ((*callable)->macro != nullptr) {
    return call_macro(*(*callable)->macro, arguments);
  }
  if ((*callable)->receiver) {
    return call_method(*runtime_, **callable, arguments);
  }
  return find_function((*callable)->name)(*runtime_, arguments);
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  const int64_t line = runtime_->line;
  arguments.check(*runtime_, "the macro '" + macro.name + "'", macro.params);
  Scope scope;
  scope.outer = &top_;
  const size_t first_default = macro.params.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.params.size(); ++i) {
    const std::string& name = macro.params[i];
    const Value* given = arguments.find(i, name.c_str());
    if (given != nullptr) {
      scope.variables[name] = *given;
    } else if (i >= first_default) {
      scope.variables[name] = evaluate(*macro.defaults[i - first_default], scope);
    } else {
      scope.variables[name] =
          Value::undefined(fmt::format("parameter '{}' was not provided", name));
    }
  }
  MarkedText text;
  run(macro.body, scope, text);
  runtime_->line = line;
  return Value::text(std::move(text));
}

Value Evaluator::apply_chain(const Expr& filter, const Value& input, Scope& scope) {
  const Expr* inner = filter.parts[0].get();
  Value value = inner == nullptr                   ? input
                : inner->kind == ExprKind::kFilter ? apply_chain(*inner, input, scope)
                                                   : evaluate(*inner, scope);
  const Arguments arguments = evaluate_arguments(filter, scope);
  return apply_filter(*runtime_, filter.name, value, arguments);
}

Value Evaluator::evaluate_binary(const Expr& expr, Scope& scope) {
  const Value left = evaluate(*expr.parts[0], scope);
  const Value right = evaluate(*expr.parts[1], scope);
  runtime_->line = expr.line;
  return apply_operator(*runtime_, expr.name, left, right);
}

Value Evaluator::evaluate_negate(const Expr& expr, Scope& scope) {
  const Value value = evaluate(*expr.parts[0], scope);
  require_defined(*runtime_, value);
  if (value.as_integer()) {
    return apply_operator(*runtime_, "-", Value::integer(0), value);
  }
  if (!value.as_number()) {
    runtime_->fail(fmt::format("bad operand type for unary -: '{}'", value.type_name()));
  }
  return Value::number(-*value.as_number());
}

Value Evaluator::evaluate_compare(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.parts[0], scope);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.parts[i + 1], scope);
    runtime_->line = expr.line;
    const std::string& name = expr.operators[i];
    bool holds = false;
    if (name == "==" || name == "!=") {
      holds = equal(left, right) == (name == "==");
    } else if (name == "in" || name == "not in") {
      holds = contains(*runtime_, right, left) == (name == "in");
    } else {
      const int order = compare(*runtime_, left, right);
      holds = name == "<"    ? order < 0
              : name == "<=" ? order <= 0
              : name == ">"  ? order > 0
                             : order >= 0;
    }
    if (!holds) {
      return Value::boolean(false);
    }
    left = std::move(right);
  }
  return Value::boolean(true);
}

}  // namespace plait::jinja
