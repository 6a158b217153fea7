// Parses expressions. Internal to jinja/.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace plait::jinja {

// Jinja's grammar, one function a level of precedence, loosest first.
class ExprParser {
 public:
  explicit ExprParser(TokenStream& stream) : stream_(&stream) {}

  ExprPtr parse_expression() { return parse_conditional(); }
  // One expression, or several with commas between them: a tuple. Without the inline `if` where a
  // statement has one of its own.
  ExprPtr parse_tuple(bool with_conditional);
  // The filters behind `input`, which may be null: that of {% filter %}.
  ExprPtr parse_filter_chain(ExprPtr input, bool first_without_bar);

 private:
  // Guards the recursion: the tree is walked and freed recursively too.
  class Nest {
   public:
    explicit Nest(ExprParser& parser) : parser_(&parser) { parser.enter(); }
    ~Nest() { --parser_->depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    ExprParser* parser_;
  };
  void enter();

  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_parenthesised();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_attribute(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_test(ExprPtr input);
  void parse_arguments(Expr& call);
  ExprPtr make(ExprKind kind) const;
  ExprPtr join(ExprKind kind, ExprPtr left, ExprPtr right) const;
  // Left-deep chains (a + b + c ...) nest the tree without recursion here.
  void count_link();

  TokenStream* stream_;
  int64_t depth_ = 0;
  int64_t links_ = 0;
};

}  // namespace plait::jinja
