//go:build realserver

package server

import (
	"context"
	"path/filepath"
	"testing"
)

// TestInstalled starts servers the way it is done with programs of the machine's own.
func TestInstalled(t *testing.T) {
	for kind, name := range map[Kind]string{MySQL: "mysqld", MariaDB: "mariadbd"} {
		t.Run(string(kind), func(t *testing.T) {
			ctx := context.Background()
			root, err := Obtain(ctx, kind)
			if err != nil {
				t.Fatal(err)
			}
			// A folder with a blank in its name that holds what an installation has.
			bin := filepath.Join(t.TempDir(), "programs of the machine")
			writeScripts(t, bin, map[string]string{
				name: "exec " + root + "/bin/" + name + ` "$@"`,
				"mariadb-install-db": `[ "$1" = --no-defaults ] || exit 1
for option; do case $option in --datadir=*) data=${option#--datadir=} ;; esac; done
exec ` + root + `/bin/initialize "$data"`,
			})
			s, err := startInstalled(ctx, filepath.Join(bin, name), t.TempDir(), Durable)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}()
			if s.Kind != kind {
				t.Errorf("taken for %s", s.Kind)
			}
			if s.Root() == root {
				t.Error("started from the obtained folder")
			}
			if err := s.Exec(ctx, "CREATE DATABASE d"); err != nil {
				t.Error(err)
			}
		})
	}
}
