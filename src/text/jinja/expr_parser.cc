#include "text/jinja/expr_parser.h"

#include <charconv>

#include "text/jinja/parser.h"

namespace plait::jinja {
namespace {

constexpr int64_t kExpressionDepthMax = 60;
// Of one expression; bounds the depth that chains of operators give the tree.
constexpr int64_t kLinksMax = 400;

bool is_one_of(const Token& token, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (token.text == name) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ExprParser::enter() {
  if (++depth_ > kExpressionDepthMax) {
    --depth_;
    stream_->fail(fmt::format("an expression nests deeper than {} levels", kExpressionDepthMax));
  }
  if (depth_ == 1) {
    links_ = 0;
  }
}

void ExprParser::count_link() {
  if (++links_ > kLinksMax) {
    stream_->fail(fmt::format("an expression has more than {} operators", kLinksMax));
  }
}

ExprPtr ExprParser::make(ExprKind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = stream_->line();
  return expr;
}

ExprPtr ExprParser::join(ExprKind kind, ExprPtr left, ExprPtr right) const {
  ExprPtr expr = make(kind);
  expr->line = left->line;
  expr->parts.push_back(std::move(left));
  expr->parts.push_back(std::move(right));
  return expr;
}

ExprPtr ExprParser::parse_tuple(bool with_conditional) {
  const Nest nest(*this);
  ExprPtr first = with_conditional ? parse_conditional() : parse_or();
  if (!stream_->is_operator(",")) {
    return first;
  }
  ExprPtr tuple = make(ExprKind::kTuple);
  tuple->parts.push_back(std::move(first));
  while (stream_->take_operator(",")) {
    const bool ends = stream_->is_kind(TokenKind::kBlockEnd) ||
                      stream_->is_kind(TokenKind::kPrintEnd) || stream_->is_operator(")") ||
                      stream_->is_name("in");
    if (ends) {
      break;
    }
    tuple->parts.push_back(with_conditional ? parse_conditional() : parse_or());
  }
  return tuple;
}

ExprPtr ExprParser::parse_conditional() {
  const Nest nest(*this);
  ExprPtr expr = parse_or();
  while (stream_->take_name("if")) {
    count_link();
    ExprPtr condition = parse_or();
    ExprPtr otherwise = stream_->take_name("else") ? parse_conditional() : nullptr;
    expr = join(ExprKind::kConditional, std::move(expr), std::move(condition));
    expr->parts.push_back(std::move(otherwise));
  }
  return expr;
}

ExprPtr ExprParser::parse_or() {
  ExprPtr expr = parse_and();
  while (stream_->take_name("or")) {
    count_link();
    expr = join(ExprKind::kOr, std::move(expr), parse_and());
  }
  return expr;
}

ExprPtr ExprParser::parse_and() {
  ExprPtr expr = parse_not();
  while (stream_->take_name("and")) {
    count_link();
    expr = join(ExprKind::kAnd, std::move(expr), parse_not());
  }
  return expr;
}

ExprPtr ExprParser::parse_not() {
  if (!stream_->is_name("not")) {
    return parse_compare();
  }
  const Nest nest(*this);
  ExprPtr expr = make(ExprKind::kNot);
  stream_->take();
  expr->parts.push_back(parse_not());
  return expr;
}

ExprPtr ExprParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr compare;
  for (;;) {
    std::string name;
    if (stream_->is_kind(TokenKind::kOperator) &&
        is_one_of(stream_->current(), {"==", "!=", "<", "<=", ">", ">="})) {
      name = stream_->take().text;
    } else if (stream_->take_name("in")) {
      name = "in";
    } else if (stream_->is_name("not") && stream_->ahead().text == "in") {
      stream_->take();
      stream_->take();
      name = "not in";
    } else {
      break;
    }
    count_link();
    if (!compare) {
      compare = make(ExprKind::kCompare);
      compare->parts.push_back(std::move(first));
    }
    compare->operators.push_back(name);
    compare->parts.push_back(parse_sum());
  }
  return compare ? std::move(compare) : std::move(first);
}

ExprPtr ExprParser::parse_sum() {
  ExprPtr expr = parse_concat();
  while (stream_->is_operator("+") || stream_->is_operator("-")) {
    count_link();
    const std::string name = stream_->take().text;
    expr = join(ExprKind::kBinary, std::move(expr), parse_concat());
    expr->name = name;
  }
  return expr;
}

ExprPtr ExprParser::parse_concat() {
  ExprPtr expr = parse_product();
  while (stream_->take_operator("~")) {
    count_link();
    expr = join(ExprKind::kBinary, std::move(expr), parse_product());
    expr->name = "~";
  }
  return expr;
}

ExprPtr ExprParser::parse_product() {
  ExprPtr expr = parse_power();
  while (stream_->is_operator("*") || stream_->is_operator("/") || stream_->is_operator("//") ||
         stream_->is_operator("%")) {
    count_link();
    const std::string name = stream_->take().text;
    expr = join(ExprKind::kBinary, std::move(expr), parse_power());
    expr->name = name;
  }
  return expr;
}

ExprPtr ExprParser::parse_power() {
  ExprPtr expr = parse_unary(true);
  while (stream_->take_operator("**")) {
    count_link();
    expr = join(ExprKind::kBinary, std::move(expr), parse_unary(true));
    expr->name = "**";
  }
  return expr;
}

ExprPtr ExprParser::parse_unary(bool with_filter) {
  const Nest nest(*this);
  ExprPtr expr;
  if (stream_->is_operator("-")) {
    expr = make(ExprKind::kNegate);
    stream_->take();
    expr->parts.push_back(parse_unary(false));
  } else if (stream_->take_operator("+")) {
    expr = parse_unary(false);
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filter ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr ExprParser::parse_primary() {
  ExprPtr expr = make(ExprKind::kLiteral);
  switch (stream_->current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString: {
      std::string text;
      while (stream_->is_kind(TokenKind::kString)) {
        text += stream_->take().text;
      }
      expr->value = Value::text(std::move(text));
      return expr;
    }
    case TokenKind::kInteger: {
      const std::string digits = stream_->current().text;
      int64_t value = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (parsed.ec != std::errc()) {
        stream_->fail("the integer " + digits + " does not fit 64 bits");
      }
      stream_->take();
      expr->value = Value::integer(value);
      return expr;
    }
    case TokenKind::kFloat: {
      const std::string digits = stream_->take().text;
      double value = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      expr->value = Value::number(value);
      return expr;
    }
    default:
      break;
  }
  if (stream_->is_operator("(")) {
    return parse_parenthesised();
  }
  if (stream_->is_operator("[")) {
    return parse_list();
  }
  if (stream_->is_operator("{")) {
    return parse_dict();
  }
  stream_->fail("an expression is needed instead of " + stream_->shown());
}

ExprPtr ExprParser::parse_name() {
  ExprPtr expr = make(ExprKind::kLiteral);
  const std::string name = stream_->take().text;
  if (name == "true" || name == "True") {
    expr->value = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    expr->value = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    expr->value = Value::none();
  } else {
    expr->kind = ExprKind::kName;
    expr->name = name;
  }
  return expr;
}

ExprPtr ExprParser::parse_parenthesised() {
  stream_->expect_operator("(");
  if (stream_->is_operator(")")) {
    ExprPtr empty = make(ExprKind::kTuple);
    stream_->take();
    return empty;
  }
  ExprPtr expr = parse_tuple(true);
  stream_->expect_operator(")");
  return expr;
}

ExprPtr ExprParser::parse_list() {
  ExprPtr list = make(ExprKind::kList);
  stream_->expect_operator("[");
  while (!stream_->is_operator("]")) {
    list->parts.push_back(parse_expression());
    if (!stream_->take_operator(",")) {
      break;
    }
  }
  stream_->expect_operator("]");
  return list;
}

ExprPtr ExprParser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict);
  stream_->expect_operator("{");
  while (!stream_->is_operator("}")) {
    dict->parts.push_back(parse_expression());
    stream_->expect_operator(":");
    dict->parts.push_back(parse_expression());
    if (!stream_->take_operator(",")) {
      break;
    }
  }
  stream_->expect_operator("}");
  return dict;
}

ExprPtr ExprParser::parse_postfix(ExprPtr expr) {
  for (;;) {
    if (stream_->is_operator(".")) {
      expr = parse_attribute(std::move(expr));
    } else if (stream_->is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (stream_->is_operator("(")) {
      ExprPtr call = make(ExprKind::kCall);
      call->parts.push_back(std::move(expr));
      parse_arguments(*call);
      expr = std::move(call);
    } else {
      return expr;
    }
    count_link();
  }
}

ExprPtr ExprParser::parse_attribute(ExprPtr expr) {
  stream_->expect_operator(".");
  if (stream_->is_kind(TokenKind::kInteger)) {
    ExprPtr index = parse_primary();
    return join(ExprKind::kItem, std::move(expr), std::move(index));
  }
  ExprPtr attribute = make(ExprKind::kAttribute);
  attribute->name = stream_->expect_any_name();
  attribute->parts.push_back(std::move(expr));
  return attribute;
}

ExprPtr ExprParser::parse_subscript(ExprPtr expr) {
  stream_->expect_operator("[");
  std::vector<ExprPtr> bounds(1);
  if (!stream_->is_operator(":")) {
    bounds[0] = parse_expression();
  }
  while (bounds.size() < 3 && stream_->take_operator(":")) {
    const bool absent = stream_->is_operator("]") || stream_->is_operator(":");
    bounds.push_back(absent ? nullptr : parse_expression());
  }
  stream_->expect_operator("]");
  const bool is_slice = bounds.size() > 1;
  ExprPtr result = make(is_slice ? ExprKind::kSlice : ExprKind::kItem);
  bounds.resize(is_slice ? 3 : 1);
  result->parts.push_back(std::move(expr));
  for (ExprPtr& bound : bounds) {
    result->parts.push_back(std::move(bound));
  }
  return result;
}

ExprPtr ExprParser::parse_filters_and_tests(ExprPtr expr) {
  for (;;) {
    if (stream_->take_operator("|")) {
      expr = parse_filter(std::move(expr));
    } else if (stream_->take_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (stream_->is_operator("(")) {
      expr = parse_postfix(std::move(expr));
    } else {
      return expr;
    }
    count_link();
  }
}

ExprPtr ExprParser::parse_filter_chain(ExprPtr input, bool first_without_bar) {
  const Nest nest(*this);
  ExprPtr expr = first_without_bar ? parse_filter(std::move(input)) : std::move(input);
  while (stream_->take_operator("|")) {
    expr = parse_filter(std::move(expr));
    count_link();
  }
  return expr;
}

ExprPtr ExprParser::parse_filter(ExprPtr input) {
  ExprPtr filter = make(ExprKind::kFilter);
  if (stream_->is_kind(TokenKind::kName) && !is_filter(stream_->current().text)) {
    stream_->refuse("the filter '" + stream_->current().text + "'");
  }
  filter->name = stream_->expect_any_name();
  filter->parts.push_back(std::move(input));
  if (stream_->is_operator("(")) {
    parse_arguments(*filter);
  }
  return filter;
}

ExprPtr ExprParser::parse_test(ExprPtr input) {
  ExprPtr test = make(ExprKind::kTest);
  const bool negated = stream_->take_name("not");
  if (stream_->is_kind(TokenKind::kName) && !is_test(stream_->current().text)) {
    stream_->refuse("the test '" + stream_->current().text + "'");
  }
  test->name = stream_->expect_any_name();
  test->parts.push_back(std::move(input));
  const Token& next = stream_->current();
  const bool is_value = next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
                        next.kind == TokenKind::kFloat || stream_->is_operator("[") ||
                        stream_->is_operator("{") ||
                        (next.kind == TokenKind::kName &&
                         !is_one_of(next, {"else", "or", "and", "is", "if", "in", "not"}));
  if (stream_->is_operator("(")) {
    parse_arguments(*test);
  } else if (is_value) {
    ExprPtr argument = parse_primary();
    test->parts.push_back(parse_postfix(std::move(argument)));
  }
  if (!negated) {
    return test;
  }
  ExprPtr result = make(ExprKind::kNot);
  result->parts.push_back(std::move(test));
  return result;
}

void ExprParser::parse_arguments(Expr& call) {
  stream_->expect_operator("(");
  while (!stream_->is_operator(")")) {
    if (stream_->is_operator("*") || stream_->is_operator("**")) {
      stream_->refuse("an argument with '" + stream_->current().text + "'");
    }
    if (stream_->is_kind(TokenKind::kName) && stream_->ahead().kind == TokenKind::kOperator &&
        stream_->ahead().text == "=") {
      std::string name = stream_->take().text;
      stream_->take();
      call.keywords.emplace_back(std::move(name), parse_expression());
    } else if (!call.keywords.empty()) {
      stream_->fail("an argument without a name follows one with a name");
    } else {
      call.parts.push_back(parse_expression());
    }
    if (!stream_->take_operator(",")) {
      break;
    }
  }
  stream_->expect_operator(")");
}

}  // namespace plait::jinja
