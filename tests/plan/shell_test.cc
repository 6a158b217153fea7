#include "plan/readers/shell.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "plan/plan_texts.h"

namespace plait {
namespace {

ShellScript read_script(const std::string& text, const ShellOptions& options = {}) {
  return read_shell(text, "run.sh", options);
}

// The last command, its words joined by '|'.
std::string last(const ShellScript& script) {
  std::string joined;
  if (script.commands.empty()) {
    return "(none)";
  }
  for (const ShellWord& word : script.commands.back().words) {
    joined += (joined.empty() ? "" : "|") + word.text;
  }
  return joined;
}

std::string last(const std::string& text, const ShellOptions& options = {}) {
  return last(read_script(text, options));
}

std::string refusal(const std::string& text) {
  return refusal_of([&] { read_script(text); });
}

TEST(Shell, QuotesCommentsAndContinuations) {
  EXPECT_EQ(last("run a 'b c' \"d e\"  # comment\n"), "run|a|b c|d e");
  EXPECT_EQ(last("run --x 1 \\\n  --y 2\n"), "run|--x|1|--y|2");
  EXPECT_EQ(last("# only\nrun '#' a#b\n"), "run|#|a#b");
  EXPECT_EQ(last("run \"\" ''\n"), "run||");
  EXPECT_EQ(last("run a\\ b \"\\$X\" '$X'\n"), "run|a b|$X|$X");
  EXPECT_EQ(last("run $'a'\n"), "run|a");
}

TEST(Shell, VariablesAreSplitUnlessQuoted) {
  EXPECT_EQ(last("A=\"--x 1 \\\n   --y 2\n\"\nrun $A \"$A\"\n"),
            "run|--x|1|--y|2|--x 1    --y 2\n");
  EXPECT_EQ(last("A=1\nA+=2\nrun ${A}x $A.y\n"), "run|12x|12.y");
  EXPECT_EQ(last("A=\nrun $A b\n"), "run|b");
}

TEST(Shell, DefaultsAndTrims) {
  EXPECT_EQ(last("run ${TP:-8} ${PP-2}\n"), "run|8|2");
  EXPECT_EQ(last("TP=4\nrun ${TP:-8} ${TP:+yes} ${NO:+yes}\n"), "run|4|yes");
  EXPECT_EQ(last("run ${A:=3} $A\n"), "run|3|3");
  EXPECT_EQ(last("F=/a/b/c.tar.gz\nrun ${F##*/} ${F%%.*} ${F#/a} ${#F}\n"),
            "run|c.tar.gz|/a/b/c|/b/c.tar.gz|13");
  EXPECT_EQ(last("run ${A:-${B:-inner}}\n"), "run|inner");
}

TEST(Shell, Arithmetic) {
  EXPECT_EQ(last("N=8\nM=2\nrun $(($N*$M)) $((N*M+1)) $(( (N-2) / M % 2 )) $((2**5)) $((N>M?1:0))"),
            "run|16|17|1|32|1");
  EXPECT_NE(refusal("\nrun $((1/0))\n").find("run.sh:2"), std::string::npos);
  EXPECT_NE(refusal("run $((9223372036854775807*2))\n").find("64 bits"), std::string::npos);
  EXPECT_NE(refusal("run $((1e30))\n").find("64-bit"), std::string::npos);
}

TEST(Shell, Arrays) {
  EXPECT_EQ(last("A=(\n --x 1  # one\n --y \"2 3\"\n)\nrun ${A[@]} \"${A[@]}\" ${#A[@]} ${A[1]}\n"),
            "run|--x|1|--y|2|3|--x|1|--y|2 3|4|1");
  EXPECT_EQ(last("A=(a)\nA+=(b c)\nrun \"${A[@]}\"\n"), "run|a|b|c");
}

TEST(Shell, WordsKnowTheirLines) {
  const ShellScript script = read_script("TP=8\nARGS=\"\n  --tp $TP\n  --pp 2\n\"\nrun $ARGS\n");
  const auto& words = script.commands.back().words;
  ASSERT_EQ(words.size(), 5U);
  EXPECT_EQ(words[1].line, 3);  // --tp
  EXPECT_EQ(words[2].line, 1);  // 8
  EXPECT_EQ(words[3].line, 4);
}

TEST(Shell, ExportsReachTheCommand) {
  const ShellScript script = read_script("export A=1\nB=2\nC=3\nexport C\nD=4 run\nE=5 env\n", {});
  ASSERT_EQ(script.commands.size(), 2U);
  const auto& environment = script.commands[0].environment;
  EXPECT_EQ(environment.at("A").text, "1");
  EXPECT_EQ(environment.count("B"), 0U);
  EXPECT_EQ(environment.at("C").text, "3");
  EXPECT_EQ(environment.at("D").text, "4");
  EXPECT_EQ(script.commands[1].environment.count("D"), 0U);
  EXPECT_EQ(script.variables.at("B").text, "2");
}

TEST(Shell, UnknownValuesKeepTheirReason) {
  const ShellScript script = read_script("DATA=$1\nN=$(nproc)\nrun $DATA $N $OUTSIDE `hostname`\n");
  const auto& words = script.commands.back().words;
  ASSERT_EQ(words.size(), 5U);
  EXPECT_FALSE(words[1].known());
  EXPECT_NE(words[1].unknown.find("--set 1=VALUE"), std::string::npos);
  EXPECT_NE(words[2].unknown.find("not evaluated"), std::string::npos);
  EXPECT_NE(words[3].unknown.find("OUTSIDE"), std::string::npos);
  EXPECT_EQ(script.not_evaluated.size(), 2U);
  EXPECT_EQ(last("run $1 $N\n", {.settings = {{"1", "data"}, {"N", "4"}}}), "run|data|4");
  // Settings win over the script.
  EXPECT_EQ(last("N=8\nrun $N\n", {.settings = {{"N", "4"}}}), "run|4");
}

TEST(Shell, ConditionsThatAreKnownAreDecided) {
  EXPECT_EQ(last("TP=8\nif [ $TP -gt 1 ]; then SP=--sp; else SP=; fi\nrun $SP\n"), "run|--sp");
  EXPECT_EQ(last("M=a\nif [[ $M == b ]]; then X=1; elif [[ $M == a* && -n $M ]]; then X=2; fi\n"
                 "run $X\n"),
            "run|2");
  EXPECT_EQ(last("M=7b\ncase $M in\n 13b) L=40;;\n 7b|8b) L=32 ;;\n *) L=1;;\nesac\nrun $L\n"),
            "run|32");
  EXPECT_EQ(last("if [ -z \"$NNODES\" ]; then NNODES=2; fi\nrun $NNODES\n"), "run|2");
  EXPECT_EQ(last("[ -z \"$N\" ] && N=3\nrun $N\n"), "run|3");
}

TEST(Shell, ConditionsThatAreNotKnownKeepWhatWasBefore) {
  const ShellScript script =
      read_script("TP=2\nif command -v npu-smi; then TP=8; NEW=1; fi\nrun $TP $NEW\n");
  EXPECT_EQ(last(script), "run|2|$NEW");
  EXPECT_FALSE(script.commands.back().words[2].known());
  ASSERT_EQ(script.assumptions.size(), 1U);
  EXPECT_NE(script.assumptions[0].text.find("TP"), std::string::npos);
  EXPECT_EQ(script.assumptions[0].where.line, 2);
}

TEST(Shell, LoopsAndFunctions) {
  const ShellScript loop = read_script("for TP in 1 2 4; do\n run --tp $TP\ndone\n");
  EXPECT_EQ(last(loop), "run|--tp|$TP");
  EXPECT_NE(loop.commands.back().words[2].unknown.find("--set TP=VALUE"), std::string::npos);
  EXPECT_EQ(last("f() {\n local X=$1\n run $X ${2:-d}\n}\nf a\n"), "run|a|d");
  EXPECT_EQ(last("while read line; do X=1; done < file\nrun ok\n"), "run|ok");
}

TEST(Shell, EvalOfKnownTextIsRead) {
  EXPECT_EQ(last("CMD=\"torchrun --x 1 a.py\"\neval $CMD\n"), "torchrun|--x|1|a.py");
}

TEST(Shell, EvalOfTextThatIsPartlyKnownIsReadAroundIt) {
  const ShellScript script = read_script("eval torchrun --nnodes $NODES a.py --tp 4 '>' log\n");
  EXPECT_EQ(last(script), "torchrun|--nnodes|$NODES|a.py|--tp|4");
  EXPECT_NE(script.commands.back().words[2].unknown.find("--set NODES=VALUE"), std::string::npos);
  const ShellScript all_unknown = read_script("true\neval \"$(curl example)\"\nrun ok\n");
  EXPECT_EQ(last(all_unknown), "run|ok");
  ASSERT_EQ(all_unknown.not_evaluated.size(), 2U);
  EXPECT_EQ(all_unknown.not_evaluated[1].where.line, 2);
}

TEST(Shell, NestedShellsAreRead) {
  const std::string inner = "run --tp 4 --rank $SLURM_PROCID";
  EXPECT_EQ(last("CMD='run --tp 4'\nsrun -N 2 bash -c \"$CMD --rank \\$SLURM_PROCID\" 2>&1\n"),
            "srun|-N|2|run|--tp|4|--rank|$SLURM_PROCID");
  EXPECT_EQ(last("export T=4\nsrun bash -c 'cd /x && run --tp $T'\n"), "srun|run|--tp|4");
  EXPECT_EQ(last("docker exec box bash -lc \"A=1 run --tp 4\"\n"), "run|--tp|4");
  EXPECT_EQ(last("bash -l -o pipefail -c 'run --tp 4'\n"), "run|--tp|4");
  EXPECT_EQ(last("bash -c 'run --tp 4 \"$@\" $1' _ --pp 2\n"), "run|--tp|4|--pp|2|--pp");
  EXPECT_EQ(last("bash run.sh -c config\n"), "bash|run.sh|-c|config");
  EXPECT_NE(refusal("run() { bash -c run; }\nrun\n").find("nested too deeply"), std::string::npos);
}

TEST(Shell, NestedShellsSeeTheAssignmentsBeforeThem) {
  const ShellScript script = read_script("T=4 srun bash -c 'run --tp $T'\nrun $T\n");
  ASSERT_EQ(script.commands.size(), 2U);
  EXPECT_EQ(script.commands[0].words.back().text, "4");
  EXPECT_EQ(script.commands[0].environment.at("T").text, "4");
  EXPECT_FALSE(script.commands[1].words.back().known());
  EXPECT_EQ(last("f() { run --tp $T; }\nT=4 f\n"), "run|--tp|4");
}

TEST(Shell, NestedShellsKeepTheirVariablesAndTheirExit) {
  EXPECT_EQ(last("T=1\nbash -c 'T=4; exit 0'\nrun $T\n"), "run|1");
  EXPECT_EQ(last("T=1\n(T=4; exit 0)\nrun $T\n"), "run|1");
  EXPECT_EQ(last("run ok\neval 'exit 0'\nrun no\n"), "run|ok");
}

TEST(Shell, ANestedShellThatIsNoScriptIsNoted) {
  const ShellScript script = read_script("bash -c 'if true; then'\nrun ok\n");
  EXPECT_EQ(last(script), "run|ok");
  ASSERT_EQ(script.not_evaluated.size(), 1U);
  EXPECT_NE(script.not_evaluated[0].text.find("could not be read"), std::string::npos);
}

TEST(Shell, QuotesWithinNestedText) {
  // The apostrophe within double quotes quotes nothing: what follows is still not known.
  const ShellScript script = read_script("eval run \"\\\"it's\\\" --tp $TP\"\n");
  ASSERT_EQ(script.commands.size(), 1U);
  EXPECT_EQ(last(script), "run|it's|--tp|$TP");
  EXPECT_FALSE(script.commands[0].words.back().known());
  EXPECT_EQ(last("eval \"run --tp 4 # don't\nrun '$TP' x\"\n"), "run|$TP|x");
}

TEST(Shell, WhatABranchSetsSaysWhatItWaitsFor) {
  const ShellScript script = read_script(
      "if [[ $1 == big ]]; then TP=8; fi\nif [[ $(x) == 1 ]]; then "
      "PP=$TP; fi\nrun --pp $PP\n");
  EXPECT_NE(script.commands.back().words.back().unknown.find("command substitution"),
            std::string::npos)
      << script.commands.back().words.back().unknown;
}

TEST(Shell, LoopsOfArithmeticAreRead) {
  EXPECT_EQ(last("for ((i = 0; i < 4; i++)); do run --rank $i; done\n"), "run|--rank|$i");
}

TEST(Shell, CountsOfABatchHeaderAreVariables) {
  const std::string header =
      "#!/bin/bash\n#SBATCH --nodes=4 # machines\n#SBATCH --ntasks-per-node 2\n"
      "#SBATCH --gres=gpu:a100:8\n";
  EXPECT_EQ(last(header + "run $SLURM_NNODES $SLURM_JOB_NUM_NODES $SLURM_NTASKS\n"), "run|4|4|8");
  EXPECT_EQ(last(header + "run $SLURM_NTASKS_PER_NODE $SLURM_GPUS_ON_NODE\n"), "run|2|8");
}

TEST(Shell, OptionsOfABatchHeader) {
  const std::string more = "#SBATCH --gres=lscratch:200,gpu:4\n#SBATCH -n 16\n";
  EXPECT_EQ(last(more + "run $SLURM_GPUS_ON_NODE $SLURM_NTASKS\n"), "run|4|16");
  const std::string tasks = "#SBATCH --ntasks=16\n#SBATCH --ntasks-per-node=8\n";
  EXPECT_EQ(last(tasks + "run $SLURM_NNODES\n"), "run|2");
  EXPECT_EQ(last("#SBATCH -N2\n#SBATCH -G 16\nrun $SLURM_GPUS_ON_NODE\n"), "run|8");
  EXPECT_EQ(last("#SBATCH -N 2 -n 16 # two servers\nrun $SLURM_NNODES $SLURM_NTASKS\n"),
            "run|2|16");
  EXPECT_FALSE(read_script("#SBATCH --gres=lscratch:200\nrun $SLURM_GPUS_ON_NODE\n")
                   .commands.back()
                   .words.back()
                   .known());
  EXPECT_EQ(last("#SBATCH -N 2\nA=one\nif [ -n \"$SLURM_JOB_ID\" ]; then A=two; fi\nrun $A\n"),
            "run|two");
  // Slurm reads up to the first command.
  EXPECT_EQ(last("#SBATCH -N 2\ncat <<EOF > job\n#SBATCH -N 8\nEOF\nrun $SLURM_NNODES\n"), "run|2");
  EXPECT_FALSE(
      read_script("cd x\n#SBATCH -N 8\nrun $SLURM_NNODES\n").commands.back().words.back().known());
  EXPECT_EQ(last("#SBATCH -N 2\nif [ -z $SLURM_JOB_ID ]; then sbatch $0; exit; fi\nrun ok\n"),
            "run|ok");
  const ShellScript script = read_script("#!/bin/bash\n#SBATCH --nodes=4\nrun $SLURM_NNODES\n");
  EXPECT_EQ(script.commands.back().words.back().line, 2);
}

TEST(Shell, NumbersOfDescriptorsAreNoWords) {
  EXPECT_EQ(last("run --tp 2 2>&1 | tee log\nrun --tp 2 2>/dev/null 1>>log\n"), "run|--tp|2");
  EXPECT_EQ(last("run --tp 2 > log\n"), "run|--tp|2");
}

TEST(Shell, AGuardThatExitsIsReadPast) {
  const ShellScript script =
      read_script("MODEL=''\nif [ -z \"$MODEL\" ]; then echo usage; exit 1; fi\nrun ok\n");
  EXPECT_EQ(last(script), "run|ok");
  EXPECT_NE(script.assumptions.back().text.find("exit 1"), std::string::npos);
  EXPECT_EQ(last("run ok\nexit 0\nrun no\n"), "run|ok");
}

TEST(Shell, ArgumentsThatAreNotGivenAreNotLoopedOver) {
  EXPECT_EQ(last("for p in $*; do if [[ $p == --tp* ]]; then TP=${p#*=}; fi; done\n"
                 "run ${TP:-8}\n"),
            "run|8");
  // Emptied first, filled from arguments: what it is is not known.
  const ShellScript script =
      read_script("X=\"\"\nwhile [[ $# -gt 0 ]]; do X=$1; shift; done\nrun --x $X\n");
  EXPECT_FALSE(script.commands.back().words.back().known());
}

TEST(Shell, NothingIsExecuted) {
  const std::string marker = testing::TempDir() + "plait_shell_marker";
  std::filesystem::remove(marker);
  read_script("X=$(touch " + marker + ")\n`touch " + marker + "`\ntouch " + marker + "\necho > " +
              marker + "\nrun <(touch " + marker + ")\n");
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST(Shell, HereDocumentsAreKept) {
  const ShellScript script =
      read_script("STAGE=2\nCFG=ds.json\ncat <<EOF > $CFG\n{\"stage\": $STAGE}\nEOF\nrun $CFG\n");
  EXPECT_EQ(script.files.at("ds.json").text, "{\"stage\": 2}\n");
  EXPECT_EQ(script.files.at("ds.json").line, 4);
  EXPECT_EQ(last(script), "run|ds.json");
}

TEST(Shell, TextThatIsNoScriptIsRefusedWithItsLine) {
  for (const char* text :
       {"a\nrun 'open\n", "a\nif true; then\n", "a\nrun $((1\n", "a\n)\n", "a\nfi\n",
        "a\nrun ${X\n", "a\ncat <<EOF\nno end\n", "a\nA=(1 2\n", "a\nrun \"$(x\n"}) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find("run.sh:"), std::string::npos) << text << message;
  }
  EXPECT_NE(refusal(std::string("a\nb\0c\n", 6)).find("run.sh:2"), std::string::npos);
}

TEST(Shell, WorkIsBounded) {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) {
    doubling += "A=$A$A\n";
  }
  EXPECT_NE(refusal(doubling).find("expands"), std::string::npos);
  EXPECT_NE(refusal("f() { f; f; }\nf\n").find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal("run " + std::string(3000, '(')), "accepted");
  // So is the environment.
  std::string exports;
  for (int i = 0; i < 15000; ++i) {
    exports += "A" + std::to_string(i) + "=1\nr\n";
  }
  EXPECT_NE(refusal(exports), "accepted");
  // A prefix is copied to every command of its text.
  std::string prefix = "srun";
  for (int i = 0; i < 3000; ++i) {
    prefix += " -l";
  }
  std::string many = prefix + " bash -c '";
  for (int i = 0; i < 5000; ++i) {
    many += "r\n";
  }
  EXPECT_NE(refusal(many + "'\n").find("expands"), std::string::npos);
  std::string nested = "x";
  for (int i = 0; i < 500; ++i) {
    nested.insert(0, "${A:-").append("}");
  }
  EXPECT_NE(refusal("run " + nested), "accepted");
  EXPECT_NE(refusal("run $((" + std::string(5000, '(') + "1" + std::string(5000, ')') + "))"),
            "accepted");
}

TEST(Shell, ByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(last("\xEF\xBB\xBFTP=8\r\nrun --tp $TP \\\r\n  --pp 2\r\n"), "run|--tp|8|--pp|2");
}

}  // namespace
}  // namespace plait
