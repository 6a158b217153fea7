#include "plan/readers/launch_words.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "plan/readers/flag_set.h"

namespace plait {
namespace {

std::string base_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool is_python(const std::string& word) {
  return base_name(word).starts_with("python");
}

// torchrun's --nproc_per_node
bool asks_for_all(const std::string& text) {
  return text == "gpu" || text == "auto" || text == "cpu";
}

// Verbs of ms-swift.
bool tunes(const std::string& verb) {
  return verb == "sft" || verb == "pt" || verb == "rlhf";
}

// Options of launchers that take no value, with '_' for '-'; all others take one.
constexpr std::array<std::string_view, 25> kBareOptions = {"--standalone",
                                                           "--no_python",
                                                           "--module",
                                                           "-m",
                                                           "--use_env",
                                                           "--run_path",
                                                           "--no_local_rank",
                                                           "--multi_gpu",
                                                           "--cpu",
                                                           "--use_cpu",
                                                           "--use_deepspeed",
                                                           "--use_fsdp",
                                                           "--use_megatron_lm",
                                                           "--use_xpu",
                                                           "--force_multi",
                                                           "--same_network",
                                                           "--debug",
                                                           "--quiet",
                                                           "-q",
                                                           "--tpu",
                                                           "--bind_cores_to_rank",
                                                           "--no_ssh",
                                                           "--no_ssh_check",
                                                           "--save_pid",
                                                           "--enable_elastic_training"};

bool is_bare_option(std::string option) {
  std::replace(option.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(2, option.size())),
               option.end(), '-', '_');
  return std::find(kBareOptions.begin(), kBareOptions.end(), option) != kBareOptions.end();
}

class Reader {
 public:
  Reader(const std::vector<ShellWord>& words, std::string origin, bool only_looks)
      : words_(words), origin_(std::move(origin)), only_looks_(only_looks) {}

  std::optional<Launch> read();
  bool has_bad_count() const { return has_bad_count_; }

 private:
  const std::string& word(size_t at) const {
    static const std::string empty;
    return at < words_.size() ? words_[at].text : empty;
  }
  int64_t count(size_t at, const std::string& option, const std::string& text);
  void forget_outer_counts();
  bool starts_program(size_t at) const;
  bool find_program(size_t first);
  void find_image();
  void skip_wrappers();
  bool read_mpi();
  void read_options();
  size_t last_python_option() const;
  void set_option(std::string name, size_t at, const std::string& value);
  std::optional<Launch> take_program();
  Launch take_command(ProgramKind kind);
  std::optional<Launch> read_msrun_script();
  void take_arguments() {
    launch_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
  }

