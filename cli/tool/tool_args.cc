// SPDX-License-Identifier: Apache-2.0
#include "cli/tool/tool_args.h"

#include <fmt/core.h>
#include <charconv>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "cli/bench/bench_args.h"
#include "cli/options/command_words.h"
#include "cli/options/option_table.h"
#include "cli/options/options.h"
#include "cli/support/version.h"
#include "cli/tool/command_outline.h"

namespace nfsrdma::cli {
namespace {

constexpr size_t kHelpWidth = 100;
// A limit that keeps sums of seconds inside the clock's range; it is many years.
constexpr unsigned kMaxSeconds = 1'000'000'000;

// Converts `--rsize=65536` and `--rsize 65536` of the verb `mount` to `-o rsize=65536`. So all options are in
// one list in their order, and an unknown one gets the same answer as with -o.
std::vector<std::string> options_as_lists(const std::vector<std::string>& arguments) {
  static const std::set<std::string> kOwn{"--help", "--foreground", "--debug",   "--verbose",
                                          "--fake", "--options",    "--persist", "--bookmark"};
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    if (argument == "-o" || argument == "--options") {  // the value may begin with dashes
      out.push_back(argument);
      if (++i < arguments.size()) out.push_back(arguments[i]);
      continue;
    }
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || kOwn.contains(argument.substr(0, equals))) {
      out.push_back(argument);
      continue;
    }
    std::string item = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const OptionSpec* spec = find_option(item).spec;
    const bool takes_value = spec != nullptr && spec->kind != OptionKind::kSwitch &&
                             spec->kind != OptionKind::kRefused && spec->kind != OptionKind::kIgnored;
    if (equals != std::string::npos) {
      item += "=" + escape_option(argument.substr(equals + 1));
    } else if (takes_value && i + 1 < arguments.size()) {
      item += "=" + escape_option(arguments[++i]);
    }
    out.insert(out.end(), {"-o", item});
  }
  return out;
}

std::string mount_footer() {
  return fmt::format(
      "Mount options, as -o NAME[=VALUE],... or --NAME[=VALUE] ('-' and '_' are equal):\n\n{}\n"
      "Exit status, as mount(8): 0 mounted, 1 usage or permission, 2 system error, 4 internal error,\n"
      "8 interrupted, 32 the mount failed.\n",
      options_help(kHelpWidth));
}

constexpr const char* kToolFooter =
    "'nfsrdma-fuse COMMAND --help' explains a command.\n"
    "Exit status: 0 done, 1 failed, 2 usage, 3 not a mount of this program, 4 done with a warning.";

struct Mount {
  MountRequest request;
  std::vector<std::string> lists;

  void add_to(CLI::App& app) {
    CLI::App* verb = app.add_subcommand("mount", "Mount an NFSv4.1 export");
    verb->add_option("SOURCE", request.source, "host:/path, [ipv6]:/path or nfs://host[:port]/path")
        ->required();
    verb->add_option("DIR", request.directory, "where to mount it")->required();
    verb->add_option("-o,--options", lists, "mount options, separated by commas")
        ->type_name("LIST")
        ->allow_extra_args(false);
    CLI::Option* foreground = verb->add_flag("-f,--foreground", request.foreground,
                                             "stay in the foreground, log to standard error");
    CLI::Option* debug = verb->add_flag("-d,--debug", request.debug, "as -f, with log_level=debug");
    verb->add_flag("-v,--verbose", request.verbose, "say what is done");
    CLI::Option* fake = verb->add_flag("--fake", request.fake, "do everything but the mount");
    verb->add_flag("--persist", request.persist,
                   "once it is mounted, write it down for each boot (root: /etc/fstab) or login")
        ->excludes(fake)
        ->excludes(foreground)
        ->excludes(debug);
    verb->add_option("--bookmark", request.bookmark,
                     "once it is mounted, show it in file managers' side bars under this name")
        ->type_name("NAME")
        ->excludes(fake)
        ->excludes(foreground)
        ->excludes(debug);
    verb->footer(mount_footer());
  }
};

std::optional<unsigned> number(const std::string& text) {
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() || value > kMaxSeconds) return std::nullopt;
  return value;
}

struct Stats {
  StatsVerb verb;
  std::vector<std::string> operands;
  std::string format = "table";

