// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/helper_args.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

namespace nfsrdma::cli {
namespace {

// The rules of getopt(3) without its global state: single letters that may be joined, values joined or
// separate, "--".
class Letters {
 public:
  using Flag = std::function<void()>;
  using Value = std::function<Outcome<>(const std::string&)>;

  void flag(char letter, Flag set) { flags_[letter] = std::move(set); }
  void value(char letter, Value set) { values_[letter] = std::move(set); }
  void word(std::string name, Flag set) { words_[std::move(name)] = std::move(set); }

  Outcome<std::vector<std::string>> parse(const std::vector<std::string>& arguments) const {
    std::vector<std::string> operands;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "--") {
        operands.insert(operands.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        arguments.end());
        break;
      }
      if (argument.size() < 2 || argument[0] != '-') {
        operands.push_back(argument);
      } else if (argument[1] == '-') {
        const auto word = words_.find(argument);
        if (word == words_.end())
          return refuse(MountExit::kUsage, fmt::format("unknown option {}", argument));
        word->second();
      } else if (auto done = joined(arguments, i); !done) {
        return tl::unexpected(std::move(done).error());
      }
    }
    return operands;
  }

 private:
  // One argument such as -rv, -oro or -o (its value is then the next argument).
  Outcome<> joined(const std::vector<std::string>& arguments, size_t& i) const {
    const std::string& argument = arguments[i];
    for (size_t at = 1; at < argument.size(); ++at) {
      const char letter = argument[at];
      if (const auto flag = flags_.find(letter); flag != flags_.end()) {
        flag->second();
        continue;
      }
      const auto value = values_.find(letter);
      if (value == values_.end()) return refuse(MountExit::kUsage, fmt::format("unknown option -{}", letter));
      if (at + 1 < argument.size()) return value->second(argument.substr(at + 1));
      if (i + 1 == arguments.size())
        return refuse(MountExit::kUsage, fmt::format("option -{} needs a value", letter));
      return value->second(arguments[++i]);
    }
    return {};
  }

  std::map<char, Flag> flags_;
  std::map<char, Value> values_;
  std::map<std::string, Flag> words_;
};

bool is_mount(const std::vector<std::string>& program) {
  return !program.empty() && program_name(program.front()) == "mount";
}

}  // namespace

Outcome<MountRequest> parse_mount_arguments(const std::vector<std::string>& arguments) {
  MountRequest request;
  Letters letters;
  letters.flag('r', [&] { request.options.push_back({"ro", {}}); });
  letters.flag('w', [&] { request.options.push_back({"rw", {}}); });
  letters.flag('v', [&] { request.verbose = true; });
  letters.flag('f', [&] { request.fake = true; });
  letters.flag('n', [&] { request.no_mount_table = true; });
  letters.flag('s', [&] { request.sloppy = true; });
  letters.flag('h', [&] { request.help = true; });
  letters.flag('V', [&] { request.version = true; });
  letters.word("--help", [&] { request.help = true; });
  letters.word("--version", [&] { request.version = true; });
  letters.value('t', [](const std::string&) -> Outcome<> { return {}; });  // always the type of this helper
  letters.value('N', [&](const std::string& name) -> Outcome<> {
    request.mount_namespace = name;
    return {};
  });
  letters.value('o', [&](const std::string& list) -> Outcome<> {
    auto options = split_options(list);
    if (!options) return tl::unexpected(std::move(options).error());
    request.options.insert(request.options.end(), options->begin(), options->end());
    return {};
  });
  auto operands = letters.parse(arguments);
  if (!operands) return tl::unexpected(std::move(operands).error());
  if (request.help || request.version) return request;
  if (operands->size() != 2) {
    return refuse(MountExit::kUsage,
                  operands->size() < 2 ? "SOURCE and DIR are needed" : "only SOURCE and DIR are taken");
  }
  request.source = (*operands)[0];
  request.directory = (*operands)[1];
  return request;
}

Outcome<UmountRequest> parse_umount_arguments(const std::vector<std::string>& arguments) {
  UmountRequest request;
  Letters letters;
  letters.flag('f', [&] { request.force = true; });
  letters.flag('l', [&] { request.lazy = true; });
  letters.flag('n', [] {});
  letters.flag('r', [&] { request.read_only = true; });
  letters.flag('v', [&] { request.verbose = true; });
  letters.flag('h', [&] { request.help = true; });
  letters.flag('V', [&] { request.version = true; });
  letters.word("--help", [&] { request.help = true; });
  letters.word("--version", [&] { request.version = true; });
  letters.value('t', [](const std::string&) -> Outcome<> { return {}; });
  letters.value('N', [&](const std::string& name) -> Outcome<> {
    request.mount_namespace = name;
    return {};
  });
  auto operands = letters.parse(arguments);
  if (!operands) return tl::unexpected(std::move(operands).error());
  if (request.help || request.version) return request;
  if (operands->size() != 1) return refuse(MountExit::kUsage, "one DIR is needed");
  request.directory = operands->front();
  return request;
}

std::vector<RawOption> options_of_mount(const std::vector<std::string>& parent) {
  std::vector<RawOption> written;
  if (!is_mount(parent)) return written;
  const auto take = [&](const std::string& list) {
    if (const auto options = split_options(list))
      written.insert(written.end(), options->begin(), options->end());
  };
  for (size_t i = 1; i < parent.size() && parent[i] != "--"; ++i) {
    const std::string& argument = parent[i];
    const size_t letter = argument.find('o');
    if (argument == "--options") {
      if (++i < parent.size()) take(parent[i]);
    } else if (argument.starts_with("--options=")) {
      take(argument.substr(argument.find('=') + 1));
    } else if (argument.starts_with('-') && !argument.starts_with("--") && letter != std::string::npos) {
      if (letter + 1 < argument.size()) {
        take(argument.substr(letter + 1));
      } else if (++i < parent.size()) {
        take(parent[i]);
      }
    }
  }
  return written;
}

