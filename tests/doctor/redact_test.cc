#include "doctor/redact.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace plait {
namespace {

TEST(Redact, TakesSecretsOut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv12", "export HF_TOKEN=[removed: token]"},
      {"curl -H 'Authorization: Bearer abc.def.ghi' x",
       "curl -H 'Authorization: Bearer [removed: token]' x"},
      {R"({"password": "open sesame"})", R"({"password": "[removed: password] sesame"})"},
      {"login with passwd=swordfish, please", "login with passwd=[removed: password], please"},
      {"AWS_SECRET_ACCESS_KEY=abcd", "AWS_SECRET_ACCESS_KEY=[removed: token]"},
      {"id AKIAIOSFODNN7EXAMPLE1 used", "id [removed: token] used"},
      {"git clone https://ci:hunter2@git.example.org/a.git",
       "git clone https://[removed: login in a URL]@git.example.org/a.git"},
      {"api_key: sk-aaaaaaaaaaaaaaaaaaaa1111", "api_key: [removed: token]"},
      {"--api-key abcdefgh12345678abcd --port 80", "--api-key [removed: token] --port 80"},
      {"auth_token='A1b2C3d4E5f6G7h8'", "auth_token='[removed: token]'"},
  };
  for (const auto& [text, expected] : cases) {
    RedactionCounts counts;
    EXPECT_EQ(redacted(text, counts), expected);
    EXPECT_EQ(counts.size(), 1U) << text;
  }
}

TEST(Redact, KeepsWhatIsNone) {
  for (const std::string text : {
           "Avg prompt throughput: 10 tokens/s, num_tokens=4096, max_token: 8192",
           "eos_token_id=151645 pad_token=<|endoftext|> bos_token: '<s>'",
           "[ERROR] HCCL(9,python):2025-01-02-03:04:05.000.001 tag[AllReduce_192.0.2.1%eth0_6]",
           "tokenizer.json and token.cc:17: unexpected token",
           "see https://example.org/a@b and ssh user@host",
           "Permission denied (publickey,password).",
           "the secret is out",
       }) {
    RedactionCounts counts;
    EXPECT_EQ(redacted(text, counts), text);
    EXPECT_TRUE(counts.empty()) << text;
  }
}

TEST(Redact, PrivateKeysGoWhole) {
  RedactionCounts counts;
  EXPECT_EQ(redacted("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIB\nAAAA\n-----END RSA PRIVATE "
                     "KEY-----\nb\n",
                     counts),
            "a\n[removed: private key]\nb\n");
  EXPECT_EQ(counts["private key"], 1);
}

TEST(Redact, IsDoneOnce) {
  RedactionCounts counts;
  const std::string once = redacted("password=abc token=A1b2C3d4E5f6G7h8\n", counts);
  RedactionCounts again;
  EXPECT_EQ(redacted(once, again), once);
  EXPECT_TRUE(again.empty());
}

}  // namespace
}  // namespace plait