  void add_to(CLI::App& app) {
    CLI::App* sub = app.add_subcommand("stats", "Show what a mount has done");
    // CLI11 2.4 allows no spaces or colons in a name.
    sub->add_option("DIR", operands, "the mount (default: all); seconds between reports; number of reports")
        ->option_text("[DIR] [INTERVAL [COUNT]]")
        ->type_name("")
        ->expected(0, 3);
    sub->add_flag("--ops", verb.operations,
                  "also FUSE operations, and median, 99 % and maximum of the latencies");
    sub->add_flag("--processes", verb.processes, "who causes the load: also requests and bytes by process");
    sub->add_flag("--xprt", verb.transports, "also connections");
    sub->add_option("--since", verb.since, "only what happened since this file was written by --format json")
        ->type_name("FILE");
    sub->add_option("--format", format, "table, json, prometheus or mountstats (for 'mountstats -f FILE')")
        ->type_name("FORMAT")
        ->check(one_of({"table", "json", "prometheus", "mountstats"}))
        ->capture_default_str();
  }

  Outcome<StatsVerb> take() {
    const auto usage = [](const char* text) {
      return refuse(ToolExit::kUsage, fmt::format("{}; see 'nfsrdma-fuse stats --help'", text));
    };
    size_t at = 0;
    if (at < operands.size() && !number(operands[at])) verb.directory = operands[at++];
    if (at < operands.size()) {
      const auto interval = number(operands[at++]);
      if (!interval || *interval == 0) return usage("stats: INTERVAL must be a number of seconds");
      verb.interval = std::chrono::seconds(*interval);
    }
    if (at < operands.size()) {
      verb.count = number(operands[at++]);
      if (!verb.count || *verb.count == 0) return usage("stats: COUNT must be a number");
    }
    if (at < operands.size()) return usage("stats: only [DIR] [INTERVAL [COUNT]] are taken");
    verb.format = format == "json"         ? StatsFormat::kJson
                  : format == "prometheus" ? StatsFormat::kPrometheus
                  : format == "mountstats" ? StatsFormat::kMountstats
                                           : StatsFormat::kTable;
    if (verb.format == StatsFormat::kPrometheus && !verb.since.empty()) {
      return usage("stats: Prometheus wants counters since the mount; --since does not go with it");
    }
    return verb;
  }
};

struct Trace {
  TraceVerb verb;
  std::string operations;
  double above_ms = 0;
  uint64_t count = 0;
  unsigned seconds = 0;
  const CLI::Option* count_given = nullptr;
  const CLI::Option* seconds_given = nullptr;

  void add_to(CLI::App& app) {
    CLI::App* sub =
        app.add_subcommand("trace", "Show each operation of a mount, or capture its RPC messages");
    sub->add_option("DIR", verb.directory, "the mount")->required();
    sub->add_option("--ops", operations, "only these, separated by commas: lookup, read, write...")
        ->type_name("LIST");
    sub->add_option("--path", verb.path, "only paths within the mount that match, e.g. '/src/*'")
        ->type_name("PATTERN");
    sub->add_option("--process", verb.process, "only of this process: its PID, or the name of its command")
        ->type_name("PID|COMMAND");
    sub->add_option("--above", above_ms, "only what took at least so many milliseconds")
        ->type_name("MS")
        ->check(within(0, kMaxSeconds));
    sub->add_flag("--failed", verb.failures, "only what failed");
    count_given = sub->add_option("--count", count, "end after so many operations, or messages")
                      ->type_name("N")
                      ->check(within(1, 1e15));
    seconds_given = sub->add_option("--duration", seconds, "end after so many seconds (default: with Ctrl-C)")
                        ->type_name("S")
                        ->check(within(1, kMaxSeconds));
    sub->add_flag("--json", verb.json, "a line of JSON for each operation");
    sub->add_option(
           "--pcap", verb.pcap,
           "instead, write the RPC messages, with file data, to FILE (- for standard output) for Wireshark")
        ->type_name("FILE");
  }

  Outcome<TraceVerb> take() {
    for (size_t at = 0; at < operations.size();) {
      const size_t end = std::min(operations.find(',', at), operations.size());
      std::string name = operations.substr(at, end - at);
      for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      if (!name.empty()) verb.operations.push_back(std::move(name));
      at = end + 1;
    }
    verb.at_least = std::chrono::nanoseconds(static_cast<int64_t>(above_ms * 1e6));
    if (count_given->count() != 0) verb.count = count;
    if (seconds_given->count() != 0) verb.duration = std::chrono::seconds(seconds);
    const bool sorts = !verb.operations.empty() || !verb.path.empty() || !verb.process.empty() ||
                       above_ms != 0 || verb.failures || verb.json;
    if (!verb.pcap.empty() && sorts) {
      return refuse(ToolExit::kUsage,
                    "trace: --pcap writes every message; use Wireshark's filters to select; see "
                    "'nfsrdma-fuse trace --help'");
    }
    return verb;
  }
};

