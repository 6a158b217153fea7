#include "text/jinja/parser.h"

#include <initializer_list>
#include <utility>

#include "text/jinja/expr_parser.h"
#include "text/jinja/lexer.h"
#include "text/jinja/token_stream.h"

namespace plait::jinja {
namespace {

constexpr int64_t kStatementDepthMax = 50;  // of statements

class Parser {
 public:
  Parser(const std::string& source, const std::string& origin)
      : stream_(tokenize(source, origin), origin), exprs_(stream_) {}

  Body run() {
    Body body = parse_body({});
    if (!stream_.is_kind(TokenKind::kEnd)) {
      stream_.fail("unexpected " + stream_.shown());
    }
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  std::unique_ptr<Stmt> make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = stream_.line();
    return stmt;
  }

  // Statements up to {% NAME of `ends`, whose name is then the current token.
  Body parse_body(const Names& ends) {
    if (++depth_ > kStatementDepthMax) {
      stream_.fail(fmt::format("statements nest deeper than {} levels", kStatementDepthMax));
    }
    Body body;
    for (;;) {
      if (stream_.is_kind(TokenKind::kText)) {
        auto stmt = make(StmtKind::kText);
        stmt->text = Value::text(stream_.take().text);
        body.push_back(std::move(stmt));
      } else if (stream_.is_kind(TokenKind::kPrint)) {
        stream_.take();
        auto stmt = make(StmtKind::kPrint);
        stmt->expr = exprs_.parse_tuple(true);
        stream_.expect_kind(TokenKind::kPrintEnd, "}}");
        body.push_back(std::move(stmt));
      } else if (stream_.is_kind(TokenKind::kBlock)) {
        stream_.take();
        if (is_end(ends)) {
          --depth_;
          return body;
        }
        body.push_back(parse_statement());
      } else {
        if (ends.size() > 0) {
          stream_.fail(fmt::format("{{% {} %}} is missing", *(ends.end() - 1)));
        }
        --depth_;
        return body;
      }
    }
  }

  bool is_end(const Names& ends) const {
    for (const std::string_view name : ends) {
      if (stream_.is_name(name)) {
        return true;
      }
    }
    return false;
  }

  void end_block(std::string_view name) {
    stream_.expect_name(name);
    stream_.expect_kind(TokenKind::kBlockEnd, "%}");
  }

  std::unique_ptr<Stmt> parse_statement() {
    const std::string name =
        stream_.is_kind(TokenKind::kName) ? stream_.current().text : std::string();
    if (name == "if") {
      return parse_if();
    }
    if (name == "for") {
      return parse_for();
    }
    if (name == "set") {
      return parse_set();
    }
    if (name == "macro") {
      return parse_macro();
    }
    if (name == "filter") {
      return parse_filter_block();
    }
    if (name == "generation") {  // HF: marks the assistant's text for training
      auto stmt = make(StmtKind::kGroup);
      stream_.take();
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      stmt->body = parse_body({"endgeneration"});
      end_block("endgeneration");
      return stmt;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) {
        stream_.fail("'" + name + "' outside of a loop");
      }
      auto stmt = make(name == "break" ? StmtKind::kBreak : StmtKind::kContinue);
      stream_.take();
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      return stmt;
    }
    for (const std::string_view known :
         {"block", "extends", "include", "import", "from", "call", "with", "autoescape", "do"}) {
      if (name == known) {
        stream_.refuse("the statement '" + name + "'");
      }
    }
    stream_.fail("a statement is needed instead of " + stream_.shown());
  }

  std::unique_ptr<Stmt> parse_if() {
    auto stmt = make(StmtKind::kIf);
    while (stream_.take_name("if") || stream_.take_name("elif")) {
      Branch branch;
      branch.condition = exprs_.parse_tuple(false);
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      branch.body = parse_body({"elif", "else", "endif"});
      stmt->branches.push_back(std::move(branch));
    }
    if (stream_.take_name("else")) {
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      stmt->body = parse_body({"endif"});
    }
    end_block("endif");
    return stmt;
  }