  const std::vector<ShellWord>& words_;
  std::string origin_;
  bool only_looks_;
  bool has_bad_count_ = false;
  size_t at_ = 0;
  size_t image_ = 0;  // the word of a container's image that serves; 0: none
  Launch launch_;
};

int64_t Reader::count(size_t at, const std::string& option, const std::string& text) {
  const SourceLine where{origin_, at < words_.size() ? words_[at].line : 0};
  launch_.world_where = where;
  if (only_looks_) {
    const bool known = at < words_.size() && words_[at].known();
    const std::string first = text.substr(0, text.find(':'));
    has_bad_count_ |= known && !parse_integer(first) && !asks_for_all(text);
    return 1;
  }
  if (at < words_.size() && !words_[at].known()) {
    // "$(nvidia-smi -L | wc -l)": asked of the machine that it will run on.
    static constexpr std::string_view kAsked[] = {"device_count", "nvidia-smi", "npu-smi",
                                                  "/dev/davinci"};
    const bool asked =
        std::any_of(std::begin(kAsked), std::end(kAsked),
                    [&](std::string_view what) { return text.find(what) != std::string::npos; });
    if (asked) {
      launch_.asks_machine = true;
      return kAssumedDevices;
    }
    throw_error(ErrorCode::kInvalidArgument, "{}: the value of {} is not known: {}", where.text(),
                option, words_[at].unknown);
  }
  // torchrun's elastic range "1:4": the least.
  const std::string least = text.substr(0, text.find(':'));
  const std::optional<int64_t> value = parse_integer(least);
  if (!value || *value < 1 || *value > kMaxProcesses) {
    if (asks_for_all(text)) {
      launch_.asks_machine = true;
      return kAssumedDevices;
    }
    throw_error(ErrorCode::kInvalidArgument, "{}: {} is {}, but must be 1 to {}", where.text(),
                option, text.substr(0, 40), kMaxProcesses);
  }
  return *value;
}

// True where a program or its launcher stands.
bool Reader::starts_program(size_t at) const {
  const std::string name = base_name(word(at));
  const std::string& verb = word(at + 1);
  const bool script = name.ends_with(".py") && word(at).find(':') == std::string::npos;
  return is_python(name) || script || name == "torchrun" || name == "msrun" ||
         name == "deepspeed" || (name == "accelerate" && verb == "launch") ||
         (name == "vllm" && verb == "serve") || (name == "plait" && verb == "train") ||
         (name == "llamafactory-cli" && verb == "train") ||
         ((name == "swift" || name == "megatron") && tunes(verb));
}

// Goes on to the program that a wrapper runs; false, and no further, if there is none.
bool Reader::find_program(size_t first) {
  for (size_t at = first; at < words_.size(); ++at) {
    if (starts_program(at)) {
      at_ = at;
      return true;
    }
  }
  return false;
}

// "docker run ... vllm/vllm-openai:v0.9 --model M": the image's own program is the server.
void Reader::find_image() {
  for (size_t at = at_; at + 1 < words_.size() && word(at) != "--model"; ++at) {
    const bool image = !word(at).starts_with("-") && word(at).find("vllm") != std::string::npos;
    if (image && word(at + 1).starts_with("--")) {
      image_ = at;
    }
  }
}

// nohup, env A=B, numactl, docker run, srun, mpirun and the like in front of the launcher.
void Reader::skip_wrappers() {
  static constexpr std::string_view kBare[] = {"nohup", "exec", "sudo", "time", "command", "then"};
  static constexpr std::string_view kContainers[] = {"docker",      "podman",    "nerdctl",
                                                     "singularity", "apptainer", "kubectl"};
  static constexpr std::string_view kOptions[] = {"numactl", "taskset", "stdbuf", "nice",
                                                  "timeout", "setsid",  "nsys",   "ncu",
                                                  "uv",      "poetry",  "conda"};
  const auto is_one_of = [](const auto& list, const std::string& name) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  while (at_ < words_.size()) {
    const std::string name = base_name(word(at_));
    if (is_one_of(kBare, name)) {
      ++at_;
    } else if (name == "env") {
      ++at_;
      while (word(at_).find('=') != std::string::npos && !word(at_).starts_with("-")) {
        const size_t equals = word(at_).find('=');
        ShellWord value = words_[at_];
        value.text = word(at_).substr(equals + 1);
        launch_.environment[word(at_).substr(0, equals)] = value;
        ++at_;
      }
    } else if (name == "ray" && word(at_ + 1) == "job" && word(at_ + 2) == "submit") {
      at_ = static_cast<size_t>(
          std::find_if(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end(),
                       [](const ShellWord& one) { return one.text == "--"; }) -
          words_.begin());
      at_ = std::min(at_ + 1, words_.size());
    } else if (is_one_of(kOptions, name) || is_one_of(kContainers, name)) {
      launch_.in_container = launch_.in_container || is_one_of(kContainers, name);
      if (!find_program(at_ + 1)) {
        find_image();
        at_ = image_ > 0 ? image_ : words_.size();
        return;
      }
    } else if (read_mpi()) {
      // "srun ./wrapper.sh train.py": what it does with its arguments is taken to be running them.
      const bool wrapped = word(at_).ends_with(".sh") || word(at_ + 1).ends_with(".sh") ||
                           (at_ < words_.size() && !words_[at_].known());
      if (wrapped && !starts_program(at_)) {
        find_program(at_);
      }
    } else {
      return;
    }
  }
}

// srun -n 16, mpirun -np 16: these start the processes themselves.
bool Reader::read_mpi() {
  const std::string name = base_name(word(at_));
  if (name != "srun" && name != "mpirun" && name != "mpiexec" && name != "deepspeed_mpi") {
    return false;
  }
  launch_.launcher = name;
  ++at_;
  while (at_ < words_.size() && word(at_).starts_with("-")) {
    std::string option = word(at_);
    const size_t equals = option.find('=');
    std::string value = equals == std::string::npos ? word(at_ + 1) : option.substr(equals + 1);
    option = option.substr(0, equals);
    size_t value_at = equals == std::string::npos ? at_ + 1 : at_;
    // "-n8"
    const bool glued =
        option.size() > 2 && option[1] != '-' && option[2] >= '0' && option[2] <= '9';
    if (glued) {
      value = option.substr(2);
      option = option.substr(0, 2);
      value_at = at_;
    }
    const bool total =
        option == "-n" || option == "-np" || option == "--ntasks" || option == "--np";
    if (total) {
      launch_.world = count(value_at, option, value);
    } else if (option == "--ntasks-per-node" || option == "-ppn") {
      launch_.per_server = count(value_at, option, value);
    } else if (option == "-N" || option == "--nodes") {
      launch_.servers = count(value_at, option, value);
    }
    static constexpr std::string_view kFlags[] = {"--allow-run-as-root",
                                                  "--oversubscribe",
                                                  "--exclusive",
                                                  "-l",
                                                  "--label",
                                                  "-u",
                                                  "-lu",
                                                  "-ul",
                                                  "-E",
                                                  "--preserve-env",
                                                  "--unbuffered",
                                                  "--overlap",
                                                  "--kill-on-bad-exit",
                                                  "--pty",
                                                  "--tag-output",
                                                  "--verbose",
                                                  "-v"};
    const bool bare = std::find(std::begin(kFlags), std::end(kFlags), option) != std::end(kFlags);
    const bool pair = option == "-mca" || option == "--mca";
    at_ += equals != std::string::npos || bare || glued ? 1 : pair ? 3 : 2;
  }
  return true;
}

void Reader::set_option(std::string name, size_t at, const std::string& value) {
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "__nproc_per_node" || name == "__num_gpus" || name == "__local_worker_num") {
    launch_.per_server = count(at, words_[at_].text.substr(0, 40), value);
  } else if (name == "__nnodes" || name == "__num_nodes") {
    launch_.servers = count(at, words_[at_].text.substr(0, 40), value);
  } else if (name == "__worker_num" || name == "__num_processes") {
    launch_.world = count(at, words_[at_].text.substr(0, 40), value);
  } else if (name == "__include") {
    // deepspeed --include localhost:0,1,2,3
    const size_t colon = value.find(':');
    if (colon != std::string::npos && value.find('@') == std::string::npos) {
      launch_.per_server =
          1 + std::count(value.begin() + static_cast<std::ptrdiff_t>(colon), value.end(), ',');
      launch_.world_where = {origin_, words_[at_].line};
    }
  }
}

