// SPDX-License-Identifier: Apache-2.0
// Adds a mount to the side bars of file managers, under a name given by the user: GTK's bookmarks (GNOME,
// Xfce, Cinnamon) and KDE's places.
//
//     ~/.config/gtk-3.0/bookmarks        one line each, "file:///PATH NAME"
//     ~/.local/share/user-places.xbel    XBEL; written only if KDE has already created it:
//                                        KDE adds its own places when it creates the file
//
// ($XDG_CONFIG_HOME and $XDG_DATA_HOME replace ~/.config and ~/.local/share.) Other entries keep every byte.
// Pure functions, except the last two.
#pragma once

#include <string>
#include <string_view>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// "file:///...", with the characters escaped that RFC 3986 requires.
std::string file_url(std::string_view path);

std::string with_bookmark(std::string_view text, std::string_view directory, std::string_view name);
std::string without_bookmark(std::string_view text, std::string_view directory);

// A text without "</xbel>" is returned unchanged.
std::string with_place(std::string_view text, std::string_view directory, std::string_view name);
std::string without_place(std::string_view text, std::string_view directory);

// The side bars of the calling user.
Outcome<> add_to_sidebars(const std::string& directory, const std::string& name);
Outcome<bool> remove_from_sidebars(const std::string& directory);  // false: none had it

}  // namespace nfsrdma::cli