std::string fstab_of_mount(const std::vector<std::string>& parent) {
  if (!is_mount(parent)) return {};
  for (size_t i = 1; i < parent.size() && parent[i] != "--"; ++i) {
    if ((parent[i] == "-T" || parent[i] == "--fstab") && i + 1 < parent.size()) return parent[i + 1];
    if (parent[i].starts_with("--fstab=")) return parent[i].substr(parent[i].find('=') + 1);
  }
  return {};
}

bool took_from_fstab(const std::vector<std::string>& parent, const MountRequest& request) {
  if (!is_mount(parent)) return false;
  // True if `word` names the source or the directory, also as --source=X or --target=X. mount(8) has made the
  // path of the directory absolute.
  const auto names = [&](const std::string& word, bool directory) {
    const std::string text =
        word.starts_with("--") ? word.substr(std::min(word.find('=') + 1, word.size())) : word;
    std::error_code none;
    return directory ? std::filesystem::weakly_canonical(text, none) == request.directory
                     : text == request.source;
  };
  const auto named = [&](bool directory) {
    return std::any_of(parent.begin() + 1, parent.end(),
                       [&](const auto& word) { return names(word, directory); });
  };
  return !named(false) || !named(true);
}

std::vector<RawOption> words_kept_by_mount(const std::vector<RawOption>& written) {
  bool dev = false, suid = false;
  for (const RawOption& option : written) {
    if (option.name == "dev" || option.name == "nodev") dev = option.name == "dev";
    if (option.name == "suid" || option.name == "nosuid") suid = option.name == "suid";
    if (option.name == "user" || option.name == "users" || option.name == "owner" || option.name == "group")
      dev = suid = false;
  }
  std::vector<RawOption> words;
  if (dev) words.push_back({"dev", {}});
  if (suid) words.push_back({"suid", {}});
  return words;
}

std::string mount_helper_usage(std::string_view program) {
  return fmt::format(
      "Usage: {0} SOURCE DIR [-rwvVhfns] [-N namespace] [-t type] [-o options]\n"
      "\n"
      "Mounts an NFSv4.1 export; usually run by mount(8) as 'mount -t nfsrdma-fuse SOURCE DIR'.\n"
      "SOURCE is host:/path, [ipv6]:/path or nfs://host[:port]/path.\n"
      "\n"
      "  -o LIST   options, separated by commas; 'nfsrdma-fuse mount --help' explains them\n"
      "  -r, -w    read-only, read-write\n"
      "  -v        say what is done\n"
      "  -f        do everything but the mount\n"
      "  -s        skip unknown options instead of failing\n"
      "  -n        accepted: there is no mtab to leave alone\n"
      "  -N NS     mount in this mount namespace (a process ID or a namespace file)\n"
      "  -h, -V    this text, the version\n"
      "\n"
      "mount(8) does not hand on dev and suid, which it takes for the default: they are read from its own "
      "command\n"
      "line. An fstab line has no other way than 'nfsrdma-fuse mount', or dev and suid in "
      "/etc/nfsrdma-fuse.conf.\n"
      "\n"
      "Exit status, as mount(8): 0 mounted, 1 usage or permission, 2 system error, 4 internal error,\n"
      "8 interrupted, 32 the mount failed.\n",
      program);
}

std::string umount_helper_usage(std::string_view program) {
  return fmt::format(
      "Usage: {0} DIR [-fnlrv] [-N namespace] [-t type]\n"
      "\n"
      "Unmounts DIR and waits until all data is on the server; usually run by umount(8). The kernel calls "
      "the\n"
      "type fuse.rpcrdma: 'umount -a -t fuse.rpcrdma' is all of them, 'umount -a -t nfsrdma-fuse' none.\n"
      "\n"
      "  -l        detach now, finish in the background\n"
      "  -f        give up what the server does not take\n"
      "  -r        if DIR is busy, remount it read-only\n"
      "  -v        say what is done\n"
      "  -n        accepted: there is no mtab to leave alone\n"
      "  -N NS     unmount in this mount namespace\n"
      "  -h, -V    this text, the version\n"
      "\n"
      "Exit status, as mount(8): 0 unmounted, 1 usage or permission, 2 system error, 32 failed.\n",
      program);
}

std::string program_name(std::string_view argv0) {
  const size_t slash = argv0.rfind('/');
  return std::string(slash == std::string_view::npos ? argv0 : argv0.substr(slash + 1));
}

Failure defect(const std::vector<std::string>& argv, std::string_view what) {
  const bool tool = argv.empty() || personality_of(argv[0]) == Personality::kTool;
  const bool mounts = argv.size() > 1 && argv[1] == "mount";
  std::string line = fmt::format("internal error: {}", what);
  return tool && !mounts ? Failure(ToolExit::kFailed, std::move(line))
                         : Failure(MountExit::kInternal, std::move(line));
}

Personality personality_of(std::string_view argv0) {
  const std::string name = program_name(argv0);
  if (name.starts_with("mount.")) return Personality::kMountHelper;
  if (name.starts_with("umount.")) return Personality::kUmountHelper;
  return Personality::kTool;
}

}  // namespace nfsrdma::cli