void Reader::read_options() {
  const size_t first = at_;
  while (at_ < words_.size() && word(at_).starts_with("-")) {
    const std::string option = word(at_);
    const size_t equals = option.find('=');
    if (is_bare_option(option)) {
      ++at_;
      continue;
    }
    const bool joined = equals != std::string::npos;
    set_option(option.substr(0, equals), joined ? at_ : at_ + 1,
               joined ? option.substr(equals + 1) : word(at_ + 1));
    at_ += joined ? 1 : 2;
  }
  at_ = std::min(at_, words_.size());
  launch_.launcher_arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(first),
                                    words_.begin() + static_cast<std::ptrdiff_t>(at_));
}

// The word before a module or script: python itself, or the last of its own options.
size_t Reader::last_python_option() const {
  static constexpr std::string_view kAlone[] = {"-u", "-B", "-O", "-OO", "-E", "-I",
                                                "-s", "-S", "-q", "-v",  "-P", "-d"};
  size_t at = at_;
  for (;;) {
    const std::string& next = word(at + 1);
    if (next == "-X" || next == "-W") {
      at += 2;
    } else if (std::find(std::begin(kAlone), std::end(kAlone), next) != std::end(kAlone)) {
      ++at;
    } else {
      return at;
    }
  }
}

// What stands behind the launcher.
std::optional<Launch> Reader::take_program() {
  if (is_python(word(at_))) {
    at_ = last_python_option() + 1;
  }
  if (word(at_) == "-m") {
    ++at_;
  }
  if (at_ >= words_.size()) {
    return std::nullopt;
  }
  launch_.program = word(at_++);
  take_arguments();
  if (launch_.program.starts_with("vllm.entrypoints")) {
    launch_.kind = ProgramKind::kVllm;
  }
  return launch_;
}

