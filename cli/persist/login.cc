// SPDX-License-Identifier: Apache-2.0
#include "cli/persist/login.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/persist/fstab.h"

namespace nfsrdma::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnit = "nfsrdma-fuse@.service";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

tl::unexpected<Failure> failed(const fs::path& path, const std::error_code& error) {
  return refuse(ToolExit::kFailed, fmt::format("{}: {}", path.string(), error.message()));
}

fs::path configurations(const LoginPlaces& places) {
  return fs::path(places.config) / "nfsrdma-fuse";
}
fs::path configuration(const LoginPlaces& places, const std::string& name) {
  return configurations(places) / (name + ".conf");
}
fs::path unit_link(const LoginPlaces& places, const std::string& name) {
  return fs::path(places.config) / "systemd/user/default.target.wants" /
         fmt::format("nfsrdma-fuse@{}.service", name);
}
fs::path autostart(const LoginPlaces& places, const std::string& name) {
  return fs::path(places.config) / "autostart" / fmt::format("nfsrdma-fuse-{}.desktop", name);
}

std::string value_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with('='))
      return unquote_environment(std::string_view(line).substr(key.size() + 1));
  }
  return {};
}

// The instance whose configuration names the directory; empty if there is none.
std::string instance_of(const LoginPlaces& places, std::string_view directory) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(configurations(places), none)) {
    if (entry.path().extension() != ".conf") continue;
    // The unit runs in the home directory, so relative paths start there.
    if ((fs::path(places.home) / value_of(entry.path(), "DIRECTORY")).lexically_normal() == directory)
      return entry.path().stem();
  }
  return {};
}

std::string new_instance(const LoginPlaces& places, std::string_view directory) {
  const std::string first = instance_name(directory);
  std::string name = first;
  for (unsigned n = 2; fs::exists(configuration(places, name)); ++n) name = fmt::format("{}-{}", first, n);
  return name;
}

Outcome<> write(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return failed(file.parent_path(), error);
  return rewrite_file(file, [&](const std::string&) -> Outcome<std::string> { return text; });
}

std::string installed_unit(const LoginPlaces& places) {
  for (const std::string& place : places.units) {
    const fs::path unit = fs::path(place) / kUnit;
    std::error_code none;
    if (fs::exists(unit, none)) return unit;
  }
  return {};
}

// Formats an argument of Exec= (Desktop Entry Specification, "The Exec key"): quotes it, then escapes it as a
// string.
std::string exec_argument(std::string_view argument) {
  std::string out = "\"";
  for (const char c : argument) {
    if (c == '"' || c == '`' || c == '$') out += "\\\\";
    if (c == '\\') out += "\\\\\\";
    if (c == '%') out += '%';
    out += c;
  }
  return out + '"';
}

std::string autostart_entry(const LoginPlaces& places, const LoginMount& mount) {
  std::string exec = exec_argument(places.program) + " mount";
  if (!mount.options.empty()) exec += " -o " + exec_argument(mount.options);
  exec += fmt::format(" -- {} {}", exec_argument(mount.source), exec_argument(mount.directory));
  return fmt::format(
      "[Desktop Entry]\nType=Application\nName=NFS mount\nComment=Mounts files of a server at "
      "login\nExec={}\n"
      "Icon=nfsrdma-fuse\nNoDisplay=true\nX-GNOME-Autostart-enabled=true\n",
      exec);
}

Outcome<> enable(const LoginPlaces& places, const std::string& unit, const std::string& name) {
  const fs::path link = unit_link(places, name);
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) return failed(link.parent_path(), error);
  fs::remove(link, error);
  fs::create_symlink(unit, link, error);
  if (error) return failed(link, error);
  return {};
}

}  // namespace

LoginPlaces login_places() {
  LoginPlaces places;
  const std::string home = places.home = environment("HOME");
  places.config = environment("XDG_CONFIG_HOME");
  if (places.config.empty()) places.config = home + "/.config";
  std::string data = environment("XDG_DATA_HOME");
  if (data.empty()) data = home + "/.local/share";
  places.units = {places.config + "/systemd/user", data + "/systemd/user", "/etc/systemd/user",
                  "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"};
  char self[PATH_MAX] = {};
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  places.program = n > 0 ? std::string(self, static_cast<size_t>(n)) : "nfsrdma-fuse";
  return places;
}

std::string instance_name(std::string_view directory) {
  const size_t slash = directory.find_last_of('/');
  std::string name(slash == std::string_view::npos ? directory : directory.substr(slash + 1));
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "mount");
  return name;
}

std::string quote_environment(std::string_view value) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+[]";
  if (value.find_first_not_of(kPlain) == std::string_view::npos) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '`' || c == '$') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string unquote_environment(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

Outcome<std::string> add_login_mount(const LoginPlaces& places, const LoginMount& mount) {
  std::string name = instance_of(places, mount.directory);
  if (name.empty()) name = new_instance(places, mount.directory);
  std::string text = fmt::format("SOURCE={}\nDIRECTORY={}\n", quote_environment(mount.source),
                                 quote_environment(mount.directory));
  if (!mount.options.empty()) text += fmt::format("OPTIONS={}\n", quote_environment(mount.options));
  if (std::count(text.begin(), text.end(), '\n') > (mount.options.empty() ? 2 : 3) ||
      text.find('\r') != std::string::npos)
    return refuse(ToolExit::kFailed, "a name with a line break cannot be written down");
  if (auto done = write(configuration(places, name), text); !done) return tl::unexpected(done.error());
  const std::string unit = installed_unit(places);
  const Outcome<> done = unit.empty() ? write(autostart(places, name), autostart_entry(places, mount))
                                      : enable(places, unit, name);
  if (!done) return tl::unexpected(done.error());
  return unit.empty()
             ? autostart(places, name).string()
             : fmt::format("nfsrdma-fuse@{}.service, {}", name, configuration(places, name).string());
}

Outcome<bool> remove_login_mount(const LoginPlaces& places, std::string_view directory) {
  const std::string name = instance_of(places, directory);
  if (name.empty()) return false;
  for (const fs::path& file :
       {unit_link(places, name), autostart(places, name), configuration(places, name)}) {
    std::error_code error;
    fs::remove(file, error);
    if (error) return failed(file, error);
  }
  return true;
}

}  // namespace nfsrdma::cli
