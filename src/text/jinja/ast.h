// A parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace plait::jinja {

enum class ExprKind : uint8_t {
  kLiteral,      // value
  kName,         // name
  kList,         // parts
  kTuple,        // parts
  kDict,         // parts: key, value, key, value, ...
  kAttribute,    // parts[0].name
  kItem,         // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1] : parts[2] : parts[3]]; the last three may be null
  kCall,         // parts[0](parts[1...], keywords)
  kFilter,       // parts[0] | name(parts[1...], keywords)
  kTest,         // parts[0] is name(parts[1...])
  kNegate,       // -parts[0]
  kNot,          // not parts[0]
  kAnd,          // parts[0] and parts[1]
  kOr,           // parts[0] or parts[1]
  kBinary,       // parts[0] name parts[1]: + - * / // % ** ~
  kCompare,      // parts[0] operators[0] parts[1] operators[1] parts[2] ...
  kConditional,  // parts[0] if parts[1] else parts[2]; the last may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  int64_t line = 0;
  std::string name;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  std::vector<std::string> operators;
};

enum class StmtKind : uint8_t {
  kText,         // text
  kPrint,        // expr
  kIf,           // branches; body is else
  kFor,          // for names in expr if filter: body; otherwise
  kSet,          // names = expr
  kSetItem,      // names[0].names[1] = expr
  kSetBlock,     // names[0] = body as text
  kMacro,        // macro
  kFilterBlock,  // expr applied to body: its innermost input is null
  kGroup,        // body
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Macro {
  std::string name;
  std::vector<std::string> params;
  std::vector<ExprPtr> defaults;  // of the last params
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int64_t line = 0;
  Value text;
  std::vector<std::string> names;
  ExprPtr expr;
  ExprPtr filter;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
  std::unique_ptr<Macro> macro;
};

}  // namespace plait::jinja