// "vllm serve ...": a program whose command is its name and what it is to do.
Launch Reader::take_command(ProgramKind kind) {
  launch_.kind = kind;
  launch_.program = base_name(word(at_)) + " " + word(at_ + 1);
  at_ += 2;
  take_arguments();
  return launch_;
}

// MindFormers: bash scripts/msrun_launcher.sh "run_mindformer.py --config x.yaml" 8
std::optional<Launch> Reader::read_msrun_script() {
  if (at_ + 2 >= words_.size()) {
    return std::nullopt;
  }
  launch_.launcher = "msrun";
  const ShellWord& command = words_[at_ + 2];
  for (size_t begin = 0; begin < command.text.size();) {
    const size_t end = std::min(command.text.find_first_of(" \t\n", begin), command.text.size());
    if (end > begin) {
      ShellWord one = command;
      one.text = command.text.substr(begin, end - begin);
      launch_.arguments.push_back(std::move(one));
    }
    begin = end + 1;
  }
  if (at_ + 3 < words_.size()) {
    launch_.world = count(at_ + 3, "the number of devices", word(at_ + 3));
  }
  if (launch_.arguments.empty()) {
    return std::nullopt;
  }
  launch_.program = launch_.arguments.front().text;
  launch_.arguments.erase(launch_.arguments.begin());
  return launch_;
}

// "srun --ntasks-per-node 1 torchrun ...": what the inner launcher starts counts.
void Reader::forget_outer_counts() {
  launch_.world = launch_.servers = launch_.per_server = 0;
}

std::optional<Launch> Reader::read() {
  skip_wrappers();
  if (at_ >= words_.size()) {
    return std::nullopt;
  }
  launch_.line = words_[at_].line;
  const std::string name = base_name(word(at_));
  const size_t python = is_python(name) ? last_python_option() : at_;
  if (is_python(name) && word(python + 1) == "-m" &&
      (word(python + 2).starts_with("torch.distributed.") ||
       word(python + 2) == "accelerate.commands.launch")) {
    launch_.launcher = word(python + 2);
    forget_outer_counts();
    at_ = python + 3;
    read_options();
    return take_program();
  }
  if (name == "torchrun" || name == "msrun" || name == "deepspeed" ||
      (name == "accelerate" && word(at_ + 1) == "launch")) {
    launch_.launcher = name;
    forget_outer_counts();
    at_ += name == "accelerate" && word(at_ + 1) == "launch" ? 2 : 1;
    read_options();
    return take_program();
  }
  if (image_ > 0) {
    launch_.kind = ProgramKind::kVllm;
    launch_.program = "vllm serve";
    ++at_;
    take_arguments();
    return launch_;
  }
  if (name.ends_with(".py") && !launch_.launcher.empty()) {
    return take_program();
  }
  const std::string& verb = word(at_ + 1);
  if (name == "vllm" && verb == "serve") {
    return take_command(ProgramKind::kVllm);
  }
  if (name == "plait" && verb == "train") {
    return take_command(ProgramKind::kPlait);
  }
  if (name == "megatron" && tunes(verb)) {
    return take_command(ProgramKind::kSwift);
  }
  if ((name == "swift" && tunes(verb)) || (name == "llamafactory-cli" && verb == "train")) {
    launch_.launcher = name;
    forget_outer_counts();
    return take_command(ProgramKind::kPython);
  }
  if ((name == "bash" || name == "sh") && word(at_ + 1).ends_with("msrun_launcher.sh")) {
    return read_msrun_script();
  }
  if (is_python(name)) {
    const std::string& next = word(python + 1);
    // "-c TEXT" and "-" are programs that stand in the script.
    const bool script =
        next.ends_with(".py") || (next.starts_with("-") && next != "-" && !next.starts_with("-c"));
    return script ? take_program() : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Launch> read_launch_words(const std::vector<ShellWord>& words,
                                        const std::string& origin) {
  return Reader(words, origin, false).read();
}

LaunchLook look_at_words(const std::vector<ShellWord>& words, const std::string& origin) {
  Reader reader(words, origin, true);
  LaunchLook look{.launch = reader.read()};
  look.has_bad_count = reader.has_bad_count();
  return look;
}

bool names_program(const ShellWord& word) {
  const std::string name = base_name(word.text);
  return word.known() || (name.size() < word.text.size() && !name.empty() &&
                          name.find_first_of("$`)}") == std::string::npos);
}

}  // namespace plait
