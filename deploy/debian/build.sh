#!/usr/bin/env bash
# Makes a Debian package of a built program:  deploy/debian/build.sh PROGRAM FOLDER
# Prints the package's path. The same program and the same SOURCE_DATE_EPOCH (default: of the last commit) give the same bytes.
set -euo pipefail
umask 022

program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/../.."
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}" LC_ALL=C TZ=UTC

work=$(mktemp -d "$out/tree.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree="$work/postroom"
version=$("$program" version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)

install -d "$tree"/{DEBIAN,usr/bin,lib/systemd/system,etc/postroom,etc/default,usr/share/man/man1}
strip --strip-unneeded -o "$tree/usr/bin/postroom" "$program"
install -m 640 deploy/debian/default "$tree/etc/default/postroom"
install -m 644 deploy/postroom.service "$tree/lib/systemd/system/"
"$program" config init -o json --config "$tree/etc/postroom/config.toml" >/dev/null
"$program" man --dir "$tree/usr/share/man/man1" >/dev/null
gzip -9n "$tree"/usr/share/man/man1/*

completions() {
  install -d "$tree/usr/share/$2"
  "$program" completions "$1" >"$tree/usr/share/$2/$3"
}
completions bash bash-completion/completions postroom
completions zsh zsh/vendor-completions _postroom
completions fish fish/vendor_completions.d postroom.fish

doc="$tree/usr/share/doc/postroom"
install -d "$doc"
install -m 644 deploy/debian/copyright docs/*.md docs/config.schema.json "$doc/"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"

# dpkg-shlibdeps wants the sources of a package; their control file may be empty.
mkdir -p "$work/debian"
touch "$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "$tree/usr/bin/postroom" | sed -n 's/^shlibs:Depends=//p')

printf '%s\n' /etc/default/postroom /etc/postroom/config.toml >"$tree/DEBIAN/conffiles"
install -m 755 deploy/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: postroom
Version: $version
Architecture: $arch
Maintainer: Postroom developers <postroom@localhost>
Installed-Size: $(du -k --apparent-size -s --exclude=DEBIAN "$tree" | cut -f1)
Depends: adduser, $libraries
Recommends: ca-certificates
Section: net
Priority: optional
Description: delivers events that a database has committed
 Postroom gets every committed event out of a database and to whoever must
 know (Kafka, RabbitMQ, NATS, Redis, webhooks, programs), in order per key,
 without losing one. This package has the program and a systemd unit for its
 relay, which is neither enabled nor started: it needs a configuration first.
CONTROL

package="$out/postroom_${version}_$arch.deb"
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$tree" "$package" >/dev/null
echo "$package"
