// SPDX-License-Identifier: Apache-2.0
// One binary, three programs: nfsrdma-fuse, mount.nfsrdma-fuse (mount.fuse.rpcrdma for remounts) and
// umount.fuse.rpcrdma. argv[0] selects the program.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "cli/mount/helper_args.h"
#include "cli/mount/mount_command.h"
#include "cli/mount/mount_table.h"
#include "cli/server/probe.h"
#include "cli/tool/tool_args.h"
#include "cli/tool/tool_commands.h"
#include "cli/top/top_command.h"

namespace nfsrdma::cli {
namespace {

int show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

// The command line of the parent process.
std::vector<std::string> parent_command_line() {
  std::ifstream file(fmt::format("/proc/{}/cmdline", getppid()));
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

int mount_helper(const std::string& program, const std::vector<std::string>& arguments) {
  auto request = parse_mount_arguments(arguments);
  if (!request) return report(program, request.error());
  if (geteuid() == 0) {  // dev, suid and libmount's table are only for root
    const std::vector<std::string> parent = parent_command_line();
    if (took_from_fstab(parent, *request))
      request->written = fstab_options(fstab_of_mount(parent), request->source, request->directory);
    const std::vector<RawOption> typed = options_of_mount(parent);
    request->written.insert(request->written.end(), typed.begin(), typed.end());
    const std::vector<RawOption> kept = words_kept_by_mount(request->written);
    request->options.insert(request->options.begin(), kept.begin(), kept.end());
  }
  if (request->help) return show(mount_helper_usage(program));
  if (request->version) return show(version_text());
  return run_mount(program, *request);
}

int umount_helper(const std::string& program, const std::vector<std::string>& arguments) {
  const auto request = parse_umount_arguments(arguments);
  if (!request) return report(program, request.error());
  if (request->help) return show(umount_helper_usage(program));
  if (request->version) return show(version_text());
  return run_umount_helper(program, *request);
}

// Ends the process without waiting for the doctor's unanswered requests, which still run on other threads.
[[noreturn]] void end_doctor(int status) {
  std::fflush(nullptr);
  std::_Exit(status);
}

int tool(const std::string& program, const std::vector<std::string>& arguments) {
  const auto command = parse_tool_arguments(arguments);
  if (!command) return report(program, command.error());
  return std::visit(
      [&](const auto& verb) -> int {
        using Verb = std::decay_t<decltype(verb)>;
        if constexpr (std::is_same_v<Verb, MountRequest>) return run_mount(program, verb);
        if constexpr (std::is_same_v<Verb, UmountVerb>) return run_umount(program, verb);
        if constexpr (std::is_same_v<Verb, StatusVerb>) return run_status(program, verb);
        if constexpr (std::is_same_v<Verb, StatsVerb>) return run_stats(program, verb);
        if constexpr (std::is_same_v<Verb, TopVerb>) return run_top(program, verb);
        if constexpr (std::is_same_v<Verb, ProbeVerb>) return run_probe(program, verb);
        if constexpr (std::is_same_v<Verb, LogLevelVerb>) return run_log_level(program, verb);
        if constexpr (std::is_same_v<Verb, TraceVerb>) return run_trace(program, verb);
        if constexpr (std::is_same_v<Verb, bench::BenchVerb>) return run_bench(program, verb);
        if constexpr (std::is_same_v<Verb, doctor::DoctorVerb>) end_doctor(run_doctor(program, verb));
        if constexpr (std::is_same_v<Verb, ShowText>) return show(verb.text);
      },
      *command);
}

// Opens /dev/null for each standard descriptor that is closed. Otherwise a file opened later would get the
// descriptor, and would be lost when the descriptor is redirected to /dev/null.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);  // takes the lowest free descriptor
  }
}

int run(const std::vector<std::string>& argv) {
  open_standard_descriptors();
  const std::string program = argv.empty() ? "nfsrdma-fuse" : program_name(argv.front());
  const std::vector<std::string> arguments(argv.begin() + (argv.empty() ? 0 : 1), argv.end());
  switch (personality_of(program)) {
    case Personality::kMountHelper: return mount_helper(program, arguments);
    case Personality::kUmountHelper: return umount_helper(program, arguments);
    case Personality::kTool: break;
  }
  return tool(program, arguments);
}

}  // namespace
}  // namespace nfsrdma::cli

int main(int argc, char** argv) {
  try {
    return nfsrdma::cli::run({argv, argv + argc});
  } catch (const std::exception& error) {
    const std::vector<std::string> arguments(argv, argv + argc);
    return nfsrdma::cli::report("nfsrdma-fuse", nfsrdma::cli::defect(arguments, error.what()));
  }
}
