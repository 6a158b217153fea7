#include "plan/readers/shell_syntax.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/readers/shell_lexer.h"

namespace plait {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& origin, int first_line)
      : lexer_(text, origin, first_line) {}

  ShellNodes parse() {
    ShellNodes nodes = parse_list({});
    if (lexer_.peek().kind != ShellToken::Kind::kEnd) {
      unexpected();
    }
    return nodes;
  }

 private:
  using Node = std::unique_ptr<ShellNode>;

  struct Depth {
    explicit Depth(Parser& owner) : parser(owner) {
      if (++parser.depth_ > kMaxShellDepth) {
        parser.lexer_.fail("nested too deeply to be read", parser.lexer_.line());
      }
    }
    ~Depth() { --parser.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& parser;
  };

  static Node make(ShellNode::Kind kind, int line) {
    auto node = std::make_unique<ShellNode>();
    node->kind = kind;
    node->line = line;
    return node;
  }
  [[noreturn]] void unexpected() {
    const ShellToken token = lexer_.next();
    if (token.kind == ShellToken::Kind::kEnd) {
      lexer_.fail("the script ends inside a construct (if, for, case, { or ()", lexer_.line());
    }
    const std::string shown = token.word.text == "\n" ? "line end" : "'" + token.word.text + "'";
    lexer_.fail(fmt::format("{} is not expected here", shown), token.word.line);
  }
  void expect_word(std::string_view text) {
    if (!lexer_.peek().is_word(text)) {
      unexpected();
    }
    lexer_.next();
  }
  void expect(std::string_view op) {
    if (!lexer_.peek().is(op)) {
      unexpected();
    }
    lexer_.next();
  }
  void skip_newlines() {
    while (lexer_.peek().is("\n") || lexer_.peek().is(";")) {
      const bool line_end = lexer_.next().is("\n");
      if (line_end) {
        lexer_.read_heredocs();
      }
    }
  }
  bool at_any(const std::vector<std::string_view>& words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return lexer_.peek().is_word(word) || lexer_.peek().is(word);
    });
  }

  ShellNodes parse_list(const std::vector<std::string_view>& ends);
  Node list_node(const std::vector<std::string_view>& ends);
  Node parse_and_or();
  Node parse_pipeline();
  Node parse_command();
  Node parse_if();
  Node parse_loop();
  Node parse_case();
  Node parse_parenthesis();
  Node parse_function(RawWord name);
  Node parse_simple();
  Node parse_test();
  void parse_redirects(ShellNode& node);
  bool parse_redirect(ShellNode& node);

  ShellLexer lexer_;
  int depth_ = 0;
};

ShellNodes Parser::parse_list(const std::vector<std::string_view>& ends) {
  const Depth depth(*this);
  ShellNodes nodes;
  skip_newlines();
  while (lexer_.peek().kind != ShellToken::Kind::kEnd && !at_any(ends)) {
    nodes.push_back(parse_and_or());
    if (lexer_.peek().is("&") || lexer_.peek().is(";")) {
      lexer_.next();
    } else if (!lexer_.peek().is("\n")) {
      break;
    }
    skip_newlines();
  }
  return nodes;
}

Parser::Node Parser::list_node(const std::vector<std::string_view>& ends) {
  Node node = make(ShellNode::Kind::kList, lexer_.peek().word.line);
  node->children = parse_list(ends);
  return node;
}

Parser::Node Parser::parse_and_or() {
  Node first = parse_pipeline();
  if (!lexer_.peek().is("&&") && !lexer_.peek().is("||")) {
    return first;
  }
  Node node = make(ShellNode::Kind::kAndOr, first->line);
  node->children.push_back(std::move(first));
  while (lexer_.peek().is("&&") || lexer_.peek().is("||")) {
    node->ops.push_back(lexer_.next().word.text);
    while (lexer_.peek().is("\n")) {
      lexer_.next();
      lexer_.read_heredocs();
    }
    node->children.push_back(parse_pipeline());
  }
  return node;
}

Parser::Node Parser::parse_pipeline() {
  if (lexer_.peek().is_word("!")) {
    Node node = make(ShellNode::Kind::kNot, lexer_.next().word.line);
    node->children.push_back(parse_pipeline());
    return node;
  }
  if (lexer_.peek().is_word("time")) {
    lexer_.next();
  }
  Node first = parse_command();
  if (!lexer_.peek().is("|") && !lexer_.peek().is("|&")) {
    return first;
  }
  Node node = make(ShellNode::Kind::kPipeline, first->line);
  node->children.push_back(std::move(first));
  while (lexer_.peek().is("|") || lexer_.peek().is("|&")) {
    lexer_.next();
    while (lexer_.peek().is("\n")) {
      lexer_.next();
      lexer_.read_heredocs();
    }
    node->children.push_back(parse_command());
  }
  return node;
}