struct Top {
  TopVerb verb;
  double interval = 1;
  unsigned count = 0;

  void add_to(CLI::App& app) {
    CLI::App* sub =
        app.add_subcommand("top", "Watch mounts live: throughput, operations, latencies, processes");
    sub->add_option("DIR", verb.directory, "the mount (default: all)");
    sub->add_flag("-b,--batch", verb.batch, "print reports instead, for scripts");
    sub->add_option("-n,--count", count, "so many reports (default: without end)")
        ->type_name("N")
        ->check(within(1, kMaxSeconds))
        ->needs("--batch");
    sub->add_option("-i,--interval", interval, "seconds between looks, 0.1 to 3600")
        ->type_name("S")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    sub->add_flag("-p,--processes", verb.processes, "begin with who causes the load, by process");
    sub->footer("Keys: up and down choose the mount, p shows processes or operations, h helps, q quits.");
  }

  TopVerb take() {
    if (count != 0) verb.count = count;
    verb.interval = std::chrono::milliseconds(std::lround(interval * 1000));
    return verb;
  }
};

std::string unknown_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string_view> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  const std::string nearest = nearest_word(given, verbs);
  if (nearest.empty()) return fmt::format("there is no command \"{}\"; see 'nfsrdma-fuse --help'", given);
  return fmt::format("there is no command \"{}\"; did you mean \"{}\"?", given, nearest);
}

// The whole command line, and the variables for its values.
struct Tool {
  CLI::App app{"NFSv4.1 in user space: mounts NFS exports through FUSE.", "nfsrdma-fuse"};
  bool version = false;
  Mount mount;
  UmountVerb umount;
  unsigned timeout = 0;
  const CLI::Option* limit = nullptr;
  StatusVerb status;
  Stats stats;
  Top top;
  ProbeVerb probe;
  std::vector<std::string> probe_lists;
  doctor::DoctorVerb doctor;
  bench::BenchArguments benchmark;
  LogLevelVerb log_level;
  Trace trace;

  Tool() {
    use_plain_words(app);
    app.require_subcommand(1);
    app.footer(kToolFooter);
    app.add_flag("-V,--version", version, "show the version");
    mount.add_to(app);
    add_umount();
    CLI::App* sub = app.add_subcommand("status", "Show a mount's options, connection and session");
    sub->add_option("DIR", status.directory, "the mount (default: all)");
    sub->add_flag("--json", status.json, "as JSON");
    stats.add_to(app);
    top.add_to(app);
    add_probe();
    add_doctor();
    benchmark.add_to(app);
    sub = app.add_subcommand("log-level", "Show or change how much a mount logs");
    sub->add_option("DIR", log_level.directory, "the mount")->required();
    sub->add_option("LEVEL", log_level.level, "error, warning, info, debug or trace");
    trace.add_to(app);
  }

 private:
  void add_umount() {
    CLI::App* sub = app.add_subcommand("umount", "Unmount, and wait until all data is on the server");
    sub->add_option("DIR", umount.directory, "the mount point, or its SOURCE")->required();
    sub->add_flag("-l,--lazy", umount.lazy, "detach now, finish in the background");
    sub->add_flag("-f,--force", umount.force, "give up what the server does not take");
    sub->add_flag("-v,--verbose", umount.verbose, "say what is done");
    sub->add_flag("--forget", umount.forget,
                  "also take away what 'mount --persist' and '--bookmark' wrote; DIR need not be mounted");
    limit = sub->add_option("--timeout", timeout, "give up waiting after so many seconds")
                ->type_name("S")
                ->check(within(1, kMaxSeconds));
  }

  void add_probe() {
    CLI::App* sub = app.add_subcommand("probe", "Try a server step by step, and list what it exports");
    sub->add_option("SERVER", probe.server, "the server, and a path on it to list")
        ->option_text("SERVER[:/PATH]")
        ->type_name("")
        ->required();
    sub->add_option("-o,--options", probe_lists, "mount options to try it with (port, proto...)")
        ->type_name("LIST")
        ->allow_extra_args(false);
  }