  // a, b, ... with or without parentheses.
  std::vector<std::string> parse_targets() {
    const bool parenthesised = stream_.take_operator("(");
    std::vector<std::string> names;
    do {
      if (!names.empty() && !stream_.is_kind(TokenKind::kName)) {
        break;
      }
      if (is_constant(stream_.current().text)) {
        stream_.fail("cannot assign to " + stream_.shown());
      }
      names.push_back(stream_.expect_any_name());
    } while (stream_.take_operator(","));
    if (parenthesised) {
      stream_.expect_operator(")");
    }
    return names;
  }

  static bool is_constant(const std::string& name) {
    return name == "true" || name == "false" || name == "none" || name == "True" ||
           name == "False" || name == "None";
  }

  std::unique_ptr<Stmt> parse_for() {
    auto stmt = make(StmtKind::kFor);
    stream_.take();
    stmt->names = parse_targets();
    stream_.expect_name("in");
    stmt->expr = exprs_.parse_tuple(false);
    if (stream_.take_name("if")) {
      stmt->filter = exprs_.parse_expression();
    }
    if (stream_.is_name("recursive")) {
      stream_.refuse("a recursive loop");
    }
    stream_.expect_kind(TokenKind::kBlockEnd, "%}");
    ++loops_;
    stmt->body = parse_body({"else", "endfor"});
    --loops_;
    if (stream_.take_name("else")) {
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      stmt->otherwise = parse_body({"endfor"});
    }
    end_block("endfor");
    return stmt;
  }

  std::unique_ptr<Stmt> parse_set() {
    auto stmt = make(StmtKind::kSet);
    stream_.take();
    stmt->names = parse_targets();
    if (stmt->names.size() == 1 && stream_.take_operator(".")) {
      stmt->kind = StmtKind::kSetItem;
      stmt->names.push_back(stream_.expect_any_name());
    }
    if (stream_.take_operator("=")) {
      stmt->expr = exprs_.parse_tuple(true);
      stream_.expect_kind(TokenKind::kBlockEnd, "%}");
      return stmt;
    }
    if (stmt->kind != StmtKind::kSet || stmt->names.size() != 1) {
      stream_.fail("'=' is needed instead of " + stream_.shown());
    }
    stmt->kind = StmtKind::kSetBlock;
    if (stream_.is_operator("|")) {
      stmt->filter = exprs_.parse_filter_chain(nullptr, stream_.take_operator("|"));
    }
    stream_.expect_kind(TokenKind::kBlockEnd, "%}");
    stmt->body = parse_body({"endset"});
    end_block("endset");
    return stmt;
  }

  std::unique_ptr<Stmt> parse_macro() {
    auto stmt = make(StmtKind::kMacro);
    stream_.take();
    stmt->macro = std::make_unique<Macro>();
    stmt->macro->name = stream_.expect_any_name();
    stream_.expect_operator("(");
    while (!stream_.is_operator(")")) {
      stmt->macro->params.push_back(stream_.expect_any_name());
      if (stream_.take_operator("=")) {
        stmt->macro->defaults.push_back(exprs_.parse_expression());
      } else if (!stmt->macro->defaults.empty()) {
        stream_.fail("a parameter without a default follows one with a default");
      }
      if (!stream_.take_operator(",")) {
        break;
      }
    }
    stream_.expect_operator(")");
    stream_.expect_kind(TokenKind::kBlockEnd, "%}");
    const int64_t outer_loops = std::exchange(loops_, 0);
    stmt->macro->body = parse_body({"endmacro"});
    loops_ = outer_loops;
    end_block("endmacro");
    return stmt;
  }

  std::unique_ptr<Stmt> parse_filter_block() {
    auto stmt = make(StmtKind::kFilterBlock);
    stream_.take();
    stmt->expr = exprs_.parse_filter_chain(nullptr, true);
    stream_.expect_kind(TokenKind::kBlockEnd, "%}");
    stmt->body = parse_body({"endfilter"});
    end_block("endfilter");
    return stmt;
  }

  TokenStream stream_;
  ExprParser exprs_;
  int64_t depth_ = 0;
  int64_t loops_ = 0;
};

}  // namespace

Body parse(const std::string& source, const std::string& origin) {
  return Parser(source, origin).run();
}

}  // namespace plait::jinja
