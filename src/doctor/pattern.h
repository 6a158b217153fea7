// Patterns of fault rules: one line of a log, matched without regular expressions.
//   text     itself; ASCII letters of both cases match
//   (blank)  one blank or more (tab, no-break space)
//   *        anything, as little as possible
//   ~        an edge: no letter, digit or underscore on one of its sides
//   {name}   a word up to a blank, comma, bracket or quote; kept under its name
//   {name:d} decimal digits    {name:x} hexadecimal digits, 0x allowed    {name:f} a number
//   {name:h} a host name or IPv4 address       {name:p} a path without blanks
//   {name:w} letters                           {name:r} the rest of the line
//   {name:s} up to one of . [ ; or the end
//   {name:l} the rest up to one of ] ) } " or the end
//   {:d}     matched and not kept        \c  the character c itself
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

using Captures = std::map<std::string, std::string>;

class Pattern {
 public:
  // Errors: kInvalidArgument for an unclosed brace, an unknown type, or no literal text of three
  // bytes to search for.
  explicit Pattern(std::string_view text);

  // True if it occurs anywhere in `line`. Linear in the line for each part between gaps. `captures`
  // may be null; on a match the kept words are added.
  bool match(std::string_view line, Captures* captures) const;

  // Lower-case text that every matching line contains, for a search over many patterns at once.
  const std::string& anchor() const { return anchor_; }
  const std::string& text() const { return text_; }

 private:
  enum class Kind {
    kLiteral,
    kBlank,
    kEdge,
    kDigits,
    kHex,
    kNumber,
    kWord,
    kHost,
    kPath,
    kLetters,
    kRest,
    kSentence,
    kBracketed
  };
  struct Token {
    Kind kind = Kind::kLiteral;
    std::string text;  // of a literal, lower case; else the name to keep it under
  };
  using Segment = std::vector<Token>;  // what stands between two gaps

  void parse();
  size_t parse_brace(size_t begin, Segment& segment) const;
  void choose_anchor();
  // End of the segment if it matches at `at`, else npos.
  static size_t match_at(const Segment& segment, std::string_view line, size_t at,
                         Captures* captures);

  std::string text_;
  std::vector<Segment> segments_;
  std::string anchor_;
};

}  // namespace plait