  void add_doctor() {
    CLI::App* sub =
        app.add_subcommand("doctor", "Look for what is wrong here, with a mount or with a server");
    sub->add_option("WHAT", doctor.what,
                    "a mount, or a server and a path on it (default: this machine and your mounts)")
        ->option_text("[DIR|SERVER[:/PATH]]")
        ->type_name("");
    sub->add_flag("--json", doctor.json, "as JSON");
    CLI::Option* bundle =
        sub->add_option("--bundle", doctor.bundle,
                        "write an archive for a bug report, without names of files, hosts and exports")
            ->type_name("FILE.tar.gz");
    sub->add_flag("--with-names", doctor.with_names, "with these names")->needs(bundle);
    sub->footer(
        "Ends within half a minute. Exit status: 0 nothing is bad, 1 something is, 2 usage, 3 not a mount of "
        "this program.");
  }
};

}  // namespace

std::string version_text() {
  return fmt::format("nfsrdma-fuse {}\n", kVersion);
}

CommandOutline tool_outline() {
  const Tool tool;
  return outline_of(tool.app);
}

Outcome<ToolCommand> parse_tool_arguments(std::vector<std::string> arguments) {
  const bool mounting = !arguments.empty() && arguments.front() == "mount";
  const int usage = mounting ? static_cast<int>(MountExit::kUsage) : static_cast<int>(ToolExit::kUsage);
  if (mounting) arguments = options_as_lists(arguments);

  Tool tool;
  CLI::App& app = tool.app;

  const std::string first = arguments.empty() ? std::string() : arguments.front();
  const auto verbs = app.get_subcommands([&](const CLI::App* one) { return one->get_name() == first; });
  const CLI::App* named = verbs.empty() ? nullptr : verbs.front();
  if (!first.empty() && first.front() != '-' && named == nullptr)
    return refuse(usage, unknown_command(app, first));
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 parses from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    for (const CLI::App* called : app.get_subcommands())
      return ToolCommand(ShowText{called->help("nfsrdma-fuse")});
    return ToolCommand(ShowText{app.help()});
  } catch (const CLI::ParseError& error) {
    if (tool.version) return ToolCommand(ShowText{version_text()});
    const std::string help = named == nullptr ? "nfsrdma-fuse" : "nfsrdma-fuse " + first;
    return refuse(usage, usage_text(named == nullptr ? app : *named, error, help));
  }

  const auto append = [](const std::vector<std::string>& lists, std::vector<RawOption>& out) -> Outcome<> {
    for (const std::string& list : lists) {
      auto options = split_options(list);
      if (!options) return tl::unexpected(std::move(options).error());
      out.insert(out.end(), options->begin(), options->end());
    }
    return {};
  };
  const std::string verb = app.get_subcommands().front()->get_name();
  if (verb == "mount") {
    if (auto done = append(tool.mount.lists, tool.mount.request.options); !done)
      return tl::unexpected(std::move(done).error());
    return ToolCommand(std::move(tool.mount.request));
  }
  if (verb == "umount") {
    if (tool.limit->count() != 0) tool.umount.timeout = std::chrono::seconds(tool.timeout);
    return ToolCommand(std::move(tool.umount));
  }
  if (verb == "status") return ToolCommand(std::move(tool.status));
  if (verb == "stats") {
    auto taken = tool.stats.take();
    if (!taken) return tl::unexpected(std::move(taken).error());
    return ToolCommand(*std::move(taken));
  }
  if (verb == "trace") {
    auto taken = tool.trace.take();
    if (!taken) return tl::unexpected(std::move(taken).error());
    return ToolCommand(*std::move(taken));
  }
  if (verb == "doctor") return ToolCommand(std::move(tool.doctor));
  if (verb == "top") return ToolCommand(tool.top.take());
  if (verb == "bench") {
    auto taken = tool.benchmark.take();
    if (!taken) return tl::unexpected(std::move(taken).error());
    return ToolCommand(*std::move(taken));
  }
  if (verb == "probe") {
    if (auto done = append(tool.probe_lists, tool.probe.options); !done)
      return refuse(ToolExit::kUsage, done.error().text);
    return ToolCommand(std::move(tool.probe));
  }
  return ToolCommand(std::move(tool.log_level));
}

}  // namespace nfsrdma::cli