Parser::Node Parser::parse_command() {
  const Depth depth(*this);
  const ShellToken& token = lexer_.peek();
  if (token.kind == ShellToken::Kind::kEnd) {
    unexpected();
  }
  Node node;
  if (token.is("(")) {
    node = parse_parenthesis();
  } else if (token.is_word("if")) {
    node = parse_if();
  } else if (token.is_word("for") || token.is_word("while") || token.is_word("until") ||
             token.is_word("select")) {
    node = parse_loop();
  } else if (token.is_word("case")) {
    node = parse_case();
  } else if (token.is_word("[[")) {
    node = parse_test();
  } else if (token.is_word("{")) {
    node = make(ShellNode::Kind::kGroup, lexer_.next().word.line);
    node->children.push_back(list_node({"}"}));
    expect_word("}");
  } else {
    static constexpr std::string_view kReserved[] = {"then", "fi",   "elif", "else", "do",
                                                     "done", "esac", "}",    "in"};
    for (const std::string_view word : kReserved) {
      if (token.is_word(word) && word != "in") {
        unexpected();
      }
    }
    return parse_simple();
  }
  parse_redirects(*node);
  return node;
}

Parser::Node Parser::parse_parenthesis() {
  const int line = lexer_.next().word.line;
  if (lexer_.arithmetic_follows()) {
    Node node = make(ShellNode::Kind::kArithmetic, line);
    node->words.push_back(lexer_.read_arithmetic());
    return node;
  }
  Node node = make(ShellNode::Kind::kGroup, line);
  node->is_subshell = true;
  node->children.push_back(list_node({")"}));
  expect(")");
  return node;
}

Parser::Node Parser::parse_if() {
  Node node = make(ShellNode::Kind::kIf, lexer_.next().word.line);
  while (true) {
    node->children.push_back(list_node({"then"}));
    expect_word("then");
    node->children.push_back(list_node({"elif", "else", "fi"}));
    if (lexer_.peek().is_word("elif")) {
      lexer_.next();
      continue;
    }
    if (lexer_.peek().is_word("else")) {
      lexer_.next();
      node->has_else = true;
      node->children.push_back(list_node({"fi"}));
    }
    expect_word("fi");
    return node;
  }
}

Parser::Node Parser::parse_loop() {
  Node node = make(ShellNode::Kind::kLoop, lexer_.peek().word.line);
  const std::string word = lexer_.next().word.text;
  node->is_for = word == "for" || word == "select";
  if (node->is_for && lexer_.peek().is("(")) {
    lexer_.next();
    if (!lexer_.arithmetic_follows()) {
      unexpected();
    }
    lexer_.read_arithmetic();
    node->words.push_back({"", node->line});  // the counter is unknown
  } else if (node->is_for) {
    if (lexer_.peek().kind != ShellToken::Kind::kWord) {
      unexpected();
    }
    node->words.push_back(lexer_.next().word);
    skip_newlines();
    if (lexer_.peek().is_word("in")) {
      lexer_.next();
      while (lexer_.peek().kind == ShellToken::Kind::kWord) {
        node->words.push_back(lexer_.next().word);
      }
    }
  } else {
    node->children.push_back(list_node({"do"}));
  }
  skip_newlines();
  expect_word("do");
  node->children.push_back(list_node({"done"}));
  expect_word("done");
  return node;
}

Parser::Node Parser::parse_case() {
  Node node = make(ShellNode::Kind::kCase, lexer_.next().word.line);
  if (lexer_.peek().kind != ShellToken::Kind::kWord) {
    unexpected();
  }
  node->words.push_back(lexer_.next().word);
  skip_newlines();
  expect_word("in");
  skip_newlines();
  while (!lexer_.peek().is_word("esac")) {
    if (lexer_.peek().is("(")) {
      lexer_.next();
    }
    std::vector<RawWord> patterns;
    do {
      if (lexer_.peek().is("|")) {
        lexer_.next();
      }
      if (lexer_.peek().kind != ShellToken::Kind::kWord) {
        unexpected();
      }
      patterns.push_back(lexer_.next().word);
    } while (lexer_.peek().is("|"));
    expect(")");
    node->patterns.push_back(std::move(patterns));
    node->children.push_back(list_node({";;", ";&", ";;&", "esac"}));
    if (!lexer_.peek().is_word("esac")) {
      lexer_.next();
    }
    skip_newlines();
  }
  lexer_.next();
  return node;
}

