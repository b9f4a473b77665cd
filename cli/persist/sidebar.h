// SPDX-License-Identifier: Apache-2.0
// A mount in the side bars of file managers, under a name that a person gave it: GTK's bookmarks (GNOME,
// Xfce, Cinnamon) and KDE's places.
//
//     ~/.config/gtk-3.0/bookmarks        a line for each, "file:///PATH NAME"
//     ~/.local/share/user-places.xbel    XBEL; only where KDE has made it: it fills in its own places when it
//     does
//
// ($XDG_CONFIG_HOME, $XDG_DATA_HOME.) Other entries keep every byte. Pure functions but for the last two.
#pragma once

#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace nfsrdma::cli {

// "file:///..." with what RFC 3986 wants escaped.
std::string file_url(std::string_view path);

std::string with_bookmark(std::string_view text, std::string_view directory, std::string_view name);
std::string without_bookmark(std::string_view text, std::string_view directory);

// A text without "</xbel>" is left as it is.
std::string with_place(std::string_view text, std::string_view directory, std::string_view name);
std::string without_place(std::string_view text, std::string_view directory);

// Of the calling user.
Outcome<> add_to_sidebars(const std::string& directory, const std::string& name);
Outcome<bool> remove_from_sidebars(const std::string& directory);  // false: it was in none

}  // namespace nfsrdma::cli