Parser::Node Parser::parse_test() {
  Node node = make(ShellNode::Kind::kTest, lexer_.peek().word.line);
  lexer_.set_in_test(true);
  lexer_.next();
  while (!lexer_.peek().is_word("]]")) {
    if (lexer_.peek().kind == ShellToken::Kind::kEnd) {
      lexer_.fail("[[ is never closed by ]]", node->line);
    }
    const ShellToken token = lexer_.next();
    if (!token.is("\n")) {
      node->words.push_back(token.word);
    }
  }
  lexer_.set_in_test(false);
  lexer_.next();
  return node;
}

Parser::Node Parser::parse_function(RawWord name) {
  Node node = make(ShellNode::Kind::kFunction, name.line);
  node->words.push_back(std::move(name));
  skip_newlines();
  node->children.push_back(parse_command());
  return node;
}

void Parser::parse_redirects(ShellNode& node) {
  while (parse_redirect(node)) {
  }
}

bool Parser::parse_redirect(ShellNode& node) {
  static constexpr std::string_view kRedirects[] = {"<<<", "<<-", "<<", ">>", "<&", ">&",
                                                    "&>>", "&>",  ">|", "<>", "<",  ">"};
  const ShellToken& token = lexer_.peek();
  if (token.kind != ShellToken::Kind::kOperator ||
      std::find(std::begin(kRedirects), std::end(kRedirects), token.word.text) ==
          std::end(kRedirects)) {
    return false;
  }
  Redirect redirect;
  redirect.op = lexer_.next().word.text;
  if (lexer_.peek().kind != ShellToken::Kind::kWord) {
    unexpected();
  }
  redirect.target = lexer_.next().word;
  // Heredocs keep a pointer to their redirect, so a node's redirects must not move.
  if (node.redirects.empty()) {
    node.redirects.reserve(16);
  }
  if (node.redirects.size() == node.redirects.capacity()) {
    lexer_.fail("more than 16 redirections in one command", redirect.target.line);
  }
  node.redirects.push_back(std::move(redirect));
  Redirect& stored = node.redirects.back();
  if (stored.op == "<<" || stored.op == "<<-") {
    lexer_.expect_heredoc(&stored, stored.op == "<<-");
  }
  return true;
}

Parser::Node Parser::parse_simple() {
  Node node = make(ShellNode::Kind::kSimple, lexer_.peek().word.line);
  if (lexer_.peek().is_word("function")) {
    lexer_.next();
    if (lexer_.peek().kind != ShellToken::Kind::kWord) {
      unexpected();
    }
    RawWord name = lexer_.next().word;
    if (lexer_.peek().is("(")) {
      lexer_.next();
      expect(")");
    }
    return parse_function(std::move(name));
  }
  while (true) {
    if (parse_redirect(*node)) {
      continue;
    }
    if (lexer_.peek().kind != ShellToken::Kind::kWord) {
      break;
    }
    node->words.push_back(lexer_.next().word);
    if (node->words.size() == 1 && lexer_.peek().is("(")) {
      lexer_.next();
      expect(")");
      return parse_function(std::move(node->words[0]));
    }
  }
  if (node->words.empty() && node->redirects.empty()) {
    unexpected();
  }
  return node;
}

}  // namespace

ShellNodes parse_shell(std::string_view text, const std::string& origin, int first_line) {
  if (text.size() > kMaxScriptBytes) {
    throw_error(ErrorCode::kInvalidArgument, "{}: has {} bytes; launch scripts have at most {}",
                origin, text.size(), kMaxScriptBytes);
  }
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    throw_error(
        ErrorCode::kInvalidArgument, "{}:{}: holds a zero byte, so it is no script", origin,
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n'));
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  std::string clean;
  clean.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) {
      clean += text[i];
    }
  }
  return Parser(clean, origin, first_line).parse();
}

std::vector<RawWord> split_array_words(const RawWord& inside, const std::string& origin) {
  std::vector<RawWord> words;
  ShellLexer lexer(inside.text, origin, inside.line);
  while (lexer.peek().kind != ShellToken::Kind::kEnd) {
    const ShellToken token = lexer.next();
    if (token.kind == ShellToken::Kind::kWord) {
      words.push_back(token.word);
    } else if (!token.is("\n")) {
      lexer.fail(fmt::format("'{}' is not expected in an array", token.word.text), token.word.line);
    }
  }
  return words;
}

}  // namespace plait
